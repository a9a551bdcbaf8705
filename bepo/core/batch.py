"""Rollout batches: what an agent did in groups of episodes, as flat arrays.

A *transition* is one environment step, that is, one call of the language model (the paper's "rollout record"). A
*trajectory* is one episode. A *group* is the K trajectories sampled from one task; states are only ever matched inside
their group (Gated-BEPO paper, Section "Empirical Graph and Bellman Fixed Point").

Sizes: N transitions, M trajectories, G groups, S interned states, A interned actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from bepo.core.array_files import read_arrays, write_arrays
from bepo.core.batch_checks import OF_TRANSITIONS, check_ids, check_lengths, check_steps
from bepo.core.errors import UserError
from bepo.core.interning import interned_actions, run_starts
from bepo.core.rows import columns_of
from bepo.core.terminal import Terminal
from bepo.core.tokens import Tokens, offsets


@dataclass
class RolloutBatch:
    """N transitions of G groups, laid end to end.

    Transitions are ordered by group, trajectory and step, so that transition ``i + 1`` follows transition ``i`` unless
    ``terminal[i]`` is set. States are interned: an id stands for one key *in one group*, so groups cannot mix.

    Raises ``UserError`` if the steps of a trajectory are not numbered 0, 1, ..., or if a trajectory is not marked
    terminal at exactly its last transition.
    """

    task: list[str]  # (G,) task ids
    group: Int[np.ndarray, " N"]  # which group, 0..G-1
    trajectory: Int[np.ndarray, " N"]  # which trajectory, 0..M-1
    step: Int[np.ndarray, " N"]  # position in the trajectory, from 0
    state: Int[np.ndarray, " N"]  # id of the state that the transition starts in, 0..S-1
    next_state: Int[np.ndarray, " N"]  # 0..S-1, the observed successor even where it ends the trajectory
    terminal: Int[np.ndarray, " N"]  # a ``Terminal``
    reward: Float[np.ndarray, " N"]
    valid: Bool[np.ndarray, " N"]  # whether the response was a well-formed action
    task_score: Float[np.ndarray, " M"]  # the environment's own score of each trajectory, in [0, 1]
    state_group: Int[np.ndarray, " S"]  # the group of each state
    state_key: list[str]  # (S,) the interned keys, for people to read
    row: Int[np.ndarray, " N"]  # index of each transition in the rows that the batch was made from
    tokens: Tokens | None = None
    broken: Bool[np.ndarray, " M"] = None  # pyright: ignore[reportAssignmentType] (set after __init__)
    """Whether a broken environment ended the trajectory. Default: False."""
    action: Int[np.ndarray, " N"] = None  # pyright: ignore[reportAssignmentType]
    """Id of the action that was read from the response, 0..A-1; -1 for a response without an action. Default: -1."""
    action_key: list[str] = field(default_factory=list)
    """(A,) the interned actions, as the environment was given them."""
    extras: dict[str, Float[np.ndarray, " N"]] = field(default_factory=dict)
    """Optional columns by name. Estimators read them with ``column``, and name them in ``Estimator.needs``.

    * ``entropy``: entropy of the sampling distribution in nats, averaged over the response's tokens.
    * ``energy``: squared norm of the gradient of a token's log-probability by its logits. This is 1 - 2 p + the sum of
      squared probabilities, summed over the response's tokens.
    * ``continuation``: mean return, without discount, of the policy's continuations from the state.
    * ``expert_steps``: steps that the environment's expert needs from the state that the transition starts in.
    * ``next_expert_steps``: the same from its successor; 0 after success. Both are NaN where the expert fails.
    """

    def __post_init__(self) -> None:
        check_lengths(self)
        for name, size, value in (("broken", len(self.task_score), False), ("action", len(self), np.int32(-1))):
            if getattr(self, name) is None:
                setattr(self, name, np.full(size, value))
        check_steps(self)
        check_ids(self)

    # --- sizes and derived arrays -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.group)

    @property
    def n_groups(self) -> int:
        """G."""
        return len(self.task)

    @property
    def n_trajectories(self) -> int:
        """M."""
        return len(self.task_score)

    @property
    def n_states(self) -> int:
        """S."""
        return len(self.state_group)

    @cached_property
    def successor(self) -> Int[np.ndarray, " N"]:
        """Return the successor of each transition: a state id, or -1, -2, -3 for the absorbing success, failure and
        truncation.

        Negative ids index the end of a value array with three zeros appended (``graph.with_terminals``).
        """
        return np.where(self.terminal > 0, -self.terminal, self.next_state)

    @cached_property
    def group_start(self) -> Int[np.ndarray, " G"]:
        """Return the first transition of each group."""
        return run_starts(self.group)

    @cached_property
    def transitions_per_group(self) -> Int[np.ndarray, " G"]:
        """Return the number of transitions of each group."""
        return np.diff(np.append(self.group_start, len(self)))

    @cached_property
    def last(self) -> Int[np.ndarray, " M"]:
        """Return the last transition of each trajectory."""
        return np.flatnonzero(self.terminal)

    @cached_property
    def trajectory_group(self) -> Int[np.ndarray, " M"]:
        """Return the group of each trajectory."""
        return self.group[self.last]

    @cached_property
    def success(self) -> Bool[np.ndarray, " M"]:
        """Return the mask of the trajectories that ended in success."""
        return self.terminal[self.last] == Terminal.SUCCESS

    @cached_property
    def episode_return(self) -> Float[np.ndarray, " M"]:
        """Return the undiscounted return R(tau) of each trajectory."""
        return np.bincount(self.trajectory, weights=self.reward, minlength=self.n_trajectories)

    @cached_property
    def revisits(self) -> Bool[np.ndarray, " N"]:
        """Whether each transition enters a state in which its episode has already acted, the current one included."""
        code = self.trajectory * np.int64(self.n_states)
        places, first = np.unique(code + self.state, return_index=True)
        at = np.minimum(np.searchsorted(places, code + self.next_state), len(places) - 1)
        met = (places[at] == code + self.next_state) & (first[at] <= np.arange(len(self)))
        return met & (self.successor >= 0)

    @cached_property
    def by_state(self) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " s"], Int[np.ndarray, " s"]]:
        """Return the transitions sorted by the state that they start in, the s states in that order, and the index of
        each state's first transition in that order."""
        order = np.argsort(self.state, kind="stable")
        ordered = self.state[order]
        starts = run_starts(ordered)
        return order, ordered[starts], starts

    @property
    def actions(self) -> list[str | None]:
        """Return the words of each transition's action; None if the response had no action."""
        words = [*self.action_key, None]
        return [words[i] for i in self.action.tolist()]

    @property
    def language(self) -> Tokens:
        """Return the tokens. Raises ``UserError`` if the batch has no tokens."""
        if self.tokens is None:
            raise UserError("these rollouts have no tokens: they do not come from a language model")
        return self.tokens

    @property
    def has_actions(self) -> bool:
        """Whether actions were recorded: a valid transition has one."""
        return bool(self.action_key) or not self.valid.any()

    def column(self, name: str, may_be_nan: bool = False) -> Float[np.ndarray, " N"]:
        """Return an optional column. Raises ``UserError`` if it is missing, or NaN unless ``may_be_nan``."""
        values = self.extras.get(name)
        if values is None or (not may_be_nan and np.isnan(values).any()):
            raise UserError(f"these rollouts have no {name} of every step, which the estimator needs")
        return values

    def with_columns(self, **columns: Float[np.ndarray, " N"]) -> RolloutBatch:
        """Return the same batch with some optional columns added or replaced."""
        return replace(self, extras=self.extras | columns)

    def penalised(self, penalty: float) -> RolloutBatch:
        """Return the same batch with ``penalty`` subtracted from the reward of each invalid transition."""
        return replace(self, reward=self.reward - penalty * ~self.valid) if penalty else self

    def paying_success(self, amount: float) -> RolloutBatch:
        """Return the same batch with the reward ``amount`` for the last transition of each success, and 0 elsewhere.

        ``amount=gamma`` gives values with V(success) = 1 and V(failure) = 0 one step after the end.
        """
        return replace(self, reward=np.where(self.terminal == Terminal.SUCCESS, amount, 0.0))

    # --- making, joining ------------------------------------------------------------------------

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> RolloutBatch:
        """Make a batch of plain rows, which may come in any order. ``bepo.core.rows`` says what a row holds.

        Raises ``UserError`` for an empty list.
        """
        return cls(**columns_of(rows, ignored={item.name for item in fields(cls)}))

    @classmethod
    def concat(cls, parts: Sequence[RolloutBatch]) -> RolloutBatch:
        """Concatenate batches. Ids are shifted; groups and states stay separate, equal actions are merged.

        An optional column is dropped unless every batch has it.
        """
        g, m, s, n = (offsets([size(p) for p in parts]) for size in _SIZES)

        def shifted(name: str, by: np.ndarray) -> np.ndarray:
            return np.concatenate([getattr(p, name) + by[k] for k, p in enumerate(parts)])

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(p, name) for p in parts])

        tokens = [p.tokens for p in parts if p.tokens is not None]
        action, action_key = interned_actions([word for p in parts for word in p.actions])
        shared = [name for name in parts[0].extras if all(name in p.extras for p in parts)]
        return cls(
            task=[t for p in parts for t in p.task],
            group=shifted("group", g),
            trajectory=shifted("trajectory", m),
            step=joined("step"),
            state=shifted("state", s),
            next_state=shifted("next_state", s),
            terminal=joined("terminal"),
            reward=joined("reward"),
            valid=joined("valid"),
            task_score=joined("task_score"),
            state_group=shifted("state_group", g),
            state_key=[k for p in parts for k in p.state_key],
            row=shifted("row", n),
            tokens=Tokens.concat(tokens) if len(tokens) == len(parts) else None,
            broken=joined("broken"),
            action=action,
            action_key=action_key,
            extras={name: np.concatenate([p.extras[name] for p in parts]) for name in shared},
        )

    def of_groups(self, kept: Bool[np.ndarray, " G"]) -> RolloutBatch:
        """Return the groups that are kept, at least one, as a batch; every action keeps its id."""
        transitions, trajectories, states = (
            kept[groups] for groups in (self.group, self.trajectory_group, self.state_group)
        )
        columns = {name: getattr(self, name)[transitions] for name in OF_TRANSITIONS}
        for name, of_name in (("group", kept), ("trajectory", trajectories), ("state", states), ("next_state", states)):
            columns[name] = _renumbered(columns[name], of_name)
        return replace(
            self,
            **columns,
            task=[task for task, is_kept in zip(self.task, kept) if is_kept],
            task_score=self.task_score[trajectories],
            broken=self.broken[trajectories],
            state_group=_renumbered(self.state_group[states], kept),
            state_key=[key for key, is_kept in zip(self.state_key, states) if is_kept],
            tokens=self.tokens and self.tokens.of(transitions),
            extras={name: values[transitions] for name, values in self.extras.items()},
        )

    # --- files ---------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the batch to ``path`` (.npz), as ``to_bytes`` returns it."""
        Path(path).write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the batch as an npz file with one array per field; tokens are ``tokens.<field>``.

        Strings are numpy unicode arrays and nothing is pickled. Optional columns have their own names. See
        docs/files.md.
        """
        names = [f.name for f in fields(self) if f.name not in ("tokens", "extras")]
        arrays = {name: getattr(self, name) for name in names} | self.extras
        if self.tokens is not None:
            arrays |= {f"tokens.{f.name}": getattr(self.tokens, f.name) for f in fields(Tokens)}
        return write_arrays(arrays)

    @classmethod
    def load(cls, path: str | Path | IO[bytes]) -> RolloutBatch:
        """Read a file that ``save`` wrote. Files of format 1 have no actions, entropies and digest.

        Raises ``UserError`` for any other file, and for a file that was changed.
        """

        def batch_of(arrays: dict[str, Any]) -> RolloutBatch:
            token_part = {k.removeprefix("tokens."): arrays.pop(k) for k in list(arrays) if k.startswith("tokens.")}
            texts = {name: arrays.pop(name).tolist() for name in ("task", "state_key", "action_key") if name in arrays}
            extras = {name: arrays.pop(name) for name in sorted(arrays.keys() - {f.name for f in fields(cls)})}
            return cls(**texts, **arrays, extras=extras, tokens=Tokens(**token_part) if token_part else None)

        return read_arrays(path, batch_of)


def _renumbered(ids: Int[np.ndarray, " n"], kept: Bool[np.ndarray, " k"]) -> Int[np.ndarray, " n"]:
    """Return ids of k things as ids of those that are kept, in the same order and of the same type."""
    return (np.cumsum(kept) - 1)[ids].astype(ids.dtype)


_SIZES = (lambda p: p.n_groups, lambda p: p.n_trajectories, lambda p: p.n_states, len)
