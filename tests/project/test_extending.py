"""The worked examples of docs/extending.md: each is built from the page's code in a copy of the repository, and run."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.command import PACKAGES, SHORT_START, SMALLEST, Command
from tests.stored_runs import write_run

ROOT = Path(__file__).parents[2]
GENERATED = ("build", "*.smoke.*", "*.laptop.*")
COPIED = (*PACKAGES, "conf", "experiments", "paper")
TINY = (*SMALLEST, "updates=2", "evaluation.seeds=1")
WARM = (*(text for text in TINY if not text.startswith("policy.warm_start")), *SHORT_START)

pytestmark = [pytest.mark.slow, pytest.mark.long]


def blocks(section: str, *languages: str) -> list[str]:
    """Return the code blocks of a section of the page, in these languages."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def files(section: str) -> dict[str, str]:
    """Return the new files of a section: the first line of such a block is a comment with the path."""
    pairs = [block.removeprefix("# ").split("\n", 1) for block in blocks(section, "python", "yaml")]
    return dict(pairs)


class Copy:
    """A copy of the repository to which files are added."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / "results"
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", *GENERATED))

    def add(self, added: dict[str, str]) -> None:
        """Write new files; a file that exists is not an addition."""
        for name, content in added.items():
            path = self.folder / name
            assert not path.exists(), name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")

    def run(self, module: str, *arguments: str) -> str:
        """Run ``python -m module arguments`` in the copy and return what it prints."""
        command = Command(module, *arguments, folder=self.folder)
        output = "".join(command.communicate())
        assert command.returncode == 0, f"{module} {' '.join(arguments)}\n{output}"
        return output

    def check_contract(self, name: str, plugin: str) -> None:
        """Run the contract tests of a plug-in; pytest's exit status says if one failed, or if there was none."""
        path = self.folder / "tests" / name
        self.run("pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(path), "-k", plugin)

    def train(self, *overrides: str, settings: tuple[str, ...] | list[str] = TINY) -> dict:
        """Train with tiny settings, and return the ``run.json`` of the run."""
        before = set(self.results.glob("runs/*/run.json"))
        self.run("bepo.train", *settings, *overrides)
        (path,) = set(self.results.glob("runs/*/run.json")) - before
        return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path)


def test_an_estimator_is_one_file(copy):
    added = files("A credit estimator")
    assert list(added) == ["bepo/credit/togo.py"]
    copy.add(added)
    listing = copy.run("bepo.credit", "--list")
    assert "Sutton & Barto, 2018, Section 13.4" in listing and "gamma=0.95 std=sample" in listing
    run = copy.train("credit=togo", "credit.gamma=0.9")
    assert run["method"]["step_credit"] == "Reward to go" and run["result"]["updates"] == 2
    copy.check_contract("credit/test_contract.py", "togo")


def test_an_environment_is_one_file_and_a_preset(copy):
    added = files("An environment")
    assert list(added) == ["bepo/envs/corridor.py", "conf/tier/smoke/env/corridor.yaml"]
    copy.add(added)
    assert "success: score 1, return 1 after" in copy.run("bepo.play", "corridor", "length=8", "--expert")
    run = copy.train("env=corridor", "env.horizon=16", settings=WARM)
    assert run["result"]["updates"] == 2 and run["task_sets"]["train"]["tasks"] == 8
    (fitted,) = (copy.results / "warm_starts").glob("corridor-*/warm_start.json")
    assert json.loads(fitted.read_text(encoding="utf-8"))["env"]["length"] == 8  # the preset's
    copy.check_contract("envs/test_contract.py", "corridor")


def test_an_ablation_is_one_file(copy):
    added = files("An ablation")
    assert list(added) == ["experiments/invalid_penalty.yaml"]
    copy.add(added)
    study = ("-cd", "experiments", "-cn", "invalid_penalty", "hydra/launcher=one_at_a_time")
    copy.run("bepo.train", *study, *TINY)
    cells = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in copy.results.glob("studies/invalid_penalty/smoke/*.json")
    ]
    assert len({cell["run_id"] for cell in cells}) == 3
    plan = copy.run("bepo.sweep", "invalid_penalty", *TINY, "--dry-run")
    assert plan.count("complete") >= 3, plan


def test_a_table_and_a_figure_are_a_file_each(copy):
    added = files("A table and a figure")
    assert list(added) == ["analysis/tables/invalid_penalty.py", "analysis/figures/invalid_penalty.py"]
    copy.add(added)
    for penalty, passes in ((0.0, [[1, 0, 0, 0]]), (0.1, [[1, 1, 0, 0]]), (0.5, [[1, 1, 1, 0]])):
        settings = {"credit.invalid_penalty": penalty}
        write_run(copy.results, "invalid_penalty", settings, passes, metrics={"train/valid_actions": 0.5 + penalty})
    built = copy.run("analysis", "invalid-penalty", "invalid-penalty-curves", "--tier", "laptop")
    rows = re.findall(r"^\| (0\.\d) \| \**([\d.]+)\S* \| ([\d.]+) \|", built, re.MULTILINE)
    assert rows == [("0.0", "25.0", "0.50"), ("0.1", "50.0", "0.60"), ("0.5", "75.0", "1.00")], built
    for name in ("tables/invalid-penalty.laptop.tex", "figures/invalid-penalty-curves.laptop.pdf"):
        assert (copy.folder / "paper" / name).stat().st_size > 500
    copy.check_contract("analysis/test_by_hand.py", "no_table_is_left_out")


def test_a_loss_is_one_file(copy):
    added = files("A loss")
    assert list(added) == ["bepo/losses/dro.py"]
    copy.add(added)
    run = copy.train("loss=dro", "loss.beta=0.5", "training.minibatch_size=8")
    assert run["identity"]["loss"] == {"aggregation": "token_mean", "name": "dro", "beta": 0.5}
    assert run["identity"]["method_versions"]["loss"] == 1 and run["result"]["updates"] == 2
    copy.check_contract("losses/test_contract.py", "dro")
