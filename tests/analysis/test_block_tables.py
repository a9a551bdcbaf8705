"""The tables of paper/tables.yaml and their declared tests, by hand from the rates of each run."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import yaml
from scipy import stats

from analysis.contrast import LEVEL
from analysis.data.sources import Source
from analysis.data.studies import Studies
from analysis.tables.in_blocks import FILE, read_tables
from bepo.core.errors import UserError
from bepo.core.places import ROOT
from tests.stored_runs import in_block, rewrite, write_run
from tests.tables import interval_text, mean_text, table_of, texts

Rates = Mapping[str, np.ndarray]  # of each row, a number for each block


def mean(rates):
    return mean_text(100 * rates)


def told(points):
    return interval_text(100 * points)


@dataclass(frozen=True)
class Case:
    """A declared test: its runs by row, the tested number of each block, the rows whose rise makes it true."""

    label: str
    fact: str
    env: str
    study: Callable[[str], str]
    rows: tuple[str, ...]
    points: Callable[[Rates], np.ndarray]
    more: tuple[str, ...]
    says: tuple[str, str]
    first: int = 100
    unseen: int = 0
    shown: Callable[[Rates], dict[str, list[str]]] = lambda rates: {}

    @property
    def blocks(self) -> range:
        return range(self.first, 106)

    def write(self, results, row, block, rate, env=""):
        method, *words = row.split(" ")
        at = {"credit.name": method, "env.name": env or self.env} | in_block(block)
        for word in words:
            name, _, value = word.partition("=")
            if word == "grouped":
                at["rollout.grouped"] = True
            elif name in ("depth", "std"):
                at[f"credit.{name}"] = json.loads(value) if name == "depth" else value
            elif value:
                at[f"loss.{name}"] = json.loads(value)
            else:
                at["loss.name"] = name
        at |= {"rollout.grouped": False} if row == "ppo" else {}
        write_run(results, self.study(row), at, [[1, 0]], metrics={"train/success": rate})


DEPTHS = tuple(f"crbc depth={depth}" for depth in range(4))
DIVIDED = ("graft", "graphhca", "g2po")
METHODS = ("grpo", "gated_bepo", "shrunk_bepo")
MASKED = tuple(f"{m} {loss}" for m in METHODS for loss in ("cispo", "sapo"))
LONG = tuple(f"{m} dr_grpo" for m in METHODS)


def slope(rates):
    every = np.stack([rates[row] for row in (*DEPTHS, "crbc")])
    return np.array([stats.linregress(np.arange(5), own).slope for own in every.T])


def mean_gain(base, change):
    return lambda rates: np.mean([rates[row + change] - rates[row] for row in base], axis=0)


def beyond_half(row, lead):
    return lambda rates: rates[row] - (rates["grpo"] + rates[lead]) / 2


def of_depths(rates):
    rows = dict(zip((*DEPTHS, "crbc"), ("0", "1", "2", "3", "fixed point")))
    return {
        name: [mean(rates[row]), "–" if row == "crbc" else told(rates[row] - rates["crbc"])]
        for row, name in rows.items()
    }


def of_division(rates):
    pairs = {
        name: (rates[row], rates[f"{row} std=none"]) for name, row in zip(("GRAFTʳ", "GraphHCAʳ", "G2PO"), DIVIDED)
    }
    pairs["Mean over methods"] = tuple(np.mean(list(zip(*pairs.values())), axis=1))
    return {name: [mean(own), mean(without), told(without - own)] for name, (own, without) in pairs.items()}


def of_tasks(rates):
    base, same, more = (rates[row] for row in ("grpo", "ppo grouped", "ppo"))
    last = f"{told(rates['rebn'] - base)} ({len(base)})"
    return {"WebShop": [*map(mean, (base, same, more)), told(same - base), told(more - same), last]}


CRITIC = ("critic-lead", "webshop", lambda row: "critic_lead" if "grouped" in row else "blocks")
TASKS = ("grpo", "ppo grouped", "ppo", "rebn")
CASES = [
    Case(
        "crbc-depth", "crbc-depth", "sokoban", lambda row: "blocks" if row == "crbc" else "crbc_depth",
        (*DEPTHS, "crbc"), slope, ("crbc depth=3", "crbc"), ("is positive", "is not positive"), shown=of_depths,
    ),
    Case(
        "state-deviation", "state-deviation", "alfworld", lambda row: "state_deviation" if "=" in row else "frontier",
        (*DIVIDED, *(f"{row} std=none" for row in DIVIDED)), mean_gain(DIVIDED, " std=none"),
        tuple(f"{row} std=none" for row in DIVIDED), ("is higher", "is not higher"), 101, 103, of_division,
    ),
    Case(
        CRITIC[0], "critic-lead", *CRITIC[1:], TASKS, beyond_half("ppo grouped", "ppo"), ("ppo grouped",),
        tuple(f"{verb} more than half of its improvement over GRPO" for verb in ("keeps", "does not keep")),
        shown=of_tasks,
    ),
    Case(
        CRITIC[0], "critic-lead/rebn", *CRITIC[1:], TASKS, beyond_half("rebn", "ppo grouped"), ("rebn",),
        ("has more than half of PPO's improvement", "does not have more than half of PPO's improvement"), unseen=103,
    ),
    Case(
        "blocks-losses", "blocks-losses/sequence-mask", "sokoban", lambda row: "loss_axes",
        (*MASKED, *(f"{row} sequence_mask=0.2" for row in MASKED)), mean_gain(MASKED, " sequence_mask=0.2"),
        tuple(f"{row} sequence_mask=0.2" for row in MASKED), ("helps", "does not help"), unseen=104,
    ),
    Case(
        "blocks-losses", "blocks-losses/length", "sokoban", lambda row: "loss_axes",
        (*LONG, *(f"{row} length=2" for row in LONG)), mean_gain(LONG, " length=2"),
        tuple(f"{row} length=2" for row in LONG), ("helps", "does not help"), unseen=104,
    ),
]  # fmt: skip


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fact.replace("/", "-"))
def test_a_declared_test_is_judged_once_by_its_own_blocks(tmp_path, case, holds):
    rng, rise = np.random.default_rng(3), 0.1 if holds else -0.1
    rates = {row: 0.3 + rise * (row in case.more) + rng.uniform(0, 0.03, len(case.blocks)) for row in case.rows}
    *early, last = enumerate(case.blocks)
    for place, block in early:
        for row in case.rows:
            case.write(tmp_path, row, block, rates[row][place])
    before, count = table_of(tmp_path, case.label), len(case.blocks)
    assert f"{case.fact}/verdict" not in before.facts
    assert f"({count - 1} of {count} blocks at tier laptop)" in " ".join(before.notes)
    for row in case.rows:
        case.write(tmp_path, row, last[1], rates[row][last[0]])
        case.write(tmp_path, row, 106, 0.1 if (row in case.more) == holds else 0.9)  # not declared
    table, points = table_of(tmp_path, case.label), case.points(rates)
    p = stats.ttest_1samp(points, 0, alternative="greater").pvalue
    assert (p < LEVEL) == holds
    verdict = case.says[0] if holds else case.says[1]
    assert table.facts[f"{case.fact}/mean"] == told(points) and table.facts[f"{case.fact}/verdict"] == verdict
    new = points[case.unseen - case.first :] if case.unseen else ()
    alone = f"; {told(new)} in the {len(new)} blocks that had not been seen" if len(new) else ""
    assert f"{verdict} ({told(points)}; one-sided p {p:.2g}{alone})" in " ".join(table.notes)
    rows = {row[0]: row[1:] for row in texts(table)}
    for name, cells in case.shown(rates).items():
        assert rows[name][: 1 + len(cells)] == [str(count), *cells]


def test_a_declared_test_of_several_methods_needs_all_of_them(tmp_path):
    case = CASES[-1]
    for row in (row for row in case.rows if not row.startswith("shrunk_bepo")):
        for block in case.blocks:
            case.write(tmp_path, row, block, 0.3)
    assert table_of(tmp_path, case.label).facts == {} and table_of(tmp_path, case.label, "smoke").facts == {}


def test_differences_by_environment_are_facts(tmp_path):
    case = next(case for case in CASES if case.fact == "critic-lead")
    rates = dict(zip(TASKS, np.random.default_rng(4).uniform(0.2, 0.5, (4, 6))))
    for row, own in rates.items():
        for block, rate in enumerate(own, 100):
            case.write(tmp_path, row, block, rate)
        case.write(tmp_path, row, 100, 0.5, env="sokoban")
    table = table_of(tmp_path, case.label)
    assert texts(table)[0] == ["Sokoban", "1", "50.0", "50.0", "50.0", "0.0", "0.0", "0.0 (1)"]
    assert table.facts["critic-lead/webshop/same"] == told(rates["ppo grouped"] - rates["grpo"])
    assert table.facts["critic-lead/webshop/lead"] == told(rates["ppo"] - rates["grpo"])


def test_losses_are_compared_within_credit_and_block(tmp_path):
    case = CASES[-1]
    assert texts(table_of(tmp_path, case.label)) == []
    rng = np.random.default_rng(5)
    rates = {row: rng.uniform(0.2, 0.6, 4) for row in ("grpo ppo_clip", "grpo gspo", "gigpo ppo_clip")}
    for row, own in rates.items():
        for block, rate in enumerate(own, 100):
            case.write(tmp_path, row, block, rate)
    table = table_of(tmp_path, case.label)
    rows = {(heading, row[0]): row[1:] for heading, row in zip(table.headings, texts(table), strict=True)}
    every = [("GRPO", "ppo_clip"), ("GRPO", "gspo"), ("GiGPO", "ppo_clip"), ("Mean over methods", "ppo_clip")]
    assert list(rows) == every  # gspo has not trained with every method
    gspo, base = rates["grpo gspo"], rates["grpo ppo_clip"]
    assert rows["GRPO", "gspo"][:3] == ["4", mean(gspo), told(gspo - base)]
    assert rows[every[-1]][:2] == ["4", mean((base + rates["gigpo ppo_clip"]) / 2)]
    assert rows["GRPO", "ppo_clip"][2] == rows["GiGPO", "ppo_clip"][2] == "–"


@pytest.mark.parametrize("count", [5, 6])
def test_findings_tell_the_lead_and_what_remains_of_it_if_there_are_six_blocks(tmp_path, count):
    case = next(case for case in CASES if case.fact == "critic-lead")
    rates = np.array([0.3, 0.4, 0.42])[:, None] + np.random.default_rng(4).uniform(0, 0.1, (3, count))
    for row, own in zip(TASKS, rates):
        for block, rate in enumerate(own, 100):
            case.write(tmp_path, row, block, rate)
    for seed in range(2):
        for method in ("grpo", "ppo", "gated_bepo"):
            at = {"credit.name": method, "env.name": "webshop", "seed": seed, "rollout.grouped": method != "ppo"}
            write_run(tmp_path, "main_webshop", at, [[1, 0]], metrics={"train/success": 0.3 + seed / 10})
    answer = next(
        row[2] for row in texts(table_of(tmp_path, "findings")) if row[0] == "What goes with PPO's difference?"
    )
    base, same, more = rates
    expected = f"6 blocks: {told(more - base)} against GRPO, on the same tasks {told(same - base)}"
    assert answer.startswith(expected) == (count == 6) and "5 blocks" not in answer


def test_the_example_of_the_page_is_a_table_with_a_declared_test(tmp_path):
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(two-depths:\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "tables.yaml").write_text(example, encoding="utf-8")
    (table,) = read_tables(tmp_path / "tables.yaml").values()
    rates = {"crbc depth=1": np.array([0.2, 0.22, 0.21]), "crbc": np.array([0.4, 0.41, 0.43])}
    for row, own in rates.items():
        for block, rate in enumerate(own, 100):
            CASES[0].write(tmp_path, row, block, rate)
    source = Source(tmp_path)
    built = table.build(Studies({name: source.study(name, "laptop", table.key) for name in table.studies}))
    assert texts(built) == [
        ["one", "3", mean(rates["crbc depth=1"]), told(rates["crbc depth=1"] - rates["crbc"])],
        ["all", "3", mean(rates["crbc"]), "–"],
    ]
    assert built.facts["two-depths/verdict"] == "is faster" and "all depths is faster (" in built.notes[1]


@pytest.mark.parametrize(
    "path, value, words",
    [
        (["key"], "ROW_IN_BLOKS", "ROW_IN_BLOCKS"),
        (["colums"], [], "colums"),
        (["columns", 0, "measure"], "sped", "speed"),
        (["columns", 0, "off"], "own", "off"),
        (["declared", "crbc-depth", "say"], [], "say"),
        (["declared", "crbc-depth", "measure"], "sped", "speed"),
    ],
)
def test_a_wrong_table_is_one_line(tmp_path, path, value, words):
    content = {"crbc-depth": yaml.safe_load(FILE.read_text(encoding="utf-8"))["crbc-depth"]}
    *parents, last = ["crbc-depth", *path]
    place = content
    for name in parents:
        place = place[name]
    place[last] = value
    (tmp_path / "tables.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(UserError, match=words):
        read_tables(tmp_path / "tables.yaml")


@pytest.mark.parametrize("mixed, named", [(["grpo"], "GRPO"), (["grpo", "gigpo"], "every row with 3 blocks but RLOO")])
def test_a_table_names_rows_from_another_kind_of_processor(mixed, named, tmp_path):
    for method in ("gated_bepo", "grpo", "rloo", "gigpo"):
        for block in (100, 101, 102):
            at = {"credit.name": method} | in_block(block)
            run = write_run(tmp_path, "blocks", at, [[1, 0]], metrics={"train/success": 0.3})
            if method in mixed and block > 100:
                rewrite(run.path, lambda metadata: metadata["sessions"][0]["machine"].update(cpu="another"))
    notes = " ".join(table_of(tmp_path, "blocks-methods").notes)
    assert f"On another kind of processor than Gated-BEPO in the same block: Sokoban, 2 of 3 blocks: {named}." in notes
