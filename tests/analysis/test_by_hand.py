"""Every table against arithmetic of its own: from the raw rows of runs, without a function of ``analysis``.

The tables are made by the command, as from a shell, and read from their files.
"""

import csv
import itertools
import json
import re
import statistics as plain
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tests.command import Command
from tests.stored_runs import write_run

pytestmark = [pytest.mark.slow, pytest.mark.long]
KINDS = ["pick_and_place_simple"] * 3 + ["look_at_obj_in_light"] * 5
LOGGED = {
    "train/transitions": 50,
    "train/response_length": 2.0,
    "cpu/rollout": 1.5,
    "cpu/credit": 0.5,
    "cpu/update": 2.0,
}
LOGGED |= {"credit/delta_advantage_5": 0.25, "credit/token_advantage_mean": -0.02, "credit/advantage_std": 0.8}
ABLATIONS = {  # label: study, environment, setting of the row, the row's name, its column
    "gate-ablation": ("gate_thresholds", "webshop", {"credit.n_min": 2, "credit.b_min": 2}, "Default"),
    "gate-gae-ablation": ("gate_gae_order", "webshop", {"credit.gate_order": "mask"}, "Residual masking"),
    "backup-ablation": ("backup_operator", "alfworld", {"credit.backup": "max"}, "Max"),
    "maxiter-ablation": ("iteration_budget", "webshop", {"credit.iterations": 5}, "5"),
    "fusion-ablation": ("component_ablation", "webshop", {"credit.mixing": "ungated"}, "+ FP credit"),
    "supp-mixing-ablation": ("outcome_mixing", "webshop", {"credit.mixing": "outcome_only"}, "Outcome only"),
    "diagnostic-ablation": ("gae_lambda", "webshop", {"credit.gae_lambda": 0.5}, "0.5"),
}
MAIN = {
    "main-results": ("main_alfworld", "alfworld", "small"),
    "sokoban-main": ("main_sokoban", "sokoban", "vl"),
    "qwen3-results": ("qwen3_transfer", "alfworld", "qwen3"),
    "sokoban-text": ("main_sokoban_text", "sokoban", "small"),
}
ALIKE = {10: (60, 61, 60), 20: (61, 60, 61)}  # iterations: how many of 120 tasks each training seed solves
SPREAD = {  # method: how often each training seed succeeds
    "gated_bepo": (0.5, 0.5, 0.5, 0.5, 0.5),
    "grpo": (0.0, 1.0, 0.1, 0.9, 0.5),
    "gigpo": (0.1, 0.2, 0.9, 1.0, 0.6),
    "hgpo": (1.0, 0.0, 0.3, 0.8, 0.9),
}
LABELS = (*MAIN, *ABLATIONS, "in-text", "claims", "decided-claims", "claim-measures", "checks", "granularity")
LABELS += ("method-comparison", "supp-common-hparams", "supp-environment-hparams", "sample-efficiency", "headroom")
LABELS += ("share-of-headroom", "warm-starts", "replication", "blocks-claims", "blocks-methods", "blocks-losses")
LABELS += ("whole-methods", "crbc-depth", "state-deviation", "critic-lead", "reported-elsewhere", "findings", "parts")
LABELS += ("lab-claims", "lab-group-size", "lab-bias", "lab-learning", "lab-prediction", "lab-sampled")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Random outcomes for three seeds of two methods in every main study, and one run of each ablation."""
    folder, rng = tmp_path_factory.mktemp("by-hand"), np.random.default_rng(7)

    def run(study, env, model="small", seed=0, rate=0.5, **settings):
        passes = (rng.random((3, 8)) < rate).tolist()
        at = {"env.name": env, "model": model, "seed": seed, **settings}
        logged = LOGGED | {"train/success": 0.3 + 0.1 * seed + 0.1 * (rate > 0.5), "train/response_length": 2.0 + seed}
        scores = (rng.integers(0, 5, (3, 8)) / 4).tolist()
        extra = {"kinds": KINDS, "scores": scores, "metrics": logged, "tier": "laptop", "updates": 12}
        return write_run(folder / "r", study, at, passes, **extra).path

    paths = {}
    for label, (study, env, model) in MAIN.items():
        for method, rate in (("gated_bepo", 0.8), ("hgpo", 0.3), ("grpo", 0.3)):
            for seed in range(3):
                paths.setdefault((label, method), []).append(
                    run(study, env, model, seed, rate, **{"credit.name": method})
                )
    for label, (study, env, settings, _) in ABLATIONS.items():
        paths[label] = [run(study, env, **settings)]
    for iterations, solved in ALIKE.items():
        for seed, count in enumerate(solved):
            at = {"env.name": "webshop", "credit.iterations": iterations, "seed": seed}
            passes = [[float(i < count) for i in range(120)]]
            path = write_run(folder / "r", "iteration_budget", at, passes, tier="laptop", updates=12).path
            paths.setdefault(("iterations", iterations), []).append(path)
    for method, rates in SPREAD.items():
        paths["spread", method] = [
            run("qwen3_transfer", "webshop", "qwen3", seed, rate, **{"credit.name": method})
            for seed, rate in enumerate(rates)
        ]
    paths["gagpo"] = [run("gated_gagpo", "webshop", **{"credit.name": "gagpo"})]
    paths["runtime"] = [run("runtime", "alfworld", seed=9)]  # another than the main runs
    folders = ("--results", str(folder / "r"), "--out", str(folder))
    command = Command("analysis", *LABELS, "--tier", "laptop", "--source", "local", *folders)
    out = command.communicate()
    assert command.returncode == 0, out
    return folder, paths


def rows_of(path, name="episodes"):
    return [json.loads(line) for line in (path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def successes(path, column="success", kind=None):
    """(passes, tasks) of the final policy on the test tasks, in per cent."""
    rows = [r for r in rows_of(path) if r["split"] == "test" and r["update"] == 12 and kind in (None, r["kind"])]
    passes = sorted({r["evaluation_seed"] for r in rows})
    return [[100 * float(r[column]) for r in rows if r["evaluation_seed"] == p] for p in passes]


def means(paths, **which):
    """One mean a training seed: over tasks, then over passes."""
    return [plain.fmean(plain.fmean(own) for own in successes(path, **which)) for path in paths]


def read(made, label, end="csv"):
    with (made[0] / "tables" / f"{label}.laptop.{end}").open() as file:
        return list(csv.DictReader(file))


def row(made, label, name, column=None):
    found = [line for line in read(made, label) if name in ([line[column]] if column else line.values())]
    assert found, (label, name)
    return found[0]


def numbers(made, label):
    return {line["entry"]: line for line in read(made, label, "stats.csv")}


def welch(a, b):
    found = stats.ttest_ind(a, b, equal_var=False)
    return found.confidence_interval(0.95), found.pvalue


def near(text, value):
    return float(text) == pytest.approx(value, abs=1e-3)


ENTRIES = {
    "main-results": "main-results/ALFWorld/All/{}/1.5B",
    "sokoban-main": "sokoban-main/Success/{}",
    "qwen3-results": "qwen3-results/ALFWorld/Success/{}",
    "sokoban-text": "sokoban-text/Success/{}",
}


@pytest.mark.parametrize("label", MAIN)
def test_tables_of_methods_with_every_interval(made, label):
    line = numbers(made, label)[ENTRIES[label].format("HGPO")]
    ours, theirs = made[1][label, "gated_bepo"], made[1][label, "hgpo"]
    a, b = means(theirs), means(ours)
    assert near(line["reproduced"], plain.fmean(a)) and near(line["std"], plain.stdev(a))
    assert line["rival"] == ENTRIES[label].format("Gated-BEPO") and near(
        line["difference"], plain.fmean(a) - plain.fmean(b)
    )
    (low, high), p = welch(a, b)
    assert near(line["difference_low"], low) and near(line["difference_high"], high) and near(line["p"], p)
    wins = [(x > y) + (x == y) / 2 for x in a for y in b]
    assert near(line["improvement"], plain.fmean(wins))
    # Bootstrap: tasks within their kind, and training seeds, are drawn anew; the same for both in the paired one.
    rng, kinds = (
        np.random.default_rng(11),
        [[i for i, k in enumerate(KINDS) if k == kind] for kind in sorted(set(KINDS))],
    )
    by_task = [np.array([np.mean(successes(path), axis=0) for path in paths]) for paths in (theirs, ours)]
    single, paired, chances = [], [], []
    for _ in range(3000):
        tasks = np.concatenate([rng.choice(places, len(places)) for places in kinds])
        one, two = rng.integers(0, 3, 3), rng.integers(0, 3, 3)
        single.append(by_task[0][one][:, tasks].mean())
        paired.append((by_task[0] - by_task[1])[one][:, tasks].mean())
        chances.append(np.mean([(a[i] > b[j]) + (a[i] == b[j]) / 2 for i in one for j in two]))
    for drawn, names in ((single, ("low", "high")), (paired, ("paired_low", "paired_high"))):
        assert [float(line[n]) for n in names] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=3)
    if len(set(wins)) > 1:
        found = [float(line[f"improvement_{end}"]) for end in ("low", "high")]
        assert found == pytest.approx(np.quantile(chances, [0.025, 0.975]), abs=0.12)
    else:
        assert line["improvement_low"] == line["improvement_high"] == ""


def test_a_column_of_one_kind_of_tasks(made):
    line = numbers(made, "main-results")["main-results/ALFWorld/Look/HGPO/1.5B"]
    assert near(line["reproduced"], plain.fmean(means(made[1]["main-results", "hgpo"], kind="look_at_obj_in_light")))


def test_sokoban_texts_mean_over_training(made):
    line = numbers(made, "sokoban-text")["sokoban-text/In training/HGPO"]
    runs = made[1]["sokoban-text", "hgpo"]
    assert near(line["reproduced"], plain.fmean(100 * r["train/success"] for p in runs for r in rows_of(p, "metrics")))


@pytest.mark.parametrize("label", ABLATIONS)
def test_ablations_deviate_over_evaluation_seeds(made, label):
    found = row(made, label, ABLATIONS[label][3])
    passes = [plain.fmean(own) for own in successes(made[1][label][0])]
    name = "Success Reproduced (laptop)" if "Success Reproduced (laptop)" in found else "Reproduced (laptop)"
    assert near(found[name], plain.fmean(passes)) and near(found[f"{name} std"], plain.stdev(passes))
    if label == "maxiter-ablation":
        assert near(found["Max |ΔA| Reproduced (laptop)"], 0.25)
    if "Score Reproduced (laptop)" in found:
        scores = [plain.fmean(own) for own in successes(made[1][label][0], "task_score")]
        assert near(found["Score Reproduced (laptop)"], plain.fmean(scores))


def test_numbers_of_the_text(made):
    found = row(made, "in-text", "GAGPO ungated, WebShop success")
    assert "Gap" not in found, "only tier paper trains the paper's models"
    assert near(found["Reproduced (laptop)"], means(made[1]["gagpo"])[0])
    assert near(
        row(made, "in-text", "Advantage stage, share of an ALFWorld update")["Reproduced (laptop)"], 100 * 0.5 / 4
    )
    share = row(made, "in-text", "Mean advantage of a token, share of the deviation over transitions, ALFWorld")
    assert near(share["Reproduced (laptop)"], 100 * 0.02 / 0.8)


def claim(made, label, words, column="Claim"):
    return next(line for line in read(made, label) if words in line[column])


def triple(cell):
    """The value and its interval in a cell such as ``+1.0 [0.5, 1.5], p 0.01``."""
    return tuple(map(float, re.findall(r"-?\d+\.\d", cell.replace("+", ""))[:3]))


def test_claims_by_welch(made):
    a, b = (means(made[1]["sokoban-text", m]) for m in ("gated_bepo", "grpo"))
    (low, high), p = welch(a, b)
    found = claim(made, "claims", "Text Sokoban success exceeds GRPO's.")
    shown = [
        float(n)
        for n in re.findall(r"-?\d+\.?\d*", found["Reproduced (laptop)"].partition("difference")[2].replace("+", ""))[
            :3
        ]
    ]
    assert shown == pytest.approx([plain.fmean(a) - plain.fmean(b), low, high], rel=0.01)
    assert float(found["p"]) == pytest.approx(p, rel=0.06)
    half = claim(made, "claim-measures", "Text Sokoban success exceeds GRPO's.")
    assert triple(half["Final"]) == pytest.approx((plain.fmean(a) - plain.fmean(b), low, high), abs=0.06)
    area = [(0 + plain.fmean(successes(p)[0])) / 2 for p in made[1]["sokoban-text", "gated_bepo"]]
    other = [(0 + plain.fmean(successes(p)[0])) / 2 for p in made[1]["sokoban-text", "grpo"]]
    (low, high), _ = welch(area, other)
    assert triple(half["Over training"]) == pytest.approx((plain.fmean(area) - plain.fmean(other), low, high), abs=0.06)
    pairs = stats.ttest_1samp(np.array(a) - np.array(b), 0).confidence_interval(0.95)
    assert triple(half["Paired"])[1:] == pytest.approx((pairs.low, pairs.high), abs=0.06)


def test_the_printed_deviations_and_the_stated_size(made):
    """Table 2 prints 93.2 ± 2.2 and 90.5 ± 0.4 of three seeds, the text a gain of 2.78."""
    found = claim(made, "claims", "ALFWorld success at 1.5B exceeds HGPO's by 2.78 points.")
    printed = stats.ttest_ind_from_stats(93.2, 2.2, 3, 90.5, 0.4, 3, equal_var=False).pvalue
    assert found["Beyond its ±"] == ("yes" if printed < 0.05 else "no")
    (low, high), _ = welch(*(means(made[1]["main-results", m]) for m in ("gated_bepo", "hgpo")))
    assert found["Size"] == ("within" if low <= 2.78 <= high else "smaller" if high < 2.78 else "larger")


def test_similarity_is_two_one_sided_tests(made):
    """Both inequalities must hold, so the larger p counts, twice, as both directions of the claim are looked at."""
    ten, twenty = (np.array(means(made[1]["iterations", n])) for n in (10, 20))
    sides = [
        stats.ttest_ind(x, y, equal_var=False, alternative="less").pvalue
        for x, y in ((ten, twenty + 3), (twenty, ten + 3))
    ]
    found = claim(made, "claims", "Ten and twenty iterations obtain similar success.")
    assert float(found["p"]) == pytest.approx(2 * max(sides), rel=0.06) and max(sides) < 0.01
    assert found["Verdict"].startswith("supported")


def test_what_is_decided(made):
    every, found = read(made, "claims"), {line["Claim"]: line for line in read(made, "decided-claims")}
    decided = [line for line in every if line["Verdict"].startswith(("supported", "contradicted"))]
    assert {line["Claim"] for line in decided} == set(found) and decided
    for line in decided:
        assert [line[name] for name in ("p", "Verdict")] == [found[line["Claim"]][name] for name in ("p", "Verdict")]
    assert found["Ten and twenty iterations obtain similar success."]["Seeds"] == str(len(made[1]["iterations", 10]))


def test_what_has_no_runs_or_one_seed_stays_open(made):
    assert claim(made, "claims", "reach similar training success")["Verdict"] == "not run"
    assert claim(made, "claims", "advantage stage takes 0.16")["Verdict"].startswith("undecided")


def test_spread_is_tested_by_permutation(made):
    """Distances from the median, over all ways to deal ten of them to two methods of five seeds."""
    far = {}
    for method in SPREAD:
        values = means(made[1]["spread", method])
        far[method] = [abs(v - plain.median(values)) for v in values]
    worst = {"for": [], "against": []}
    for rival in ("grpo", "gigpo", "hgpo"):
        every, observed = far[rival] + far["gated_bepo"], sum(far[rival])
        sums = [sum(chosen) for chosen in itertools.combinations(every, 5)]
        worst["for"].append(plain.fmean(total >= observed - 1e-9 for total in sums))
        worst["against"].append(plain.fmean(total <= observed + 1e-9 for total in sums))
    p = min(1, 2 * min(max(worst["for"]), 3 * min(worst["against"])))
    found = claim(made, "claims", "success varies least between training seeds")
    assert float(found["p"]) == pytest.approx(p, rel=0.06) and p < 0.5


def test_the_cost_to_a_success_that_all_seeds_reach(made):
    """Every seed has 25 % from the tenth update on; responses have 2, 3 and 4 tokens: an interval by Student's t."""
    lines = [line for line in read(made, "sample-efficiency") if "Sokoban, model small:" in line["group"]]
    found = next(line for line in lines if "to 25 %" in line["group"] and line["Method"] == "Gated-BEPO")
    tokens = [50 * (2 + seed) * 10 for seed in range(3)]
    low, high = stats.t.interval(0.95, 2, plain.fmean(tokens), plain.stdev(tokens) / 3**0.5)
    assert (found["Reached"], found["Updates"], found["Seconds"]) == ("3 of 3", "10", "40")
    assert found["Generated tokens"] == f"{plain.fmean(tokens):.0f} [{low:.0f}, {high:.0f}]"


