"""Estimators on recorded rollouts: how far they agree, and at which transitions they differ.

The truth is unknown here, so no number says which estimator is right. Sizes: E estimators, N transitions of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.credit import Estimator
from bepo.credit._recorded import read_rollouts as read_file
from bepo.credit.oracle import progress
from bepo.explore.advantages import applies, configured
from bepo.explore.frames import read_rollouts
from bepo.lab.expert import with_expert_steps
from bepo.lab.words import DEFAULT_ENV
from bepo.runs.compose import config_of
from bepo.store.find import find_runs
from bepo.store.run_files import StoredRun

REPLAYED = {
    "own_rank": "Spearman's rank correlation with the run's own estimator",
    "own_cosine": "cosine with the advantages of the run's own estimator",
    "own_apart": "share of transitions that tell it from the run's own estimator (see apart)",
    "rank": "mean rank correlation with the other named estimators",
    "cosine": "mean cosine with them",
    "apart": "mean share of transitions that tell it from them: there the advantages, each divided by its root mean "
    "square, differ by more than 0.1",
    "variance": "variance of the advantages over transitions",
    "zero": "share of transitions with an advantage of exactly 0",
    "once": "share of sum |advantage| at states that the group visits once",
    "first": "share of sum |advantage| on the first step of a trajectory",
    "last": "... on the last step of a trajectory; the rest is in the middle",
    "won": "... in successful trajectories",
    "on_path": "... at states that a successful trajectory of the group visits",
    "expert_sign": "share of transitions of the wrong sign where the expert's distance changes; 0 counts half",
    "expert_rank": "Spearman's rank correlation with the change of the expert's distance, from -1 to 1 steps",
}
"""What is measured of an estimator on one batch."""
Batches = Iterator[tuple[int, RolloutBatch]]
"""Batches by update."""
_APART = 0.1  # in units of the root mean square


@dataclass(frozen=True)
class StoredBatches:
    """What a run or a file of rollouts has: its batches, and the run's estimator and environment."""

    batches: Batches
    count: int
    own: Estimator | None = None
    env: str = DEFAULT_ENV


def recorded(name: str, results: Path, truth: bool = False) -> StoredBatches:
    """Return the stored batches of a run or of a file of rollouts.

    ``name`` is a file (.npz, .json, .jsonl), or a run as ``find_runs`` takes it. A file has no estimator of its own.
    With ``truth`` the batches of a run get the expert's steps (``with_expert_steps``). Raises ``UserError`` for several
    runs, and for a run without stored rollouts.
    """
    path = Path(name)
    if path.suffix in (".npz", ".json", ".jsonl"):
        if truth:
            raise UserError(f"{name}: truth=true needs a run, which names the environment")
        return StoredBatches(iter([(0, read_file(path))]), 1)
    runs = find_runs(name, results)
    if len(runs) > 1:
        raise UserError(f"{name}: {len(runs)} runs, must be one; such as {runs[0].id}")
    updates = sorted(runs[0].rollouts())
    if not updates:
        raise UserError(f"{name}: run {runs[0].id} has no stored rollouts")
    batches = ((update, read_rollouts(runs[0], update)) for update in updates)
    known = _with_truth(runs[0], batches) if truth else batches
    return StoredBatches(known, len(updates), _own(runs[0]), str(runs[0].config["env"]["name"]))


def _with_truth(run: StoredRun, batches: Batches) -> Batches:
    """Yield the batches with the expert's steps."""
    config = config_of(run.config)
    if missing := config.env.missing():
        raise missing
    for update, batch in batches:
        known = "expert_steps" in batch.extras
        tasks = islice(config.env.tasks("train"), config.rollout.train_tasks)
        yield update, batch if known else with_expert_steps(batch, config.env, tasks)


def _own(run: StoredRun) -> Estimator | None:
    credit = run.config["credit"]
    return configured(str(credit["name"]), credit)


