"""ALFWorld: games that would take hours are broken, within seconds, and the others go on."""

import json
import re
import time
from dataclasses import replace

import pytest

from bepo.envs import Task
from bepo.envs.alfworld import ALFWorld, grammar
from bepo.envs.alfworld.engine import CompiledGame, FastGame
from bepo.envs.alfworld.grammar import Grammar
from bepo.envs.alfworld.limits import Endless
from bepo.rollouts.task_sets import task_set

SMALL = {"max_receptacles": 8, "horizon": 6}
SECONDS = 20.0


@pytest.fixture(scope="module")
def game_file():
    env = ALFWorld(**SMALL)
    (task,) = task_set(env, "train", 1).tasks
    return dict(env.source.load(task.id, task.data).game_file)


def with_rules(game_file, **rules):
    """Return a game whose introduction is the rule ``r0``."""
    texts = {name: [{"rhs": text}] for name, text in {"intro": "#r0#", **rules}.items()}
    own = f'grammar :: """\n{json.dumps(texts)}\n""";\n'
    start = re.search(r"^action", game_file["grammar"], re.MULTILINE).start()
    text = game_file["grammar"]
    return game_file | {"grammar": text[:start] + own + text[start:]}


def plays(game):
    started = time.process_time()
    try:
        return FastGame(game).reset()
    finally:
        assert time.process_time() - started < SECONDS


DOUBLING = {f"r{n}": f"#r{n + 1}##r{n + 1}#" for n in range(40)}


@pytest.mark.parametrize(
    "rules",
    [
        DOUBLING | {"r40": "x"},
        DOUBLING | {"r40": " "},
        {"r0": "#r0#"},
        {"r0": "a #r1#", "r1": "b #r0#"},
        {"r0": "x" * 9_000 + "#r1##r1#", "r1": "#r2##r2#", "r2": "#r3##r3#", "r3": "#r4##r4#", "r4": "y" * 9_000},
        {f"r{n}": f"[{{#r{n + 1}# | inreceptacle(o{n}:object, r{n}:receptacle)}}]" for n in range(4)} | {"r4": "y"},
        {"r0": "{'y' | " + " & ".join(f"inreceptacle(o{n}:object, r{n}:receptacle)" for n in range(12)) + "}"},
    ],
    ids=["doubling", "empty", "itself", "each other", "long", "lists", "join"],
)
def test_a_text_without_end_is_refused(rules, game_file):
    with pytest.raises((Endless, RecursionError)):
        plays(with_rules(game_file, **rules))


@pytest.mark.parametrize("text", ["{x", "{x |", "[{x", "{x | q(", "{#x# |"])
def test_long_blanks_take_no_time(text, game_file):
    """Where textworld's parser stops, so does this one."""
    assert plays(with_rules(game_file, r0="before" + text + " " * 50_000)) == "before"


def test_rules_that_end_are_derived(game_file):
    few = {f"r{n}": f"#r{n + 1}##r{n + 1}#" for n in range(10)} | {"r10": "x"}
    assert plays(with_rules(game_file, **few)) == "x" * 2**10


@pytest.mark.parametrize("quotes", [5, 51, 5_001])
@pytest.mark.parametrize(
    "text", ["action a {{ {}", "action a {{ template :: {}", 'grammar :: """ {}', "action a {{ {} }}"]
)
def test_unclosed_quotes_take_no_time(quotes, text):
    started = time.process_time()
    with pytest.raises((ValueError, KeyError, Endless)):
        Grammar(text.format('"' * quotes) + "\n")
    assert time.process_time() - started < 1


def test_the_grammar_of_alfworld_is_read_as_before():
    """The expressions before, which take exponential time for unclosed quotes."""
    from bepo.envs.alfworld import package_data

    string = r"\"\"\"(?:.|\n)*?\"\"\"|\"[^\"]*\""
    action = re.compile(rf"action\s+([\w/-]+)\s*\{{((?:{string}|[^\"}}])*)\}}")
    field = re.compile(rf"(template|feedback|grammar)\s*::\s*({string})\s*;")
    top = re.compile(r"^grammar\s*::\s*\"\"\"((?:.|\n)*?)\"\"\"\s*;", re.MULTILINE)
    text = package_data.grammar()
    assert grammar._ACTION.findall(text) == action.findall(text) != []
    assert [block[3:-3] for block in grammar._TOP.findall(text)] == top.findall(text) != []
    for _, body in action.findall(text):
        assert grammar._FIELD.findall(body) == field.findall(body) != []
    query = r"(?:\s*\|\s*(?P<{}>[^;|{{}}\n\[\]#]+))?"
    before = re.compile(
        rf"\[\{{(?P<item>#[^#]*#|[^|\[\]{{}}\n<>]+?){query.format('item_query')}\}}\]"
        rf"|\{{(?P<value>#[^#]*#|[^|\[\]{{}}\n<>]+?){query.format('value_query')}\}}"
        r"|#(?P<rule>[\w()/!<>\-\s,.]+)#|(?P<text>[^;|\"<>\[\]#{}]+)"
    )
    symbols = 0
    for template in Grammar(text).texts():
        old, new = ([*one.finditer(template)] for one in (before, grammar._SYMBOL))
        groups = [[[(group or "").strip() for group in m.groups()] for m in found] for found in (old, new)]
        assert groups[0] == groups[1]
        symbols += len(new)
    assert symbols > 100


def test_an_action_with_many_free_parameters_is_refused(game_file):
    names = " ".join(f"?x{n} - object" for n in range(8))
    more = f"(:action Endless :parameters ({names}) :precondition (and) :effect (and (checked ?x0)))"
    domain = game_file["pddl_domain"].rstrip()
    assert domain.endswith(")")
    text = game_file["grammar"] + '\naction Endless { template :: "endless"; feedback :: "x"; }\n'
    started = time.process_time()
    with pytest.raises(Endless, match="facts for one condition"):
        CompiledGame(game_file | {"pddl_domain": f"{domain[:-1]}{more})", "grammar": text})
    assert time.process_time() - started < SECONDS


def test_a_chain_of_types_takes_no_time(game_file):
    chain = " ".join(f"t{n} - t{n + 1}" for n in range(3_000))
    domain = re.sub(r"\(:types", f"(:types {chain} ", game_file["pddl_domain"], count=1)
    started = time.process_time()
    CompiledGame(game_file | {"pddl_domain": domain})
    assert time.process_time() - started < SECONDS


def test_too_many_objects_are_refused(game_file):
    many = " ".join(f"o{n} - object" for n in range(20_000))
    problem = re.sub(r"\(:objects", f"(:objects {many} ", game_file["pddl_problem"], count=1)
    with pytest.raises(Endless, match="more than 10000 objects"):
        CompiledGame(game_file | {"pddl_problem": problem})


def test_its_episode_is_broken_and_the_others_go_on(game_file, monkeypatch):
    env = ALFWorld(**SMALL)
    tasks = task_set(env, "train", 3).tasks
    own = type(env.source).load

    def load(self, task_id, data):
        files = own(self, task_id, data)
        odd = with_rules(dict(files.game_file), **DOUBLING, r40="x")
        return replace(files, game_file=odd) if task_id == "odd" else files

    monkeypatch.setattr(type(env.source), "load", load)
    episodes = env.start([tasks[0], Task("odd", tasks[1].data, tasks[1].kind), tasks[2]])
    steps = episodes.step({i: "look" for i in range(3)})
    assert [steps[i].broken for i in range(3)] == [False, True, False]
    assert "Endless: more than 10000 rules" in episodes.broken[1] and episodes.expert(1) is None
