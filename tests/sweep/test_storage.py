"""Where Optuna trials may be stored, and what is told about places that cannot be used."""

import pytest

from bepo.runs.trials_database import journal_file, opened
from bepo.sweep.__main__ import main


@pytest.mark.parametrize(
    "storage, told",
    [
        (
            "postgresql://me:secret@host/db",
            "postgresql://me:***@host/db: needs the driver psycopg; to fix it: pip install",
        ),
        ("postgresql+psycopg2://host/db", "needs the driver psycopg2; to fix it: pip install psycopg2-binary"),
        ("mysql://host/db", "needs the driver MySQLdb; to fix it: pip install mysqlclient"),
        ("mysql+pymysql://host/db", "needs the driver pymysql; to fix it: pip install pymysql"),
        ("journal:///nowhere/x", "folder nowhere does not exist (an absolute path needs four slashes)"),
        ("/nowhere/x.journal", "folder /nowhere does not exist"),
        ("sqlite://", "memory is not persistent"),
        ("3", "must be the URL of a database, such as sqlite:///FILE, or journal:///FILE"),
    ],
)
def test_a_storage_that_cannot_be_used_is_one_line(tmp_path, capsys, storage, told):
    assert main(["tune_gated_bepo", "--dry-run", f"hydra.sweeper.storage={storage}", f"results={tmp_path}"]) != 0
    printed = capsys.readouterr().err
    assert told in printed and len(printed.strip().splitlines()) == 1, printed


def test_a_journal_is_named_by_a_url_or_by_its_ending(tmp_path):
    for storage, file in (("journal:////a/b", "/a/b"), ("journal:///a/b", "a/b"), ("a/b.journal", "a/b.journal")):
        assert str(journal_file(storage)) == file
    for storage in ("sqlite:///a.journal", "sqlite:///a.db", "a.db"):
        assert journal_file(storage) is None and opened(storage) == storage


def test_a_sweep_refuses_a_launcher(capsys):
    assert main(["main_sokoban", "hydra/launcher=submitit_slurm", "--dry-run"]) == 2
    printed = capsys.readouterr().err
    assert "hydra/launcher=submitit_slurm: bepo.sweep starts the runs itself" in printed
    assert "bepo.train -cd experiments -cn main_sokoban" in printed and len(printed.strip().splitlines()) == 1