def replay(batch: RolloutBatch, estimators: Mapping[str, Estimator], own: Estimator | None = None) -> pd.DataFrame:
    """Return every measure of ``REPLAYED``, one row an estimator; those that lack an array of the batch are left out.

    With ``own``, the first row is the run's own estimator. An advantage that is 0 everywhere has no correlation: NaN.
    Raises ``UserError`` if no estimator can be applied.
    """
    usable = {name: estimator for name, estimator in estimators.items() if applies(estimator, batch)}
    if not usable:
        raise UserError(f"{', '.join(estimators)}: the rollouts lack a column that is needed, or a critic's values")
    has_own = own is not None and applies(own, batch)
    if own is not None and has_own:
        usable = {f"own ({own.name})": own} | usable
    advantage = np.stack([np.asarray(estimator.credit_of(batch).advantage, float) for estimator in usable.values()])
    pairs = {
        "rank": _cosines(_centred(rankdata(advantage, axis=1))),
        "cosine": _cosines(advantage),
        "apart": _apart(advantage),
    }
    mass = np.abs(advantage)
    columns = {f"own_{name}": table[0] for name, table in pairs.items()} if has_own else {}
    columns |= {name: _of_others(table, int(has_own)) for name, table in pairs.items()}
    columns["variance"] = advantage.var(1)
    columns["zero"] = (advantage == 0).mean(1)
    columns |= {name: _ratio(mass[:, chosen].sum(1), mass.sum(1)) for name, chosen in kinds_of_states(batch).items()}
    if {"expert_steps", "next_expert_steps"} <= batch.extras.keys():
        before, after = batch.extras["expert_steps"], batch.extras["next_expert_steps"]
        columns |= against_expert(advantage, progress(before, after))
    return pd.DataFrame({"estimator": list(usable), **columns})


def kinds_of_states(batch: RolloutBatch) -> dict[str, Bool[np.ndarray, " N"]]:
    """Return the mask of the transitions of each kind that ``REPLAYED`` measures a share of."""
    won = batch.success[batch.trajectory]
    path = np.zeros(batch.n_states, bool)
    path[batch.state[won]] = True
    kinds = {"once": visited_once(batch), "first": batch.step == 0, "last": batch.terminal > 0}
    return kinds | {"won": won, "on_path": path[batch.state]}


def against_expert(advantage: Float[np.ndarray, "E N"], change: Float[np.ndarray, " N"]) -> dict[str, np.ndarray]:
    """Return the agreement of advantages with the change of the expert's distance, (E,); NaN if it never changes."""
    clear = change != 0
    wrong = np.where(advantage == 0, 0.5, np.sign(advantage) != np.sign(change))[:, clear]
    ranks = _centred(rankdata(np.vstack([advantage, change]), axis=1))
    sign = wrong.mean(1) if clear.any() else np.full(len(advantage), np.nan)
    return {"expert_sign": sign, "expert_rank": _cosines(ranks)[:-1, -1]}


def visited_once(batch: RolloutBatch) -> Bool[np.ndarray, " N"]:
    """Return the mask of the transitions that start in a state in which no other one of the group starts."""
    return np.bincount(batch.state, minlength=batch.n_states)[batch.state] == 1


def _centred(x: Float[np.ndarray, "E N"]) -> Float[np.ndarray, "E N"]:
    return x - x.mean(1, keepdims=True)


def _cosines(x: Float[np.ndarray, "E N"]) -> Float[np.ndarray, "E E"]:
    length = np.sqrt((x * x).sum(1))
    return _ratio(x @ x.T, np.outer(length, length))


def _apart(x: Float[np.ndarray, "E N"]) -> Float[np.ndarray, "E E"]:
    size = np.sqrt((x * x).mean(1, keepdims=True))
    unit = np.divide(x, size, out=np.zeros_like(x), where=size > 0)
    return np.stack([(np.abs(unit - row) > _APART).mean(1) for row in unit])


def _of_others(table: Float[np.ndarray, "E E"], first: int) -> Float[np.ndarray, " E"]:
    """Return the mean of each row over columns from ``first``, without its diagonal and NaN; NaN if nothing is left."""
    known = ~np.isnan(table) & ~np.eye(len(table), dtype=bool)
    known[:, :first] = False
    return _ratio(np.where(known, table, 0.0).sum(1), known.sum(1))


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a / b, and NaN where b is 0."""
    return np.divide(a, b, out=np.full(np.shape(a), np.nan), where=b > 0)
