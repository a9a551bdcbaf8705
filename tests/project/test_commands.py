"""Every command line of the README, the docs and the Makefile works, in its smallest form.

``bepo.train`` and ``bepo.evaluate`` compose and check the config, ``bepo.sweep`` makes a dry run of a few cells,
``bepo.play`` is left at once, and ``analysis`` reads one small run. ``NOT_RUN`` says which lines are not run here, and
why.
"""

import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from bepo.evaluate import configured
from bepo.runs.compose import register_configs, to_config
from bepo.store import find
from bepo.sweep import studies
from bepo.sweep.composition import composed
from tests.stored_runs import write_run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN, OTHER = "5d43bb", "5c8d7c"  # published runs

NOT_RUN = {
    r"python -m benchmarks\.trl": "needs an environment of its own, .venv-trl",
    r"python -m benchmarks\.paired": "trains at two revisions for minutes",
    r"python -m benchmarks\.analysis": "generates runs, and times commands that are run here by themselves",
    r"python -m bepo\.((play|train) .*data=original|envs\.alfworld\.compare)": "needs original data",
    r"python -m analysis two-depths": "a table of one's own, which tests/analysis/test_block_tables.py builds",
    r"python -m analysis error-beside-gain": "a table of one's own, which tests/analysis/test_lab.py builds",
    r"python -m analysis study": "needs a study's runs; tests/analysis/test_study.py makes them",
    r"python -m analysis power": "needs the runs of claims; tests/analysis/test_inference.py makes them",
    r"python -m bepo\.sweep .*postgresql": "needs a database server",
    r"python -m bepo\.train env=openenv": "needs a server; tests/envs/test_openenv.py starts one",
    r"python -m bepo\.train env=verifiers": "needs a package; tests/envs/test_verifiers.py has an environment",
    r"python -m bepo\.sweep .*journal": "needs the folder /shared; tests/sweep/test_storage.py has a journal",
    r"python -m bepo\.view --watch": "serves until it is stopped; tests/explore has a server",
    r"python -m bepo\.reproduce": "trains for minutes; CI runs it, and tests/commands has a small one",
    r"python -m bepo\.lab grid": "learns for minutes; tests/lab has a small grid",
    r"python -m bepo\.lab record": "measures for minutes; tests/lab/test_record.py has a small plan",
    r"python -m analysis results": "reads every published run; tests/analysis/test_results.py makes the page",
    r"python -m bepo\.upload": "needs a server; tests/store/test_tracking.py has a stand-in for it",
    r".*(credit=(togo|mine)|credit togo|-k togo|view tutorial|--results tutorial)": "an example of a page: "
    "its file is added there",
    r".*(env=corridor|play corridor|loss=dro|invalid.penalty)": "an example of a page: "
    "tests/project/test_extending.py adds its file, and runs it",
    r"bepo new": "writes a package into the current folder; tests/commands/test_new.py does it elsewhere",
    r"python -m bepo\.verify\b": "trains a laptop run again; tests/commands/test_publish.py does it with a smoke run",
    r"python -m tests\.(screens|pictures)": "needs Chromium, and writes the pictures of docs/",
    r"python conformance\.py": "tests/credit/test_conformance.py runs it on a copy, with the page's adapter",
    r"python -m tests\.credit\.make_conformance": "writes a file that is tracked; a test compares it",
    r"python -m venv": "makes an environment",
    r"python -m pytest( -n 2|$)": "this test would start itself",
    r"make (verl|test-verl)": "needs .venv-verl, 4 GB that make verl downloads",
    r"marimo": "opens a browser; tests/analysis/test_notebooks.py runs every notebook",
    r"bepo (COMMAND|new|train|view)\b.*": "the name of a command, or a package; tests/commands runs each",
    r"(git|cd|pip|gcc|pre-commit|hf|ray|gdown|alfworld-download|srun|sbatch|duckdb)\b": "a tool of others",
    r"(sleep|wait|trap|export|echo|done|show|head)\b": "a part of a script",
    r"(ruff|lint-imports|basedpyright)": "make test runs it before the tests",
}
"""Command lines that are not run here, as patterns of their beginning, and why."""


