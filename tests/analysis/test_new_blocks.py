"""The plan of the new blocks: it is frozen, its studies have its runs, and its test keeps its level."""

from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import spearmanr

from analysis.claims.new_blocks import NEXT, OURS, predicted_by_lab, read_plan
from analysis.claims.prediction import over_settings
from analysis.contrast import Contrast
from bepo.core.errors import UserError
from bepo.core.places import EXPERIMENTS, PAPER
from tests.stored_runs import in_block, write_run
from tests.tables import interval_text, table_of, texts, write_rates

TESTS, PARTS = read_plan(NEXT)
ORDER, GROUPS = PARTS["order"], PARTS["groups"]
FIRST = 116  # blocks 100 to 115 have been read


def studied(name):
    params = yaml.safe_load((EXPERIMENTS / f"{name}.yaml").read_text(encoding="utf-8"))["hydra"]["sweeper"]["params"]
    return {key: str(value).split(",") for key, value in params.items()}


def test_the_studies_have_the_blocks_and_methods_of_the_plan():
    study, groups = studied("next"), studied("next_groups")
    blocks = {str(FIRST + i) for test in TESTS for i in range(test.blocks)}
    assert blocks <= set(study["seed"])
    short = {"ppo_ungrouped": "ppo", "hgpo_official": "hgpo", "graphgpo_official": "graphgpo", "g2po_official": "g2po"}
    methods = {short.get(credit, credit).removesuffix("_action_ratio") for credit in study["credit"]}
    assert {OURS, *(test.less for test in TESTS), *ORDER.estimators} <= methods
    assert len(ORDER.estimators) >= 12 and set(map(str, ORDER.blocks)) <= set(study["seed"])
    assert set(map(str, GROUPS.blocks)) == set(groups["seed"])
    assert {GROUPS.base, "rebn", OURS} == set(groups["credit"])


def test_gain_is_recorded_for_every_estimator_of_the_order():
    recorded = yaml.safe_load((PAPER / "lab.yaml").read_text(encoding="utf-8"))["gain"]["estimators"]
    assert set(ORDER.estimators) <= set(recorded.values())


@pytest.mark.parametrize("blocks", [12, 16])
def test_a_test_keeps_its_level_and_its_power_grows(blocks):
    drawn = 3 * np.random.default_rng(0).standard_normal((5_000, blocks))
    share = [np.mean([Contrast.over(row + ahead).lower_bound() > -1 for row in drawn]) for ahead in (-1, 0, 1, 3)]
    assert share[0] == pytest.approx(0.05, abs=0.01) and share == sorted(set(share))


def test_a_test_is_judged_once_when_its_blocks_are_complete():
    planned = TESTS[0]
    blocks = range(FIRST, FIRST + planned.blocks + 1)
    ahead = pd.DataFrame({OURS: np.random.default_rng(0).normal(1, 1, len(blocks)), planned.less: 0.0}, blocks)
    ahead.loc[blocks[-1], OURS] = -1000  # a later block does not count
    judge = lambda table: planned.test.on("laptop", table)  # noqa: E731
    assert judge(ahead).is_decided and judge(ahead).verdict == "holds"
    assert judge(ahead - [3, 0]).is_decided and judge(ahead - [3, 0]).verdict == "not shown"
    assert not judge(ahead.drop(FIRST + 3)).is_decided


def test_the_bound_by_hand():
    """Of 1, 2, 3: mean 2, deviation 1, Student's quantile with two degrees of freedom 2.92."""
    assert Contrast.over([1.0, 2.0, 3.0]).lower_bound() == pytest.approx(2 - 2.919986 / 3**0.5, abs=1e-5)


def test_an_interval_over_estimators_is_wider_with_fewer_of_them():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(60)
    y = x + rng.standard_normal(60)
    few, many = over_settings(x[:12], y[:12]), over_settings(x, y)
    assert few.high - few.low > many.high - many.low > 0.1
    assert many.low < spearmanr(x, y).statistic < many.high


