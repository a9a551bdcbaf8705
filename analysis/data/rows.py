"""Row keys: the row of a table or figure to which a run belongs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from analysis.data.runs import Run
from bepo.credit import Estimator
from bepo.credit.crbc import CRBC
from bepo.credit.gated_bepo import GatedBEPO
from bepo.losses import Loss


@dataclass(frozen=True)
class RowKey:
    """Assign runs to the rows of an artefact.

    ``row``: returns the name of a run's row, or None if the run is not part of the artefact. ``varies``: settings
    outside ``credit`` in which rows differ on purpose (dotted names or prefixes). ``within``: settings in which the
    runs of one row differ on purpose.
    """

    row: Callable[[Run], str | None]
    varies: tuple[str, ...] = ()
    within: tuple[str, ...] = ()


def settings(*names: str) -> RowKey:
    """Return the key with a row per value of credit fields (or dotted names), such as ``n_min=2 b_min=2``."""
    return RowKey(lambda run: " ".join(f"{name.removeprefix('credit.')}={run.written(name)}" for name in names), names)


_VARIED: Mapping[str, type[Estimator]] = {"gated_bepo": GatedBEPO, "crbc": CRBC}
"""Estimators whose settings have rows of their own."""


def _variant(run: Run) -> str:
    """Return the method, for those of ``_VARIED`` with their changed settings: ``gated_bepo backup=max``."""
    varied = fields(_VARIED[run.method]) if run.method in _VARIED else ()
    changed = (f"{f.name}={run[f.name]}" for f in varied if run[f.name] not in (None, f.default))
    return " ".join([run.method, *changed])


_OF_LOSSES = {f.name: f.default for f in fields(Loss) if f.name in ("length", "sequence_mask")}
METHOD = RowKey(lambda run: run.method)
VARIANT = RowKey(_variant)
EVERY_METHOD: Mapping[str, RowKey] = dict.fromkeys(
    ("main_alfworld", "main_webshop", "main_sokoban", "main_sokoban_text", "headroom"), METHOD
)
"""The studies that compare all methods on an environment, and the one that adds the oracle to ALFWorld and WebShop."""


def evaluated(*envs: str) -> RowKey:
    """Return the key with a row per prompting method on these environments. Their settings may differ."""
    varies = ("prompting.", "policy.", "evaluation.", "agent.", "env.", "rollout.")
    return RowKey(lambda run: run.method if run.env in envs else None, varies)


# GraphGPO's protocol and the matched protocol differ in the environment.
OBSERVATIONS = RowKey(lambda run: f"{run.method} {run['env.graph_key']}", ("env.graph_key", "env.prompt_state"))


def _in_block(run: Run) -> str | None:
    """Return the method or variant of a run whose weights, warm start and training have the same seed, its block's.

    Pretrained weights have no seed; their adapters have one.
    """
    adapters = run["policy.lora.seed"] if run["policy.lora.rank"] else None
    if {run["policy.seed"], adapters} - {run.seed, None} or run["policy.warm_start.seed"] != run.seed:
        return None
    return _variant(run) if run.preset == run.method else run.preset


def loss_of(run: Run) -> str:
    """Return a run's loss, with its changed length and sequence mask: ``cispo sequence_mask=0.2``."""
    changed = (
        f"{field}={run[f'loss.{field}']}" for field, default in _OF_LOSSES.items() if run[f"loss.{field}"] != default
    )
    return " ".join([run["loss.name"], *changed])


def _with_loss(run: Run) -> str | None:
    variant = _in_block(run)
    return variant and f"{variant} {loss_of(run)}"


_SEEDS = ("policy.seed", "policy.lora.seed", "policy.warm_start.seed")
BASELINE = "gated_bepo"
"""The row in blocks that every other is compared with."""
ROW_IN_BLOCKS = RowKey(_in_block, within=_SEEDS)
LOSSES_IN_BLOCKS = RowKey(_with_loss, tuple(f"loss.{name}" for name in _OF_LOSSES), within=_SEEDS)

WHOLE_METHODS = {("grpo", "dapo"): "DAPO", ("grpo", "dr_grpo"): "Dr. GRPO", ("gigpo", "gspo"): "SAMPO"}
"""Methods that choose sampling and KL loss, too (presets of ``credit``), by estimator and loss."""


def _whole_method(run: Run) -> str | None:
    """Return the whole method or, with the default loss, the estimator of a run on text Sokoban."""
    row = _in_block(run) if run.env == "sokoban" else None
    return row and (row if run["loss.name"] == "ppo_clip" else WHOLE_METHODS.get((run.method, run["loss.name"])))


WHOLE = RowKey(_whole_method, ("rollout.mixed_groups", "rollout.max_batches", "training.kl_coef"), within=_SEEDS)


def _by_deviation(run: Run) -> str | None:
    """Return the estimator of a run on ALFWorld, and whether it divides by a deviation: ``graft std=none``."""
    row = _in_block(run) if run.env == "alfworld" else None
    return row and (f"{row} std=none" if run["std"] == "none" else row)


DEVIATION = RowKey(_by_deviation, within=_SEEDS)


def _by_tasks(run: Run) -> str | None:
    """Return the method of a run; ``ppo grouped`` is PPO on the same tasks as the methods that compare trajectories."""
    row = _in_block(run)
    return f"{row} grouped" if row == "ppo" and run["rollout.grouped"] is not False else row


TASKS = RowKey(_by_tasks, ("rollout.grouped",), within=_SEEDS)
