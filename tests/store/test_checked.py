"""One odd value in a run whose checksums are right: every reader names the run, and shows the others."""

import gzip
import json
import shutil
import zipfile

import pytest

import bepo
from analysis.__main__ import main as analysis
from analysis.data.sources import Source
from bepo.core.errors import UserError
from bepo.diagnose import main as diagnose
from bepo.lab.__main__ import main as lab
from bepo.store.archive import check_archive, read_archive, write_archive
from bepo.store.cells import read_cell
from bepo.store.files import Corrupt, digest, digest_of_file
from bepo.store.find import find_runs
from bepo.store.json_files import read_sealed, row_line, with_digest, write_sealed
from bepo.store.run_files import read_run
from bepo.view import main as view
from tests.explore.runs_with_episodes import write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    for seed in (0, 1):
        write(path, seed=seed, **{"tier": "smoke"})
    return path


@pytest.fixture
def results(made, tmp_path):
    return shutil.copytree(made, tmp_path / "results")


def sealed_anew(path, change):
    content = read_sealed(path, "")
    change(content)
    write_sealed(path, content)


def replaced(run, name, data: bytes) -> None:
    (run / name).write_bytes(data)
    sealed_anew(run / "run.json", lambda m: m["files"].update({name: digest_of_file(run / name)}))
    sealed_anew(run / "run.json", lambda m: m["sizes"].update({name: len(data)}))


def config(*place, value):
    """Set a part of the config."""

    def change(run):
        def put(content):
            for name in place[:-1]:
                content = content.setdefault(name, {})
            content[place[-1]] = value

        sealed_anew(run / "config.json", put)
        replaced(run, "config.json", (run / "config.json").read_bytes())

    return change


def metadata(name, value):
    return lambda run: sealed_anew(run / "run.json", lambda content: content.update({name: value}))


def rows(stream, value, name="x"):
    """Set a column in the last row of a stream."""

    def change(run):
        path = run / f"{stream}.jsonl"
        *before, last = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        replaced(run, path.name, "".join(map(row_line, [*before, last | {name: value}])).encode())

    return change


def steps(change_step):
    def change(run):
        name = "transcripts.jsonl.gz"
        episodes = [json.loads(line) for line in gzip.decompress((run / name).read_bytes()).splitlines()]
        change_step(episodes)
        replaced(run, name, gzip.compress("".join(map(row_line, episodes)).encode()))

    return change


ODD = {
    **{f"{part} is text": config(part, value="") for part in ("env", "credit", "policy", "rollout", "health", "study")},
    "a list for a part": config("training", value=[]),
    "a name of a number": config("credit", "name", value=3),
    "a horizon of text": config("env", "horizon", value="far"),
    "a discount of text": config("credit", "gamma", value="0.9"),
    "a seed of text": config("seed", value="0"),
    "a warm start of text": config("policy", "warm_start", value="x"),
    "adapters of text": config("policy", "lora", value="x"),
    **{f"{name} is text": metadata(name, "x") for name in ("result", "sessions", "task_sets", "identity", "alarms")},
    "a session of text": metadata("sessions", ["x"]),
    "a success of text": metadata("result", {"success": "0.5", "updates": 2}),
    "updates of null": metadata("result", {"success": 0.5, "updates": None}),
    "missing of text": metadata("result", {"success": None, "updates": 2, "missing": {"x": "y"}}),
    "a file of a number": metadata("files", {"config.json": 3}),
    "an update of text": rows("metrics", "2", "update"),
    "success of text": rows("episodes", "yes", "success"),
    "a split of null": rows("episodes", None, "split"),
    "a task of an object": rows("episodes", {}, "task"),
    "a kind of a list": rows("episodes", ["k"], "kind"),
    "an action of an object": steps(lambda episodes: episodes[0]["steps"][0].update({"action": {}})),
    "no steps": steps(lambda episodes: episodes[0].pop("steps")),
    "a step of text": steps(lambda episodes: episodes[0]["steps"].append("x")),
    "a reward of text": steps(lambda episodes: episodes[0]["steps"][0].update({"reward": "1"})),
    "transcripts that are not packed": lambda run: replaced(run, "transcripts.jsonl.gz", b"x"),
}


