"""Make ``bepo/testing/conformance.json`` from the slow reference and the recordings of official code.

``python -m tests.credit.make_conformance [FILE]``. The file is the same on every run; a test compares it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from bepo.core.errors import UserError
from bepo.credit import Estimator, estimators
from bepo.testing.strategies import options
from tests.conftest import DATA
from tests.credit import reference

FILE = Path(__file__).parents[2] / "bepo" / "testing" / "conformance.json"
Rows = list[dict[str, Any]]

IDENTITIES = {
    "recorded": "equals a recording of the authors' code, or of an independent implementation where that is not public",
    "equation": "equals the equation, evaluated one transition at a time, with one setting changed",
    "groups": "a state belongs to its group: equal keys of two groups are two states, and pools are groups",
    "deviation": "advantages are divided by the deviation of their pool",
    "penalty": "the penalty for an invalid action is subtracted where the settings say, at that transition alone",
    "discount": "the last transition of a trajectory has the discount 1, the one before it gamma",
    "ties": "equal scores give an advantage of exactly 0, whatever the rounding",
    "no_repeats": "without a repeated state there is nothing to compare steps with, and only the outcome term remains",
    "special_case": "two estimators agree where one is a special case of the other",
    "all_failed": "in a group without a success, no step term that counts successes says anything",
    "edges": "groups of one, episodes of one step, groups without a success, self-loops, responses without an action",
    "scale": "standardised advantages do not depend on the scale of rewards",
}
FAULTS = {
    "batch_wide_groups": "states and pools are shared by all groups of the batch",
    "missing_deviation": "advantages are centred but not divided by the deviation",
    "penalty_on_the_wrong_side": "the invalid-action penalty is taken from rewards: other transitions pay it too",
    "off_by_one_discount": "returns are discounted once too often: the last transition has the discount gamma",
    "float32_ties": "rounding errors of equal scores are divided by their own deviation",
}
PER_FAULT = 6  # cases of each method for each fault that it can have
TOLERANCE = 1e-5


# --- rollouts --------------------------------------------------------------------------------------------------------


def rollout(
    seed: int, groups: int = 2, states: int = 4, repeats: bool = True, ends: tuple = (), valid: float = 0.7
) -> Rows:
    """Return the rows of small groups with the same state keys, rewards on the way and some invalid actions."""
    draw, rows, fresh = random.Random(seed), [], iter(range(10**6))
    entropy, energy, continuation = (random.Random(seed + i) for i in range(3))
    for g in range(groups):
        for k in range(draw.randint(3, 4)):
            steps = draw.randint(1, 4)
            keys = [f"s{draw.randrange(states) if repeats else next(fresh)}" for _ in range(steps + 1)]
            done = draw.choice(ends or ("success", "success", "failure", "truncation"))
            for t in range(steps):
                last = t == steps - 1
                rows.append(
                    {
                        "uid": f"g{g}",
                        "traj": f"g{g}k{k}",
                        "t": t,
                        "obs": keys[t],
                        "next": keys[t + 1],
                        "action": draw.choice(("left", "right")),
                        "r": draw.choice((0.0, 0.0, -0.1, 0.3)) + 10.0 * (last and done == "success"),
                        "done": done if last else None,
                        "valid": draw.random() < valid,
                        "entropy": round(entropy.random(), 2),
                        "energy": round(energy.random(), 2),
                        "continuation": round(10 * continuation.random(), 1),
                        "values": [round(draw.uniform(-1, 5), 2) for _ in range(draw.randint(1, 2))],
                    }
                )
    return rows


def ties(seed: int) -> Rows:
    """Return a group of equal trajectories, whose scores have long binary fractions."""
    n, power, reward = (5, 17, 11, 9)[seed % 4], 3 + 7 * seed, 10.0
    row = {"uid": "g0", "t": 0, "obs": "s0", "next": "s1", "action": "left", "done": "success", "valid": True}
    row |= {"entropy": 0.5, "energy": 0.5, "continuation": 10.0 * 0.95**power}
    return [row | {"traj": f"g0k{k}", "r": reward * 0.95**power, "values": [0.5]} for k in range(n)]


def edges() -> Rows:
    """Return groups of one step, of one trajectory, of one-step episodes, and of episodes without a success."""
    groups = (
        ("ab success",),
        ("abba truncation",),
        ("ab success", "ac failure", "ab truncation", "ac success"),
        ("abcd truncation", "abab truncation", "aacb failure", "ab failure"),
    )
    rows: Rows = []
    for g, episodes in enumerate(groups):
        for k, (keys, done) in enumerate(episode.split() for episode in episodes):
            for t, (source, target) in enumerate(pairwise(keys)):
                n, last = len(rows), t == len(keys) - 2
                row = {"uid": f"g{g}", "traj": f"g{g}k{k}", "t": t, "obs": source, "next": target}
                row |= {"action": ("left", None, "left", "right")[n % 4], "valid": n % 4 != 1}
                row |= {"r": 10.0 * (last and done == "success") - 0.1 * (t > 0), "done": done if last else None}
                row |= {"entropy": 0.1 * (n % 3), "energy": 0.2 * (n % 5), "continuation": 1.0 * (n % 4)}
                rows.append(row | {"values": [0.5 * (n % 2), 0.25]})
    return rows


# --- what a fault gives ----------------------------------------------------------------------------------------------


def evaluate(o: Estimator, rows: Rows) -> list[float]:
    return [float(x) for x in getattr(reference, o.name)(rows, o)]


def batch_wide(o: Estimator, rows: Rows) -> list[float]:
    return evaluate(o, [row | {"uid": "all"} for row in rows])


def undivided(o: Estimator, rows: Rows) -> list[float]:
    settings = {"std": "none", "step_std": "none", "outcome_std": "none"}
    if o.name == "ppo":
        settings = {"whiten": False}
    without = replace(o, **{name: value for name, value in settings.items() if hasattr(o, name)})
    with replaced("spread", lambda values, kind: 1.0):  # also where no setting chooses the deviation
        return evaluate(without, rows)


def penalised_rewards(o: Estimator, rows: Rows) -> list[float]:
    moved = [row | {"r": row["r"] - o.invalid_penalty * (not row["valid"])} for row in rows]
    return evaluate(replace(o, invalid_penalty=0.0), moved)


@contextmanager
def replaced(name: str, function: Callable) -> Iterator[None]:
    original = getattr(reference, name)
    setattr(reference, name, function)
    try:
        yield
    finally:
        setattr(reference, name, original)


def discounted_once_more(o: Estimator, rows: Rows) -> list[float]:
    plain, gamma = reference.backward, vars(o).get("beta", vars(o).get("gamma"))

    def backward(rows: Rows, x: list[float], decay: float, *rest: Any) -> list[float]:
        return [y * (gamma if decay == gamma else 1.0) for y in plain(rows, x, decay, *rest)]

    with replaced("backward", backward):
        return evaluate(o, rows)


# Which methods can have a fault: those that compare within groups, divide by a deviation, charge invalid actions
# outside of rewards, use discounted returns.
MAKE = estimators()
NAMES = [name for name, cls in MAKE.items() if not cls.privileged]
GIVES: dict[str, tuple[str, Callable, list[str]]] = {
    "groups": ("batch_wide_groups", batch_wide, [n for n in NAMES if n != "ppo"]),
    "deviation": ("missing_deviation", undivided, NAMES),
    "penalty": (
        "penalty_on_the_wrong_side",
        penalised_rewards,
        [n for n in NAMES if n not in ("gagpo", "ppo", "graft")],  # these charge rewards themselves, or know none
    ),
    "discount": (
        "off_by_one_discount",
        discounted_once_more,
        ["gigpo", "hgpo", "gagpo", "gated_bepo", "adastep", "g2po", "crbc", "ecpo"],
    ),
}


def variants(name: str) -> list[Estimator]:
    """Return a method with its defaults, then with each other value of each setting."""
    default = MAKE[name]()
    found = [default]
    for setting, values in sorted(options(type(default)).items()):
        for value in values:
            try:
                one = replace(default, **{setting: value})
            except UserError:
                continue  # settings that exclude each other
            found += [one] * (one not in found)
    return found


# --- cases -----------------------------------------------------------------------------------------------------------


class Kit:
    """The cases so far, and the rollouts that they share."""

    def __init__(self) -> None:
        self.rollouts: dict[str, Rows] = {}
        self.cases: list[dict[str, Any]] = []

    def add(
        self,
        tests: str,
        o: Estimator,
        rollout_id: str,
        rows: Rows,
        expected: list[float],
        atol: float = TOLERANCE,
        **more: Any,
    ) -> None:
        self.rollouts[rollout_id] = rows
        settings = {name: value for name, value in asdict(o).items() if name != "name"}
        number = sum(case["method"] == o.name and case["tests"] == tests for case in self.cases)
        case = {"id": f"{o.name}/{tests}/{number}", "method": o.name, "tests": tests, "settings": settings}
        case |= {"rollout": rollout_id, "atol": atol, "expected": rounded(expected)}
        self.cases.append(case | more)


def rounded(numbers: list[float]) -> list[float]:
    return [round(x, 8) + 0.0 for x in numbers]  # + 0.0: not -0.0


def recorded(kit: Kit) -> None:
    """Official recordings; noise of float32 ties is left out."""
    for n, golden in enumerate(json.loads((DATA / "credit_golden.json").read_text(encoding="utf-8"))):
        gamma, omega, official = golden["gamma"], golden["omega"], golden["official"]
        none = {"invalid_penalty": 0.0}
        found: list[tuple[str, dict[str, Any], list[float]]] = []
        for mode, sample, population in (("mean_norm", "none", "none"), ("mean_std_norm", "sample", "population")):
            found.append(("gigpo", {"std": sample, "gamma": gamma}, official[f"gigpo_{mode}"]))
            for key, more in (("K2", {}), ("K4", {"history": 4}), ("base", {"base_group": True})):
                found.append(("hgpo", {"std": population, "gamma": gamma} | more, official[f"hgpo_{key}_{mode}"]))
            for delta, score in ((False, "power"), (True, "difference")):
                key = f"graphgpo_norm{delta}_{mode}"
                if key not in golden["fp32_noise_keys"]:
                    found.append(("graphgpo", {"std": sample, "graph_reward": score, "omega": omega}, official[key]))
        for pool, cross in (("transition", True), ("trajectory", False)):
            for std, plain in (("sample", False), ("none", True)):
                found.append(("grpo", {"pool": pool, "std": std}, official[f"ep_cross{cross}_nostd{plain}"]))
        found.append(("rloo", {"pool": "transition"}, golden["rloo_record"]))
        found.append(("rloo", {"pool": "trajectory"}, golden["rloo_trajectory"]))
        found.append(("gagpo", {}, golden["gagpo_reconstruction"]))
        found.append(("gated_bepo", {}, golden["gated_bepo"]["A"]))
        found.append(("gated_bepo", {"solver": "exact"}, golden["gated_bepo_exact"]["A"]))
        for name, settings, expected in found:
            kit.add("recorded", MAKE[name](**none | settings), f"recorded-{n}", golden["rows"], expected)

    for n, golden in enumerate(json.loads((DATA / "g2po_golden.json").read_text(encoding="utf-8"))):
        rows = [row | {"traj": f"{row['uid']}{row['traj']}"} for row in golden["rows"]]
        for key, settings in (("mean_std_norm_1", {}), ("mean_norm_0.8", {"std": "none", "step_weight": 0.8})):
            kit.add("recorded", MAKE["g2po"](**settings), f"recorded-g2po-{n}", rows, golden[key])


def at_the_edges(kit: Kit) -> None:
    """Also the settings that matter only there."""
    rows = edges()
    for name in NAMES:
        default = MAKE[name]()
        pools = [{"pool": p, "singleton": s} for p in ("transition", "trajectory") for s in ("raw", "zero")]
        for settings in ({}, *pools, {"progress": 0.3}, {"gamma": 1.0}, {"history": 1}):
            if all(hasattr(default, setting) for setting in settings):
                o = replace(default, **settings)
                if not settings or o != default:
                    kit.add("edges", o, "edges", rows, evaluate(o, rows))


def equations(kit: Kit) -> None:
    for name in NAMES:
        for number, o in enumerate(variants(name)):
            seed = number % 6
            rows = rollout(seed)
            kit.add("equation", o, f"mixed-{seed}", rows, evaluate(o, rows))


def faults(kit: Kit) -> None:
    """Cases whose numbers differ from those that a fault gives, which they hold too."""
    for tests, (fault, gives, names) in GIVES.items():
        for name in names:
            count = 0
            for o in (one for one in variants(name) for _ in range(2)):
                seed = 100 + count
                rows = rollout(seed)
                expected, wrong = evaluate(o, rows), gives(o, rows)
                if max(abs(a - b) for a, b in zip(expected, wrong)) > 0.01 and count < PER_FAULT:
                    more = {"fault": fault, "gives": rounded(wrong)}
                    kit.add(tests, o, f"mixed-{seed}", rows, expected, **more)
                    count += 1


def identities(kit: Kit) -> None:
    """Cases whose numbers follow from an identity: of another estimator, or of another rollout."""
    for seed in range(4):
        rows = ties(seed)
        for name in NAMES:
            o = replace(MAKE[name](), invalid_penalty=0.0)
            if max(map(abs, evaluate(o, rows))) < TOLERANCE:  # PPO's critic and EMPG's bonus tell them apart
                kit.add("ties", o, f"ties-{seed}", rows, [0.0] * len(rows), fault="float32_ties")
        unique = rollout(200 + seed, repeats=False)
        for name in ("gated_bepo", "gigpo", "graphhca", "adastep", "ecpo", "crbc"):
            o = MAKE[name]()
            outcome = MAKE["grpo"](singleton="zero" if name == "gated_bepo" else "raw")
            kit.add("no_repeats", o, f"unique-{seed}", unique, evaluate(outcome, unique))
        kit.add("no_repeats", MAKE["hgpo"](), f"unique-{seed}", unique, [0.0] * len(unique))
        failed = rollout(300 + seed, ends=("failure", "truncation"))
        for name in ("crbc", "graphhca"):
            kit.add("all_failed", MAKE[name](), f"failed-{seed}", failed, evaluate(MAKE["grpo"](), failed))
        special_cases(kit, rollout(400 + seed), f"mixed-{400 + seed}")
        rows = [row | {"r": 10.0 * (row["done"] == "success")} for row in rollout(500 + seed)]
        scaled = [row | {"r": 7.0 * row["r"]} for row in rows]
        for name in ("grpo", "gated_bepo", "gagpo", "gigpo"):
            o = replace(MAKE[name](), invalid_penalty=0.0)
            kit.add("scale", o, f"scaled-{seed}", scaled, evaluate(o, rows), atol=1e-4)


def special_cases(kit: Kit, rows: Rows, rollout_id: str) -> None:
    def add(o: Estimator, expected: list[float]) -> None:
        kit.add("special_case", o, rollout_id, rows, expected)

    def step_of_gigpo(penalty: float) -> list[float]:
        pair = [evaluate(MAKE["gigpo"](std="none", invalid_penalty=penalty, step_weight=w), rows) for w in (1.0, 0.0)]
        return [a - b for a, b in zip(*pair)]

    gated = {"iterations": 0, "n_min": 1, "b_min": 1, "eta_min": 0.0, "step_weight": 1.0, "invalid_penalty": 0.0}
    add(MAKE["gated_bepo"](**gated), evaluate(MAKE["gagpo"](invalid_penalty=0.0), rows))
    add(MAKE["gagpo"](gae_lambda=1.0, invalid_penalty=0.0, step_std="none"), centred(rows, step_of_gigpo(0.0)))
    add(MAKE["hgpo"](history=0, std="none"), step_of_gigpo(0.1))
    plain = evaluate(MAKE["grpo"](pool="trajectory", singleton="zero", std="none"), rows)
    members = {uid: len({row["traj"] for row in rows if row["uid"] == uid}) for uid in {row["uid"] for row in rows}}
    scale = [members[row["uid"]] / (members[row["uid"]] - 1) for row in rows]
    add(MAKE["rloo"](pool="trajectory", singleton="zero"), [s * a for s, a in zip(scale, plain)])
    add(MAKE["graphgpo"](step_weight=0.0), evaluate(MAKE["grpo"](), rows))
    add(MAKE["gated_bepo"](mixing="outcome_only"), evaluate(MAKE["grpo"](singleton="zero"), rows))
    alone = [row | {"action": f"{row['traj']} {row['t']}"} for row in rows]
    kit.add("special_case", MAKE["adastep"](), f"{rollout_id}-alone", alone, evaluate(MAKE["gigpo"](), rows))


def centred(rows: Rows, values: list[float]) -> list[float]:
    return reference.standardise(reference.by(rows, "uid"), values, "none")


def kit() -> dict[str, Any]:
    """Return the content of the file."""
    made = Kit()
    for add in (recorded, equations, faults, identities, at_the_edges):
        add(made)
    used = {case["rollout"] for case in made.cases}
    return {
        "format": 1,
        "identities": IDENTITIES,
        "faults": FAULTS,
        "rollouts": {name: rows for name, rows in made.rollouts.items() if name in used},
        "cases": made.cases,
    }


def text(content: dict[str, Any]) -> str:
    """Return the file: JSON with one rollout and one case a line."""

    def plain(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), sort_keys=True)

    head = ",\n".join(f'"{name}":{plain(content[name])}' for name in ("format", "identities", "faults"))
    rollouts = ",\n".join(f'"{name}":{plain(rows)}' for name, rows in content["rollouts"].items())
    cases = ",\n".join(map(plain, content["cases"]))
    return f'{{\n{head},\n"rollouts":{{\n{rollouts}\n}},\n"cases":[\n{cases}\n]\n}}\n'


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(text(kit()), encoding="utf-8")