@pytest.mark.parametrize("change, words", [({"measure": "sped"}, "speed"), ({"magin": 1}, "magin")])
def test_a_wrong_plan_is_one_line(change, words, tmp_path):
    content = yaml.safe_load((PAPER / "next.yaml").read_text(encoding="utf-8"))
    content["tests"] = [content["tests"][0] | change]
    (tmp_path / "next.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(UserError, match=words):
        read_plan(tmp_path / "next.yaml")


FROZEN = {"blocks": "f766e3e554908259", "next": "b946270ed0658540", "desktop": "5d538ced2f9a7315"}


@pytest.mark.parametrize("name", FROZEN)
def test_a_plan_is_that_of_before_its_first_run(name):
    assert sha256((PAPER / f"{name}.yaml").read_bytes()).hexdigest()[:16] == FROZEN[name]


@pytest.mark.parametrize("blocks", [11, 12])
def test_the_table_judges_a_test_when_its_blocks_are_complete(tmp_path, blocks):
    rates = {"batch_bepo": 0.5, "rebn": 0.4}
    rng = np.random.default_rng(0)
    speeds = {name: rate + 0.02 * rng.standard_normal(blocks) for name, rate in rates.items()}
    write_rates(tmp_path, "next", speeds, block=FIRST, at={"env.name": "webshop"})
    table = table_of(tmp_path, "next-claims")
    rows = {row[2]: row for row in texts(table)[:3]}
    row = rows["ReBN"]
    assert table.facts == dict.fromkeys(("next/judged", "next/holds"), str(blocks // 12))
    assert row[4] == f"{blocks} of 12" and rows["Gated-BEPO"][7] == "not run"
    if blocks < 12:
        assert row[5:] == ["–", "–", "not judged"]
        return
    difference = 100 * (speeds["batch_bepo"] - speeds["rebn"])
    bound = difference.mean() - 1.795885 * difference.std(ddof=1) / 12**0.5  # Student's quantile, 11 degrees of freedom
    assert row[5].startswith(f"{difference.mean():.1f} [") and row[6:] == [f"{bound:.1f}", "holds"]


def test_gain_is_judged_when_all_estimators_have_both_blocks(tmp_path):
    gains = read_recorded_gains("webshop")
    for row in ORDER.estimators:
        for block in ORDER.blocks:
            at = {"credit.name": row, "env.name": "webshop"} | in_block(block)
            write_run(tmp_path, "next", at, [[1, 0]], metrics={"train/success": gains[row] / 2})
    sokoban, webshop, _ = texts(table_of(tmp_path, "next-order"))
    assert sokoban[1:] == ["0 of 14", "–", "–", "not run"]
    assert webshop[1] == "14 of 14" and webshop[2].startswith("1.00 [") and webshop[4] == "predicts learning"
    errors = read_recorded_gains("webshop", "error")
    expected = spearmanr([-errors[row] for row in ORDER.estimators], [gains[row] for row in ORDER.estimators]).statistic
    assert webshop[3].startswith(f"{expected:.2f} [")


def read_recorded_gains(env, measure="gain"):
    """The mean over worlds by row, read without the analysis."""
    gain = yaml.safe_load((PAPER / "lab.yaml").read_text(encoding="utf-8"))["gain"]
    table = pd.read_csv(PAPER / "lab" / "gain.csv")
    at = next(at for at in gain["at"] if f"like={env}" in at)
    own = table[(table["at"] == at) & (table["measure"] == measure)].set_index("estimator")
    worlds = [column for column in own if column.isdecimal()]
    return {row: own.loc[words, worlds].astype(float).mean() for words, row in gain["estimators"].items()}


def test_a_correlation_whose_interval_reaches_zero_is_not_shown():
    shuffled = dict(zip(ORDER.estimators, np.random.default_rng(0).standard_normal(14)))
    found = predicted_by_lab("sokoban", "gain", shuffled)
    assert found.interval.low < 0 and not found.is_positive


@pytest.mark.parametrize("blocks", [7, 8])
def test_groups_of_eight_are_judged_when_all_blocks_are_complete(blocks, tmp_path):
    rng = np.random.default_rng(0)
    means = {"grpo": (0.3, 0.3), "rebn": (0.4, 0.3), "batch_bepo": (0.4, 0.4), "ppo": (0.4, None)}
    speeds = {}
    for row, (in_pairs, in_eights) in means.items():
        for study, rate, size in (("next", in_pairs, 2), ("next_groups", in_eights, 8)):
            for i in range(blocks if rate else 0):
                speeds[row, study, i] = rate + 0.003 * rng.standard_normal()
                at = {"credit.name": row, "env.name": "webshop", "rollout.group_size": size} | in_block(FIRST + i)
                write_run(tmp_path, study, at, [[1, 0]], metrics={"train/success": speeds[row, study, i]})
    rows = {row[0]: row for row in texts(table_of(tmp_path, "next-groups"))}
    assert [row[1] for row in rows.values()] == [f"{blocks} of 8"] * 3
    if blocks < 8:
        assert all(row[2:] == ["–"] * 3 + ["not run"] * 2 for row in rows.values())
        return
    assert rows["ReBN"][5:] == ["holds", "holds"]  # 10 points in pairs, none in eights
    assert rows["PPO (with critic)"][5:] == ["not shown", "not shown"]  # 10 points over the same GRPO in both
    assert rows["Batch-BEPO"][5:] == ["none declared"] * 2

    pairs, eights = (
        np.array([100 * (speeds["rebn", study, i] - speeds["grpo", study, i]) for i in range(8)])
        for study in ("next", "next_groups")
    )
    assert rows["ReBN"][2:5] == [interval_text(pairs), interval_text(eights), interval_text(pairs - eights)]
