"""Prefix trees equal their definition: one node for each distinct prefix."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bepo.policies.lm.prefix_tree import PrefixTree

row = st.lists(st.integers(0, 2), min_size=1, max_size=7)  # so few tokens that rows begin alike
rows = st.lists(row, min_size=1, max_size=8)


def paths(tree):
    return [path[:length].tolist() for path, length in zip(tree.path, tree.length)]


def check(tree, whole):
    """Two positions of two rows share a node if and only if the rows agree up to them."""
    node_of = {tuple(r[: i + 1]): node for r, path in zip(whole, paths(tree)) for i, node in enumerate(path)}
    assert [[node_of[tuple(r[: i + 1])] for i in range(len(r))] for r in whole] == paths(tree)
    assert len(set(node_of.values())) == len(node_of)
    return node_of


@given(rows)
def test_one_node_for_each_distinct_prefix(rows):
    tree = PrefixTree(rows)
    node_of = check(tree, rows)
    assert sorted(node_of.values()) == list(range(tree.size)) and tree.first == 0
    for prefix, node in node_of.items():
        assert tree.ids[node] == prefix[-1] and tree.position[node] == len(prefix) - 1
        assert tree.path[tree.row[node], tree.position[node]] == node


@given(rows, st.data())
def test_a_tree_goes_on_after_another(rows, data):
    """The old nodes keep their numbers, and the new ones are those of the prefixes that grew."""
    before = PrefixTree(rows)
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=4, unique=True))
    grown = [data.draw(row) for _ in chosen]
    tree = PrefixTree(grown, before, chosen)
    known = [path[: before.length[i]] for path, i in zip(paths(tree), chosen)]
    assert known == [paths(before)[i] for i in chosen]
    new = {}  # of a node of the first tree and what follows it
    for path, i, tokens in zip(paths(tree), chosen, grown):
        for k in range(len(tokens)):
            node = path[before.length[i] + k]
            assert new.setdefault((known[chosen.index(i)][-1], *tokens[: k + 1]), node) == node
            assert tree.ids[node - tree.first] == tokens[k]
            assert tree.position[node - tree.first] == before.length[i] + k
    assert sorted(new.values()) == list(range(before.size, tree.size))


@given(rows)
def test_every_new_node_has_a_row_whose_new_nodes_are_consecutive(rows):
    tree = PrefixTree(rows)
    assert (np.diff(tree.row) >= 0).all()
