"""Record textworld: ``python -m tests.envs.record_alfworld`` writes tests/data/alfworld_transcripts.json.

This needs the extra [alfworld]. Half of the games have features of original games (alfworld_variants.py).
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from random import Random

from bepo.envs import content_id
from bepo.envs.alfworld.compare import Row, commands, transcript
from bepo.envs.alfworld.generate import SPLITS, generate
from bepo.store.files import digest
from tests.envs.alfworld_variants import original_like

PATH = Path(__file__).parents[1] / "data" / "alfworld_transcripts.json"
GAMES, STEPS = 36, 25


def game_of(case: dict) -> tuple[dict, dict]:
    """Return ``(game file, traj data)`` of a recorded case."""
    game = generate(case["split"], case["number"])
    file = game.game_file
    return (original_like(file, Random(case["number"])) if case["original_like"] else file), game.traj_data


def recorded_rows(rows: list[Row]) -> list[list]:
    """Return feedback, a digest of the admissible commands, and success of each step."""
    return [[feedback, digest("\n".join(admissible), 8), won] for _, feedback, admissible, won in rows]


def main() -> None:
    """Play the games, and write the file."""
    from bepo.envs.alfworld.textworld_engine import TextWorldGame

    cases = []
    for k in range(GAMES):
        case = {"split": SPLITS[k % 3], "number": 10_000 + 5 * k, "original_like": k % 2 == 1}
        file, traj_data = game_of(case)
        chosen = commands(file, traj_data, Random(k), STEPS)
        rows = recorded_rows(transcript(TextWorldGame(file), chosen))
        cases.append(case | {"problem": content_id(file["pddl_problem"]), "commands": chosen, "rows": rows})
    made_with = {name: version(name) for name in ("textworld", "alfworld", "fast-downward-textworld")}
    text = json.dumps({"made_with": made_with, "games": cases}, indent=0)
    PATH.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
