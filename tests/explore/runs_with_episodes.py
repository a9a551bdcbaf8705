"""Small stored runs with rollouts and transcripts, for tests of what people explore."""

from __future__ import annotations

from pathlib import Path

from bepo.core.batch import RolloutBatch
from bepo.store.runs import RunFolder
from tests.stored_runs import write_run

HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"


def batch(start: str = "start") -> RolloutBatch:
    """Two groups of three episodes; in the first group all begin in ``start``, and two go the same way."""
    rows = []
    for group, paths in enumerate((("aab+", "ab+", "b-"), ("c-", "c-", "c-"))):
        for member, path in enumerate(paths):
            *steps, end = path
            for t, action in enumerate(steps):
                last = t == len(steps) - 1
                place = {"uid": f"task{group}", "traj": member, "t": t, "obs": start if t == 0 else f"room {steps[:t]}"}
                got = {"next": f"room {steps[: t + 1]}", "action": f"go {action}", "valid": action != "c"}
                done = {"+": "success", "-": "failure"}[end] if last else None
                rows.append(place | got | {"r": 10.0 * (done == "success"), "done": done})
    return RolloutBatch.from_rows(rows)


def transcript(task: str, actions: str, success: bool, text: str = "a room") -> dict:
    """A test episode whose steps are letters."""
    steps = [
        {"prompt": f"{text} {t}", "response": f"go {a}", "action": f"go {a}", "observation": f"{text} {t + 1}"}
        | {"reward": 10.0 * (success and t == len(actions) - 1), "valid": True}
        for t, a in enumerate(actions)
    ]
    row = {"split": "test", "evaluation_seed": 0, "task": task, "kind": "", "success": success, "valid": 1.0}
    return row | {"task_score": float(success), "return": 10.0 * success, "broken": False, "steps": steps}


def write(results: Path, credit: str = "gated_bepo", seed: int = 0, text: str = "a room", **settings) -> RunFolder:
    """Write a complete run with rollouts of update 1 and three test episodes, of which seed 1 solves one more."""
    episodes = [
        transcript("t0", "ab", True, text),
        transcript("t1", "abc" if seed else "aab", bool(seed), text),
        transcript("t2", "a", False, text),
    ]
    chosen = {"credit.name": credit, "seed": seed, "env.horizon": 5, "tier": "smoke", "updates": 2} | settings
    return write_run(
        results,
        "explored",
        chosen,
        [[1, seed, 0]],
        tier="smoke",
        metrics={"credit/gate": 0.5},
        rollouts={"000001.npz": batch(text)},
        transcripts=episodes,
    )
