"""Where Optuna trials may be stored, and what is told about places that cannot be used."""

import json

import optuna
import pytest

from bepo.runs.trials_database import journal_file, opened
from bepo.sweep.__main__ import main


def test_a_journal_is_named_by_a_url_or_by_its_ending(tmp_path):
    for storage, file in (("journal:////a/b", "/a/b"), ("journal:///a/b", "a/b"), ("a/b.journal", "a/b.journal")):
        assert str(journal_file(storage)) == file
    for storage in ("sqlite:///a.journal", "sqlite:///a.db", "a.db"):
        assert journal_file(storage) is None and opened(storage) == storage


def journal(tmp_path, trials: int):
    """Return a journal with a study of some trials, and an open storage of it."""
    file = tmp_path / "trials.journal"
    storage = opened(str(file))
    study = optuna.create_study(study_name="s", storage=storage, load_if_exists=True)
    for _ in range(trials):
        study.tell(study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}), 1.0)
    return file, study


def values(file) -> list[float]:
    return [trial.value for trial in optuna.load_study(study_name="s", storage=opened(str(file))).trials]


@pytest.mark.parametrize(
    "end", [b'{"op_code": 6, "worker', b"{", b"\0\0\0", b'{"op_code": 6\n', b'{"a": "' + b"x" * 200_000]
)
def test_a_last_line_that_is_torn_is_removed_before_a_journal_goes_on(end, tmp_path, capsys):
    file, study = journal(tmp_path, 2)
    whole = file.read_bytes()
    with file.open("ab") as lines:
        lines.write(end)
    assert values(file) == [1.0, 1.0] and file.read_bytes() == whole + end  # to look changes nothing
    study.tell(study.ask(), 2.0)  # a process that has the journal open already
    assert values(file) == [1.0, 1.0, 2.0]
    assert capsys.readouterr().err == f"{file}: removed its last line, which is incomplete\n"
    assert file.read_bytes().startswith(whole) and all(map(json.loads, file.read_bytes().splitlines()))


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_journal_that_was_cut_off_anywhere_goes_on(cut, tmp_path):
    file, _ = journal(tmp_path, 2)
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in range(1, len(lines)):
        file.write_bytes(b"".join(lines[:kept]) + lines[kept][:-1][:cut])
        study = journal(tmp_path, 1)[1]
        assert len(optuna.load_study(study_name="s", storage=opened(str(file))).trials) == len(study.trials)
    file.write_bytes(whole)
    assert values(file) == [1.0, 1.0]


@pytest.mark.parametrize("line", [b"[1, 2]", b"3", b'{"op_code": 99}', b'{"op_code": 0, "wor', b"\xff\xfe"])
def test_a_journal_of_another_form_is_one_line(line, tmp_path, capsys):
    file, _ = journal(tmp_path, 0)
    whole = file.read_bytes()
    file.write_bytes(whole + line + b"\n" + whole)
    assert main(["tune_gated_bepo", "--dry-run", f"hydra.sweeper.storage={file}", f"results={tmp_path}"]) == 2
    printed = capsys.readouterr().err
    assert f"{file}: cannot be opened (" in printed and len(printed.strip().splitlines()) == 1, printed
    assert file.read_bytes() == whole + line + b"\n" + whole


def test_a_journal_whose_only_line_is_torn_begins_again(tmp_path):
    file, _ = journal(tmp_path, 0)
    file.write_bytes(file.read_bytes()[:20])
    assert values(journal(tmp_path, 1)[0]) == [1.0]