def simple_commands(line: str) -> Iterator[str]:
    """Yield the simple commands of a shell line: without comments, variables before them, and loops around them."""
    words = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    words.whitespace_split = True
    found: list[str] = []
    for word in [*words, ";"]:
        if word.strip(";&|"):
            found.append(word)
            continue
        while found and re.match(r"do$|\w+=|\.$|for$", found[0]):
            found = found[1:] if found[0] not in (".", "for") else []
        if found:
            found[0] = re.sub(r"^(.*/bin/)?python3?$", "python", found[0]).removeprefix(".venv/bin/")
            yield shlex.join(found)
        found = []


def of_page(page: Path) -> Iterator[str]:
    """Yield the commands of a page's shell blocks, and those between single backticks."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            yield from simple_commands(line)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"`((?:make|python -m|bepo) [^`]+)`", prose):
        yield from simple_commands(" ".join(line.split()))


def targets() -> list[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)


def of_target(target: str) -> list[str]:
    """Return the commands that a target would run, its environments taken as they are."""
    done = ["-o", ".venv/installed", "-o", ".venv-verl/installed"]
    made = subprocess.run(
        ["make", "-n", *done, target], cwd=ROOT, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    return re.findall(r"\.venv/bin/python (-m [\w.]+[^|;&<>\n]*)", made.stdout.replace("\\\n", " "))


def reason(command: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, command)), None)


COMMANDS = list(dict.fromkeys(command for page in PAGES for command in of_page(page)))
RUN_HERE = [command for command in COMMANDS if not reason(command)]


def test_every_reason_is_of_some_command():
    every = COMMANDS + [f"python {command}" for target in targets() for command in of_target(target)]
    every += ["ruff", "python -m venv"]
    assert not [pattern for pattern in NOT_RUN if not any(re.match(pattern, command) for command in every)]


SLOWEST = ("bench", "reproduce")
LONG = [pytest.param(target, marks=pytest.mark.long) for target in SLOWEST]


@pytest.mark.parametrize("target", [*(target for target in targets() if target not in SLOWEST), *LONG])
def test_every_target_of_the_makefile_runs(target, place):
    for command in of_target(target):
        if not reason(f"python {command}"):
            place.run(f"python {command}")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("command", RUN_HERE)
def test_every_command_of_the_pages_runs(command, place):
    place.run(command)


class Place:
    """A folder with one small run, in which commands are tried."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch, self.results = folder, patch, folder / "results"
        self.id = write_run(self.results, "main_sokoban_text", {"env.name": "sokoban"}, ((1, 0),), metrics=METRICS).id

    def run(self, command: str) -> None:
        """Run a command line in its smallest form."""
        program, *words = shlex.split(command)
        if program == "make":
            variables = [word for word in words if "=" in word]
            assert all(word in targets() or "=" in word for word in words), f"{words}: no target of the Makefile"
            subprocess.run(["make", "-n", "-o", ".venv/installed", *words], cwd=ROOT, check=True, capture_output=True)
            text = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert all(f"$({variable.split('=')[0]})" in text for variable in variables)
            return
        assert program == "python" and words[0] == "-m", f"{command}: no rule says how this is run"
        _, module, *arguments = [word for word in words if word != "..."]
        if module in ("bepo.train", "bepo.evaluate") and "--help" not in arguments:
            self.compose(module, arguments)
        else:
            self.execute(module, self.smallest(module, arguments))

    def smallest(self, module: str, arguments: list[str]) -> list[str]:
        """Return the arguments of a command's smallest form."""
        known = {"RUN": RUN, "A": RUN, "B": OTHER, "NAME": "main_sokoban_text", "ID": self.id, "FILE.json": GOLDEN}
        known |= {"FOLDER": str(self.folder / "made"), "docs/settings.md": str(self.folder / "settings.md")}
        known |= {} if module == "analysis" else {"results": str(self.folder / "empty")}
        words = [known.get(word, re.sub(r"=[PBR]$", "=1", word)) for word in arguments]
        local = ["--source", "local", "--results", str(self.results)]
        out = ["--out", str(self.folder / "out")]
        if module == "analysis":
            words = [self.id if words[:1] == ["curves"] and word == RUN else word for word in words]
            reads = words[:1] in (["runs"], ["explain"], ["power"], ["headlines"])
            return ["--help"] if not words or words[0].startswith("--") else [*words, *local, *([] if reads else out)]
        if module == "bepo.credit" and not {"--list"} & {*words}:
            return [*([] if words[0] != "--rollouts" else ["grpo"]), *words]
        more = {
            "bepo.sweep": ["--dry-run", f"results={self.results}"],
            "bepo.view": ["--no-open", "--results", str(self.results), "--out", str(self.folder / "page.html")],
            "bepo.publish": ["--help"],
            "benchmarks": ["--quick"],
            "benchmarks.first_turn": ["--tasks", "2", "--env", "sokoban"],
            "bepo.envs.alfworld.write_games": ["--games", "1"],
            "bepo.envs.webshop.generate": ["--products", "5"],
        }
        if module == "bepo.lab":
            return [*words, *SMALLEST_LAB.get(words[0], [])]
        if module == "pytest":
            return [*words, "--collect-only", "-q"]
        return [*words, *more.get(module, [])]

    def execute(self, module: str, arguments: list[str]) -> None:
        """Run a module in this process, unless it was run in this form before: it must not fail."""
        if (form := (module, frozenset(arguments))) in DONE:
            return
        DONE.add(form)
        self.patch.setattr(studies, "studies_of_paper", lambda: ["main_sokoban_text", "tune_gated_bepo"])  # of "all"
        self.patch.setattr(studies.PlannedStudy, "cells", fewer_cells)
        if module == "bepo.view" and not {RUN, OTHER} & {*arguments}:  # of all runs, only those of this folder
            self.patch.setattr(find, "PUBLISHED", self.folder)
        package = find_spec(module).submodule_search_locations is not None
        self.patch.delitem(sys.modules, f"{module}.__main__" if package else module, raising=False)
        self.patch.setattr(sys, "argv", [module, *arguments])
        self.patch.setattr(sys, "stdin", io.StringIO("q\n"))
        self.patch.setenv("HYDRA_FULL_ERROR", "")
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            assert not end.code, f"python -m {module} {shlex.join(arguments)}"

    def compose(self, module: str, arguments: list[str]) -> None:
        """Compose and check a config; of a grid, its first cell."""
        folder, name = "conf", module.removeprefix("bepo.")
        words = [word for word in arguments if word not in ("-m", "--cfg", "job")]
        if words[:1] == ["-cd"]:
            folder, name, words = words[1], words[3], words[4:]
        parsed = OverridesParser.create().parse_overrides([re.sub(r"=(N|\$\w+)$", "=2", word) for word in words])
        overrides = [f"{o.key_or_group}={first_of(o)}" if o.is_sweep_override() else str(o.input_line) for o in parsed]
        register_configs()
        config = composed(ROOT / folder, name, overrides)
        if module == "bepo.evaluate":
            configured(config, overrides)
        else:
            to_config(config)


every_cell = studies.PlannedStudy.cells


def fewer_cells(study: studies.PlannedStudy) -> list[studies.Cell]:
    """Return the first cell of a study, and one with each further value that its command line names."""
    named = tuple(f"{override.split('=')[0].lstrip('+')}=" for override in study.overrides)
    cells, seen = every_cell(study), set[str]()
    kept = []
    for cell in cells:
        own = {override for override in cell.overrides if override.startswith(named)}
        if not kept or own - seen:
            kept.append(cell)
        seen |= own
    return kept


def first_of(override: Override) -> object:
    """Return the first value of a sweep."""
    return override.value().start if override.is_interval_sweep() else next(override.sweep_string_iterator())


SMALLEST_LAB = {
    "bias": ["horizon=4"],
    "learn": ["seeds=2", "updates=2"],
    "fidelity": ["groups=2", "worlds=2"],
    "sampled": ["games=1", "groups=1", "group_size=2", "continuations=2"],
}
DONE: set[tuple[str, frozenset[str]]] = set()
METRICS = {"train/kl": 0.1, "train/entropy": 0.2}
GOLDEN = str(ROOT / "tests" / "data" / "credit_golden.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture
def place(folder, monkeypatch) -> Place:
    return Place(folder, monkeypatch)
