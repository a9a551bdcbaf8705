"""The conformance kit: its cases hold for bepo's estimators, and it names faults that are seeded in other code."""

import json
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

from bepo.core.batch import RolloutBatch
from bepo.core.returns import outcome_advantage as outcome
from bepo.core.returns import standardise
from bepo.credit import _outcome, make, rebn
from bepo.testing import conformance
from bepo.testing.conformance import Unsupported, faults, load, report, score
from tests.command import python
from tests.credit.make_conformance import FAULTS, FILE, NAMES, kit

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cases():
    return load()


def ours(name):
    return lambda rows, settings: make(name, **settings)(RolloutBatch.from_rows(rows_with_tokens(rows))).advantage


def rows_with_tokens(rows):
    lengths = (len(row.get("values", ())) for row in rows)
    tokens = [{"prompt_ids": [0], "response_ids": [1] * n, "logprobs": [0.0] * n} if n else {} for n in lengths]
    return [row | of_row for row, of_row in zip(rows, tokens)]


def test_the_file_is_what_the_script_makes(cases):
    """After a new estimator, run ``python -m tests.credit.make_conformance``."""
    made = json.loads(json.dumps(kit()))
    assert len(cases["cases"]) >= 500
    for part in ("identities", "faults", "rollouts"):
        assert made[part] == cases[part]
    for one, other in zip(made["cases"], cases["cases"], strict=True):
        for name in ("expected", "gives"):
            np.testing.assert_allclose(one.get(name, 0.0), other.get(name, 0.0), atol=2e-8, rtol=0)
        assert one | {"expected": 0, "gives": 0} == other | {"expected": 0, "gives": 0}


def test_every_method_every_identity_and_every_fault_has_cases(cases):
    of_cases = {name: {case.get(name) for case in cases["cases"]} for name in ("method", "tests", "fault")}
    assert of_cases["method"] == set(NAMES) and of_cases["tests"] == set(cases["identities"])
    assert of_cases["fault"] == {None, *FAULTS}
    assert len({case["id"] for case in cases["cases"]}) == len(cases["cases"])
    for rows in cases["rollouts"].values():  # an adapter may tell trajectories by ``traj`` alone
        assert len({row["traj"] for row in rows}) == len({(row["uid"], row["traj"]) for row in rows})


def test_progress_and_pools_of_one_matter_in_some_case(cases):
    """Settings that change nothing in the kit's rollouts would not be tested."""
    edges = [case for case in cases["cases"] if case["tests"] == "edges"]
    for name in ("grpo", "rloo", "gigpo", "crbc", "adastep", "ecpo", "g2po", "graphgpo", "graphhca", "salt", "empg"):
        mine = [case for case in edges if case["method"] == name]
        for setting in ("progress", "singleton", "pool"):
            assert len({str(case["settings"][setting]) for case in mine}) == 2
        assert len({tuple(case["expected"]) for case in mine}) >= 4


def test_bepos_estimators_pass_every_case(cases):
    results = score({name: ours(name) for name in NAMES}, cases)
    assert len(results) == len(cases["cases"])
    assert [result for result in results if result.status != "passed"] == []
    assert report(results, cases).endswith(f"{len(results)} passed, 0 failed, 0 unsupported")


# --- another framework's GRPO and GiGPO, which a seeded fault changes -----------------------------------------------


def pools(rows, *keys):
    found: dict = {}
    for i, row in enumerate(rows):
        found.setdefault(tuple(row[key] for key in keys), []).append(i)
    return found.values()


