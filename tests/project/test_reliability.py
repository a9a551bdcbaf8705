"""docs/reliability.md has a row only for what a test of ours repeats."""

import re
from pathlib import Path

PAGE = Path("docs/reliability.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]


def test_every_row_names_a_test_that_exists():
    rows = [row for row in ROWS if row[0] != "attack"]
    assert len(rows) > 30 and all(len(row) == 3 for row in rows)
    folder = ""
    for attack, _, seen in rows:
        named = re.findall(r"`([\w/]+\.\w+)`", seen)
        for name in named:
            folder = name.rpartition("/")[0] or folder  # a second file of the same folder
            path = Path(folder, name.rpartition("/")[2])
            assert path.exists() and str(path).startswith("tests/"), f"{attack}: {path}"
        assert named or "make attack" in seen or seen in ("the same",) or "`around`" in seen, attack
        assert "by hand" not in seen, attack


def test_make_attack_runs_tests():
    assert list(Path("tests/attacks").glob("test_*.py"))
