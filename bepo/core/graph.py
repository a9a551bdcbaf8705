"""The empirical rollout graph: visit counts, successors, Bellman backups, fixed points and their certificates.

The groups of a batch are disjoint graphs, and one vectorised call handles all of them. A group that has converged is
frozen while the others continue, so the result does not depend on how groups are batched.

Sizes: N transitions, S states, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.errors import UserError
from bepo.core.interning import run_starts
from bepo.core.returns import discounted_returns

Backup = Literal["mean", "max", "softmax"]
N_TERMINALS = len(Terminal) - 1


@dataclass
class RolloutGraph:
    """The graph whose edges are the transitions of a batch, with multiplicity: ``state -> successor``, reward ``r``.

    ``truncation`` says how the time limit counts. ``absorb``: as an absorbing end with value 0 (Gated-BEPO paper).
    ``bootstrap``: a truncated transition keeps the state that it reached if another transition of the group starts
    there.
    """

    batch: RolloutBatch
    truncation: Literal["absorb", "bootstrap"] = "absorb"

    @cached_property
    def successor(self) -> Int[np.ndarray, " N"]:
        """Return the successor of each transition: a state id, or a negative id for an absorbing end."""
        if self.truncation == "absorb":
            return self.batch.successor
        seen = self.visits[self.batch.next_state] > 0
        keep = (self.batch.terminal == Terminal.TRUNCATION) & seen
        return np.where(keep, self.batch.next_state, self.batch.successor)

    @cached_property
    def visits(self) -> Int[np.ndarray, " S"]:
        """Return n(s), the number of transitions that start in s; 0 for a state that is only a successor."""
        return np.bincount(self.batch.state, minlength=self.batch.n_states)

    @cached_property
    def branches(self) -> Int[np.ndarray, " S"]:
        """Return b(s) = |Succ(s)|, the number of distinct successors of s; each kind of end counts as one."""
        width = self.batch.n_states + N_TERMINALS
        edges = np.sort(self.batch.state * np.int64(width) + self.successor + N_TERMINALS)  # np.unique hashes: slower
        return np.bincount(edges[run_starts(edges)] // width, minlength=self.batch.n_states)

    @cached_property
    def pair(self) -> Int[np.ndarray, " N"]:
        """Return the id of each transition's (state, action), from 0. Responses without an action are one action.

        Raises ``UserError`` if no actions were recorded.
        """
        if not self.batch.has_actions:
            raise UserError("these rollouts have no actions, which the estimator needs")
        code = self.batch.state * np.int64(len(self.batch.action_key) + 1) + self.batch.action + 1
        return np.unique(code, return_inverse=True)[1]

    @cached_property
    def actions(self) -> Int[np.ndarray, " S"]:
        """Return the number of distinct actions taken in each state."""
        first = np.unique(self.pair, return_index=True)[1]
        return np.bincount(self.batch.state[first], minlength=self.batch.n_states)

    @cached_property
    def pair_visits(self) -> Int[np.ndarray, " N"]:
        """Return n(s_i, a_i), how often each transition's action was taken in its state."""
        return np.bincount(self.pair)[self.pair]

    def pair_mean(self, x: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return for each transition the mean of ``x`` over the transitions with its state and action."""
        return np.bincount(self.pair, weights=x)[self.pair] / self.pair_visits

    def state_mean(self, x: Float[np.ndarray, " N"]) -> Float[np.ndarray, " S"]:
        """Return the mean of ``x`` over the transitions that start in each state; 0 for a state without transitions."""
        total = np.bincount(self.batch.state, weights=x, minlength=self.batch.n_states)
        return total / np.maximum(self.visits, 1)

    def monte_carlo(self, gamma: float) -> Float[np.ndarray, " S"]:
        """Return V^(0)(s), the mean discounted return of the transitions that start in s."""
        return self.state_mean(discounted_returns(self.batch, gamma))

    def mean_return(self, gamma: float) -> Float[np.ndarray, " G"]:
        """Return the mean discounted return of each group's trajectories."""
        first = self.batch.step == 0
        returns, group = discounted_returns(self.batch, gamma)[first], self.batch.group[first]
        return np.bincount(group, weights=returns) / np.bincount(group)

    def targets(self, value: Float[np.ndarray, "... S"], gamma: float) -> Float[np.ndarray, "... N"]:
        """Return r_i + gamma V(s'_i) of each transition; absorbing successors have value 0."""
        return self.batch.reward + gamma * with_terminals(value)[..., self.successor]

    def residuals(self, value: Float[np.ndarray, "... S"], gamma: float) -> Float[np.ndarray, "... N"]:
        """Return the TD residuals delta_i = r_i + gamma V(s'_i) - V(s_i) (paper, Eq. td_residual)."""
        return self.targets(value, gamma) - value[..., self.batch.state]

    def backup(
        self, value: Float[np.ndarray, " S"], gamma: float, operator: Backup, temperature: float
    ) -> Float[np.ndarray, " S"]:
        """Return the values after one Bellman backup of every source state over its edges (paper, Eq. bellman_backup).

        ``softmax`` is the Boltzmann mean ``sum_i p_i q_i, p proportional to exp(q_i / temperature)``. The paper does
        not state a temperature. This backup is not a contraction in general; the certificate says if it converged.
        """
        q = self.targets(value, gamma)
        if operator == "mean":
            return self.state_mean(q)
        order, states, starts = self.batch.by_state
        q = q[order]
        best = np.maximum.reduceat(q, starts)
        new = np.zeros_like(value)
        if operator == "max":
            new[states] = best
        else:
            size = np.diff(np.append(starts, len(q)))
            weight = np.exp((q - np.repeat(best, size)) / temperature)
            new[states] = np.add.reduceat(weight * q, starts) / np.add.reduceat(weight, starts)
        return new

    def group_max(self, x: Float[np.ndarray, " S"]) -> Float[np.ndarray, " G"]:
        """Return the largest of ``x`` among the states of each group."""
        return np.maximum.reduceat(x, self._group_start)

    @cached_property
    def _group_start(self) -> Int[np.ndarray, " G"]:
        return run_starts(self.batch.state_group)


@dataclass
class FixedPoint:
    """State values, and a certificate of their distance from the fixed point for each of G groups."""

    iterates: list[Float[np.ndarray, " S"]]  # V^(0), V^(1), ..., the last of which is ``value``
    sweeps: Int[np.ndarray, " G"]
    change: Float[np.ndarray, " G"]  # ||V^(k) - V^(k-1)||_inf of the last sweep; inf without a sweep
    converged: np.ndarray  # (G,) bool: change <= tolerance

    @property
    def value(self) -> Float[np.ndarray, " S"]:
        """The last iterate."""
        return self.iterates[-1]

    @property
    def last(self) -> int:
        """The number of sweeps of the last iterate, over all groups."""
        return len(self.iterates) - 1

    def after(self, sweeps: int) -> Float[np.ndarray, " S"]:
        """Return V^(sweeps), or the last iterate if fewer sweeps were made."""
        return self.iterates[min(sweeps, self.last)]

    def error_bound(self, gamma: float) -> Float[np.ndarray, " G"]:
        """Return gamma * change / (1 - gamma), a bound of ||V^(k) - V*||_inf for mean and max backups (contraction)."""
        return gamma * self.change / (1 - gamma) if gamma < 1 else np.full_like(self.change, np.inf)


def iterate(
    graph: RolloutGraph,
    gamma: float,
    iterations: int = 20,
    tolerance: float = 1e-6,
    operator: Backup = "mean",
    temperature: float = 1.0,
) -> FixedPoint:
    """Sweep from Monte-Carlo values until each group changes by at most ``tolerance``, or for ``iterations`` sweeps."""
    batch = graph.batch
    iterates = [graph.monte_carlo(gamma)]
    sweeps = np.zeros(batch.n_groups, int)
    change = np.full(batch.n_groups, np.inf)
    for _ in range(iterations):
        active = change > tolerance
        if not active.any():
            break
        value = iterates[-1]
        new = np.where(active[batch.state_group], graph.backup(value, gamma, operator, temperature), value)
        change = np.where(active, graph.group_max(np.abs(new - value)), change)
        sweeps += active
        iterates.append(new)
    return FixedPoint(iterates, sweeps, change, change <= tolerance)


def solve(
    graph: RolloutGraph, gamma: float, kappa: float = 0.0, worth: Float[np.ndarray, " G"] | None = None
) -> FixedPoint:
    """Return the exact fixed point of the mean backup, V* = (I - gamma P)^-1 r.

    A state from which no transition starts has the value 0, like an end. For gamma = 1 the fixed point exists if such a
    state or an end can be reached from everywhere; otherwise this raises ``UserError``. With ``truncation="absorb"`` it
    exists where each transition starts in the state that the last one reached.

    ``kappa`` adds so many visits to every state that are worth m, ``worth`` of its group or, by default, the mean
    discounted return of its group's trajectories:
    V(s) = (sum of r + gamma V(s') over the n(s) transitions from s + kappa m) / (n(s) + kappa).
    """
    from scipy.sparse import csc_matrix, identity
    from scipy.sparse.linalg import splu

    batch, inner = graph.batch, graph.successor >= 0
    source, n = batch.state, batch.n_states
    if gamma == 1 and not kappa:
        _check_ends(graph)
    visits = graph.visits + kappa
    visits[visits == 0] = 1
    worth = graph.mean_return(gamma) if worth is None else worth
    pseudo = kappa * worth[batch.state_group] if kappa else 0.0

    def mean(x: Float[np.ndarray, " N"]) -> Float[np.ndarray, " S"]:
        return (np.bincount(source, weights=x, minlength=n) + pseudo) / visits

    weight = gamma / visits[source[inner]]
    transition = csc_matrix((weight, (source[inner], graph.successor[inner])), shape=(n, n))
    value = splu(csc_matrix(identity(n) - transition)).solve(mean(batch.reward))
    change = graph.group_max(np.abs(mean(graph.targets(value, gamma)) - value))
    zero = np.zeros(batch.n_groups, int)
    return FixedPoint([value], zero, change, np.ones(batch.n_groups, bool))


def _check_ends(graph: RolloutGraph) -> None:
    """Raise ``UserError`` if transitions start in states from which every path of the graph goes on forever."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n = graph.batch.n_states
    last = (graph.successor < 0) | (graph.visits[graph.successor] == 0)
    backwards = (np.where(last, n, graph.successor), graph.batch.state)
    edges = csr_array((np.ones(len(graph.batch)), backwards), shape=(n + 1, n + 1))
    ends = np.zeros(n + 1, bool)
    ends[breadth_first_order(edges, n, return_predecessors=False)] = True
    if lost := int((graph.visits > 0)[~ends[:n]].sum()):
        raise UserError(
            f"with a discount of 1 a state that can never be left for an end has no value; these rollouts have {lost} "
            "such states. Does each transition start where the one before it ended? Otherwise discount more"
        )


def centring_error(graph: RolloutGraph, residual: Float[np.ndarray, " N"]) -> float:
    """Return max_s |mean of the residuals that start in s|; 0 at the mean fixed point (paper, Eq. state_centering)."""
    return float(np.abs(graph.state_mean(residual)).max())


def with_terminals(value: Float[np.ndarray, "... S"], success: float = 0.0) -> Float[np.ndarray, "... S+3"]:
    """Append the values of the absorbing ends, where their negative ids point: 0, and ``success`` after a success."""
    ends = np.zeros((*value.shape[:-1], N_TERMINALS))
    ends[..., -Terminal.SUCCESS] = success
    return np.concatenate([value, ends], axis=-1)