def normalised(rows, scores, std, fault, *keys, alone=0.0):
    out = np.zeros(len(rows))
    if fault == "batch_wide_groups":
        keys = keys[1:]
    for members in pools(rows, *keys) if keys else [list(range(len(rows)))]:
        values = [scores[i] for i in members]
        if fault == "float32_ties":
            single = np.array(values, np.float32)
            centre, spread = single.mean(), single.std(ddof=1) if len(values) > 1 else np.float32(1)
        else:
            centre = statistics.fmean(values)
            is_tied = max(values) - min(values) <= 1e-9 * max(map(abs, values))
            spread = 1.0 if is_tied else statistics.stdev(values)
            values = [centre] * len(values) if is_tied else values
        divisor = 1.0 if std == "none" or fault == "missing_deviation" else spread + 1e-6
        out[members] = [(v - centre) / divisor if len(members) > 1 else alone * v for v in values]
    return out


def returns_of(rows, reward, gamma, fault):
    out = np.zeros(len(rows))
    for members in pools(rows, "traj"):
        following = 0.0
        for i in reversed(members):
            out[i] = following = reward[i] + gamma * following
    return out * (gamma if fault == "off_by_one_discount" else 1)


FIXED = {"pool": "transition", "singleton": "raw", "similarity": None, "state_scope": "group", "progress": 0.0}


def other_gigpo(fault, with_step=True):
    def estimator(rows, settings):
        if settings["std"] == "population" or any(settings.get(k, v) != v for k, v in FIXED.items()):
            raise Unsupported("std, or other settings")
        charge = np.array([settings["invalid_penalty"] * (not row["valid"]) for row in rows])
        reward = np.array([row["r"] for row in rows])
        if fault == "penalty_on_the_wrong_side":
            reward, charge = reward - charge, 0.0 * charge
        total = returns_of(rows, reward, 1.0, "")
        first = {row["traj"]: total[i] for i, row in reversed(list(enumerate(rows)))}
        score = np.array([first[row["traj"]] for row in rows]) - charge
        advantage = normalised(rows, score, settings["std"], fault, "uid", alone=1.0)
        if with_step:
            after = returns_of(rows, reward, settings["gamma"], fault) - charge
            weight = settings["step_weight"]
            advantage += weight * normalised(rows, after, settings["std"], fault, "uid", "obs")
        return advantage

    return estimator


def other(fault=""):
    return {"gigpo": other_gigpo(fault), "grpo": other_gigpo(fault, with_step=False)}


def test_another_implementation_passes_what_it_supports(cases):
    results = score(other(), cases)
    assert {result.status for result in results} == {"passed", "unsupported"}
    assert sum(result.status == "passed" for result in results) > 100 and faults(results) == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_found_by_its_name(cases, fault):
    results = score(other(fault), cases)
    assert list(faults(results)) == [fault]
    assert f"fault {fault} in " in report(results, cases)


def without_deviation(name):
    """Return one of bepo's estimators without the divisions that no setting chooses."""

    def estimator(rows, settings):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_outcome, "outcome_advantage", lambda b, pool, std, *rest: outcome(b, pool, "none", *rest))
            patch.setattr(rebn, "standardise", lambda x, starts: standardise(x, starts, "none"))
            return ours(name)(rows, settings | ({"std": "none"} if "std" in settings else {}))

    return estimator


@pytest.mark.parametrize("name", ["ecpo", "graphhca", "crbc", "rebn"])
def test_a_missing_deviation_is_named_where_no_setting_chooses_it(cases, name):
    results = score({name: without_deviation(name)}, cases)
    named = faults(results)
    assert list(named) == ["missing_deviation"]
    assert named["missing_deviation"] == [r.case for r in results if r.tests == "deviation"]


def raw_scores(rows, settings):
    totals = {row["traj"]: sum(other["r"] for other in rows if other["traj"] == row["traj"]) for row in rows}
    return [totals[row["traj"]] for row in rows]


def on_ties(estimator, wrong):
    """Return an estimator that is wrong only where all rows are tied."""
    return lambda rows, settings: (wrong if len({row["r"] for row in rows}) == 1 else estimator)(rows, settings)