NOT_NUMBERS = {
    "text": rows("metrics", "0.5", "train/success"),
    "a list": rows("metrics", [0.5], "credit/gate"),
    "an object": rows("metrics", {"a": 1}, "credit/gate"),
    "a huge number": rows("metrics", 10**30, "credit/gate"),
}


def everything(run: "bepo.explore.frames.Runs") -> list:
    return [run.runs, run.metrics, run.episodes, run.transcripts, run.settings]


@pytest.fixture
def bad(results, monkeypatch, tmp_path):
    """The folder of a run; the other run of the results folder is as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bepo.store.find.PUBLISHED", tmp_path / "none")
    return min((results / "runs").iterdir())


@pytest.mark.parametrize("odd", NOT_NUMBERS)
def test_a_metric_that_is_not_a_number_is_not_logged(odd, bad, results, tmp_path):
    NOT_NUMBERS[odd](bad)
    check(commands_of_a_run(bad, max((results / "runs").iterdir())), results)
    last = read_run(bad).metrics()[-1]
    assert None in (last["train/success"], last["credit/gate"])
    write_archive(read_run(bad), tmp_path / f"{bad.name}.zip")
    assert check_archive(tmp_path / f"{bad.name}.zip").metrics()[-1] == last


@pytest.mark.parametrize("odd", ODD)
def test_every_reader_names_it_and_shows_the_others(odd, bad, results, capsys):
    good = max((results / "runs").iterdir())
    ODD[odd](bad)
    for read in (
        lambda: everything(bepo.load(str(bad), results=results)),
        lambda: everything(bepo.load(results=results)),
    ):
        try:
            read()
        except UserError as error:
            print(error)
    told = "".join(capsys.readouterr())
    assert str(bad) in told and good.name not in told, told
    shown = bepo.load(results=results)
    assert set(shown.metrics["run"]) >= {good.name} and set(shown.episodes["run"]) >= {good.name}
    check(commands_of_a_run(bad, good), results)
    assert "Traceback" not in "".join(capsys.readouterr())
    study = Source(results).study("explored", "smoke")
    assert good.name in {run.id for run in study.runs} or study.skipped


def test_no_odd_run_stops_a_command_that_reads_all_of_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bepo.store.find.PUBLISHED", tmp_path / "none")
    good = write(tmp_path, seed=99, **{"tier": "smoke"}).id
    for seed, change in enumerate([*ODD.values(), *NOT_NUMBERS.values()]):
        change(write(tmp_path, seed=seed, **{"tier": "smoke"}).path)
    out = ["--out", str(tmp_path / "o")]
    commands = [(view, ["--no-open"], (0,)), (diagnose, ["explored"], (0, 1))]
    commands += [(analysis, ["runs", "--all", "--source", "local"], (0,))]
    check([*commands, (analysis, ["estimators", "--source", "local", *out], (0,))], tmp_path)
    printed = "".join(capsys.readouterr())
    assert "Traceback" not in printed and good[:6] in printed


def commands_of_a_run(bad, good) -> list:
    return [
        (view, [str(bad), "--no-open"], (0, 2)),
        (view, [bad.name, "--text"], (0, 2)),
        (view, [good.name, bad.name, "--no-open"], (0, 2)),
        (diagnose, [str(bad)], (0, 1, 2)),
        (lab, ["replay", str(bad), "grpo"], (0, 2)),
        (analysis, ["curves", bad.name], (0, 2)),
    ]


def check(commands, results) -> None:
    """Run commands, and check their exit statuses."""
    for command, arguments, allowed in commands:
        assert command([*arguments, "--results", str(results)]) in allowed, (command.__module__, arguments)


@pytest.mark.parametrize("odd", ODD)
def test_so_it_is_for_archives(odd, results, tmp_path):
    """An archive of a run that became odd after it was packed."""
    bad, _ = sorted((results / "runs").iterdir())
    path = tmp_path / f"{bad.name}.zip"
    write_archive(read_run(bad), path, complete=True)
    ODD[odd](bad)
    packed(path, {name: (bad / name).read_bytes() for name in ("config.json", "run.json", "transcripts.jsonl.gz")})
    try:
        everything(bepo.load(str(path), results=results))
    except UserError as error:
        assert str(path) in str(error)


def packed(path, members):
    """Replace members of an archive, and seal it anew."""
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()} | members
    content["content.json"] = with_digest(
        {"files": {name: digest(data) for name, data in content.items() if name != "content.json"}}
    ).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)


COLUMNS = {
    "null": lambda packed: packed["columns"].update(update=None),
    "short": lambda packed: packed["columns"]["update"].pop(),
    "long": lambda packed: packed["columns"]["update"].append(3),
    "absent": lambda packed: packed["columns"].pop("update"),
    "text": lambda packed: packed["columns"].update({"update": ["x" for _ in packed["columns"]["update"]]}),
    "no shape": lambda packed: packed.pop("shape"),
    "a shape of text": lambda packed: packed.update(shape="x"),
    "a shape that does not exist": lambda packed: packed["shape"].append(99),
    "shapes of null": lambda packed: packed.update(shapes=[None]),
    "columns of a list": lambda packed: packed.update(columns=[]),
}


@pytest.mark.parametrize("stream", ["metrics", "episodes"])
@pytest.mark.parametrize("odd", COLUMNS)
def test_packed_columns_must_fit_their_rows(odd, stream, results, tmp_path, monkeypatch):
    bad, _ = sorted((results / "runs").iterdir())
    path = tmp_path / f"{bad.name}.zip"
    write_archive(read_run(bad), path)
    with zipfile.ZipFile(path) as file:
        rows = json.loads(file.read(f"{stream}.json"))
    COLUMNS[odd](rows)
    packed(path, {f"{stream}.json": json.dumps(rows).encode()})
    for read in ("rows", "columns"):
        with pytest.raises(Corrupt, match=bad.name):
            getattr(read_archive(path), read)(stream)


def test_a_number_that_is_changed_with_the_list_of_files_alone_is_found(results, tmp_path):
    bad, _ = sorted((results / "runs").iterdir())
    path = tmp_path / f"{bad.name}.zip"
    write_archive(read_run(bad), path)
    with zipfile.ZipFile(path) as file:
        rows = json.loads(file.read("episodes.json"))
    rows["columns"]["success"] = [True for _ in rows["columns"]["success"]]
    packed(path, {"episodes.json": json.dumps(rows).encode()})
    with pytest.raises(Corrupt, match=r"episodes\.jsonl does not match its digest in run\.json"):
        find_runs(str(path), results)


def test_a_list_of_files_without_files_is_named(results, tmp_path):
    bad, _ = sorted((results / "runs").iterdir())
    path = tmp_path / f"{bad.name}.zip"
    write_archive(read_run(bad), path)
    with zipfile.ZipFile(path, "a") as file:
        pass
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    for files in ({}, {"files": None}, {"files": []}):
        content["content.json"] = with_digest(files).encode()
        with zipfile.ZipFile(path, "w") as file:
            for name, data in content.items():
                file.writestr(name, data)
        with pytest.raises(Corrupt, match=r"content\.json: its files is"):
            read_archive(path)


@pytest.mark.parametrize("odd", [{"overrides": "x"}, {"overrides": [3]}, {"varying": None}, {"run_id": ["x"]}])
def test_an_odd_cell_is_named(odd, tmp_path):
    path = tmp_path / "cell.json"
    write_sealed(path, {"overrides": ["a=1"], "varying": [], "run_id": "abc"} | odd)
    with pytest.raises(Corrupt, match=r"cell\.json"):
        read_cell(path)