def test_tables_without_runs(made):
    assert claim(made, "checks", "The largest gain over HGPO", "Check")["Gap"] == f"{4.1 - 4.17:+.4g}"
    rates = row(made, "granularity", "ALFWorld, Qwen3")
    assert rates["Episodes stated"] == str(128 * 3 * 3)
    gated = row(made, "method-comparison", "Gated-BEPO", "Method")
    assert gated["Step credit"] == "Mean Bellman" and gated["Reported"] == "Mean Bellman; Yes; Adaptive"
    methods = {line["Method"] for line in read(made, "method-comparison")}
    assert methods == {"GiGPO", "HGPO", "GAGPO", "GraphGPO", "Gated-BEPO"}


def test_settings(made):
    assert row(made, "supp-common-hparams", "credit.gamma")["Reported"] == "0.95"
    lines = read(made, "supp-environment-hparams")
    assert [lines[0][name] for name in ("Environment", "Train", "K", "Updates")] == ["alfworld", "16", "8", "150"]


def test_no_table_is_left_out():
    """Each table that the paper shows is made above, and recomputed there or by a test of its own."""
    texts = "".join((ROOT / "paper" / f"{part}.tex").read_text(encoding="utf-8") for part in ("main", "supplement"))
    assert set(re.findall(r"\\generatedtable\{([^}]*)\}", texts)) == set(LABELS)