@pytest.mark.parametrize(
    "wrong",
    [
        raw_scores,
        lambda rows, settings: [1.0] * len(rows),
        lambda rows, settings: [0.01 * x for x in raw_scores(rows, settings)],
        on_ties(ours("grpo"), raw_scores),
        on_ties(ours("grpo"), lambda rows, settings: [1.0] * len(rows)),
        on_ties(ours("grpo"), lambda rows, settings: [float("nan")] * len(rows)),
    ],
)
def test_other_faults_of_ties_have_no_name(cases, wrong):
    results = score({"grpo": wrong}, cases)
    assert {r.status for r in results if r.tests == "ties"} == {"failed"} and faults(results) == {}


ADAPTERS = {
    "from conformance import Unsupported\ndef f(rows, settings): raise Unsupported('x')\nESTIMATORS = {'grpo': f}": (
        1,
        "no case was scored: it raised Unsupported for all",
    ),
    "import does_not_exist": (2, "ModuleNotFoundError: No module named 'does_not_exist'"),
    "raise ValueError('two\\nlines')": (2, "ValueError: two lines"),
    "ESTIMATORS = {'grop': print}": (2, "methods: adastep, "),
    "ESTIMATORS = {'grpo': None}": (2, "must map methods to functions"),
    "ESTIMATORS = [print]": (2, "must map methods to functions"),
    "import sys; sys.exit(0)": (2, "SystemExit: 0"),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_that_scores_nothing_is_one_line(adapter, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "conformance", conformance)
    path, (status, words) = tmp_path / "adapter.py", ADAPTERS[adapter]
    path.write_text(adapter, encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        conformance.main([str(path)])
    error = capsys.readouterr().err
    assert caught.value.code == status and error.startswith(f"error: {path}: ")
    assert words in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "", '{"cases": [], "rollouts": {}}', '{"cases": 1, "rollouts": 1, "identities": 1, "faults": 1}'],
)
def test_a_file_without_cases_is_one_line(text, tmp_path, capsys):
    (tmp_path / "cases.json").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        conformance.main([str(tmp_path / "adapter.py"), "--cases", str(tmp_path / "cases.json")])
    error = capsys.readouterr().err
    assert caught.value.code == 2 and error.startswith(f"error: {tmp_path / 'cases.json'}: ") and error.count("\n") == 1


@pytest.mark.parametrize("name", ["nowhere/x.json", "folder"])
def test_a_report_that_cannot_be_written_is_said_before_scoring(name, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "adapter.py").write_text("ESTIMATORS = {'grpo': print}", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        conformance.main([str(tmp_path / "adapter.py"), "--json", str(tmp_path / name)])
    said = capsys.readouterr()
    assert caught.value.code == 2 and said.err.startswith(f"error: {tmp_path / name}: ") and not said.out


def test_an_estimator_that_exits_fails(cases):
    assert {result.status for result in score({"grpo": lambda rows, settings: sys.exit(0)}, cases)} == {"failed"}


def test_what_is_not_a_list_of_numbers_fails(cases):
    def broken(rows, settings):
        return {"none": [0.0] * (len(rows) - 1), "sample": [float("nan")] * len(rows)}.get(settings["std"], 1 / 0)

    results = score({"grpo": broken}, cases)
    assert {result.status for result in results} == {"failed"}
    details = " ".join(result.detail for result in results)
    assert "ZeroDivisionError" in details


def test_a_copy_runs_without_bepo(tmp_path):
    """With the adapter of docs/conformance.md, in a Python that sees nothing but its standard library."""
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    adapter = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "adapter.py").write_text(adapter, encoding="utf-8")
    for suffix in (".py", ".json"):
        shutil.copy(FILE.with_suffix(suffix), tmp_path)
    command = ("-I", "-S", "conformance.py")
    done = python(*command, "adapter.py", "--json", "out.json", folder=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    results = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert {result["method"] for result in results} == {"rloo"}
    assert sum(result["status"] == "passed" for result in results) > 20
    wrong = python(*command, "missing.py", folder=tmp_path)
    assert wrong.returncode == 2 and "missing.py" in wrong.stderr and "Traceback" not in wrong.stderr
