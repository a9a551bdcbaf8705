"""Gated-BEPO: outcome credit, mixed with Bellman fixed-point credit at states with alternative successors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo.core import gate as gates
from bepo.core.batch import RolloutBatch
from bepo.core.errors import UserError
from bepo.core.graph import Backup, FixedPoint, RolloutGraph, centring_error, iterate, solve
from bepo.core.returns import Pool, Std, backward_recursion, outcome_advantage, standardise
from bepo.core.settings import setting
from bepo.credit import Credit, Estimator, Traits, register

BUDGETS = (1, 3, 5, 10, 20)  # log the change of the advantage at these sweeps (paper, iteration ablation)
_OF_GATE = ("gate", "n_min", "b_min", "full_visits", "full_branches")
_OF_STEPS = (
    "gamma",
    "gae_lambda",
    "step_invalid_penalty",
    "solver",
    "iterations",
    "tolerance",
    "backup",
    "softmax_temperature",
    "gate_order",
    "step_std",
)


@register
@dataclass
class GatedBEPO(Estimator):
    """A_i = eta_i A_out_i + w rho(s_i) A_FP_i (Gated-BEPO paper, Algorithm 1).

    Choices that the paper leaves open are fields: the standard deviations (sample), where the penalty of an invalid
    action is subtracted (outcome term only), and the temperature of the softmax backup (1.0). The paper gives a
    truncated trajectory the value 0; ``bootstrap`` is the alternative. If all fixed-point advantages of a group are
    equal, that term is 0.
    """

    name: Literal["gated_bepo"] = "gated_bepo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns, backups and residuals."""
    gae_lambda: float = setting(0.8, at_least=0, at_most=1)
    """Decay of residuals along the trajectory, times ``gamma`` (Eq. fp_gae)."""
    step_weight: float = setting(1.5, at_least=0)
    """Weight w of the fixed-point term (Eq. combined_advantage)."""
    eta_min: float = setting(0.5, at_least=0, at_most=1)
    """Weight of the outcome term where the gate is open (Eq. outcome_weight): 1 keeps it, 0 drops it."""
    mixing: Literal["dynamic", "outcome_only", "ungated", "group_skew"] = "dynamic"
    """How to mix the terms (supplement, "Outcome-Step Mixing Variants"). For the variants with full or dropped outcome
    weight, choose ``dynamic`` and ``eta_min`` 1 or 0."""
    backup: Backup = "mean"
    """The Bellman backup over a state's observed edges."""
    softmax_temperature: float = setting(1.0, above=0)
    """Temperature of the softmax backup."""
    iterations: int = setting(20, at_least=0, at_most=1000)
    """Maximum number of Bellman sweeps; 0 keeps the Monte-Carlo values."""
    tolerance: float = setting(1e-6, at_least=0)
    """The sweeps of a group stop when no value changes by more than this."""
    solver: Literal["iterate", "exact"] = "iterate"
    """``iterate`` sweeps; ``exact`` solves the linear system of the mean backup."""
    gate: Literal["binary", "count_ramp", "count_and_branch"] = "binary"
    """The form of the gate rho(s)."""
    n_min: int = setting(2, at_least=1)
    """Minimum number of visits of a state for the binary gate to open."""
    b_min: int = setting(2, at_least=1)
    """Minimum number of distinct successors of a state for the binary gate to open."""
    full_visits: int = setting(4, at_least=2)
    """k of the soft gates: the number of visits at which their ramp reaches 1 (the paper tries 3 and 4)."""
    full_branches: int = setting(3, at_least=2)
    """The number of distinct successors at which the ramp of ``count_and_branch`` reaches 1."""
    gate_order: Literal["post", "mask", "stop"] = "post"
    """``post`` applies the gate after GAE, ``mask`` zeroes the residuals of closed states, and ``stop`` ends the
    recursion there (supplement)."""
    step_std: Std = "sample"
    """Standard deviation to divide the fixed-point advantage by, over all transitions of the group; ``none`` centres
    only."""
    outcome_pool: Pool = "transition"
    """Pool of the outcome advantage's mean and standard deviation: transitions or trajectories."""
    outcome_std: Std = "sample"
    """Standard deviation to divide the outcome advantage by; ``none`` centres only."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score of an invalid transition, as in verl-agent."""
    step_invalid_penalty: float = setting(0.0, at_least=0)
    """Subtracted from the reward of an invalid transition before the Bellman backup."""
    truncation: Literal["absorb", "bootstrap"] = "absorb"
    """Value of the end of a truncated trajectory: 0 (``absorb``), or the value of its last state (``bootstrap``)."""

    label: ClassVar[str] = "Gated-BEPO"
    colour: ClassVar[str] = "#D55E00"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Yan et al., 2026, Gated-BEPO, Algorithm 1"
    traits: ClassVar[Traits] = {
        "needs": "step rewards, state and successor keys",
        "step_credit": "Mean Bellman",
        "temporal": "Yes",
        "mixing": "Adaptive",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.solver == "exact" and self.backup != "mean":
            raise UserError(f"credit.solver=exact needs credit.backup=mean, not {self.backup!r}")
        if self.solver == "exact" and self.gamma == 1 and self.truncation == "bootstrap":
            raise UserError(
                "credit.solver=exact, credit.gamma=1, credit.truncation=bootstrap: an endless cycle has no value; "
                "choose credit.gamma below 1, credit.truncation=absorb or credit.solver=iterate"
            )

    @property
    def solves(self) -> bool:
        return self.solver == "exact"

    def without_effect(self) -> dict[str, str]:
        if self.mixing == "outcome_only":
            names = ("step_weight", *_OF_STEPS, "truncation", *_OF_GATE, "eta_min")
            return dict.fromkeys(names, "credit.mixing=outcome_only has no step term")
        unused: dict[str, str] = {}
        if self.step_weight == 0:
            unused |= dict.fromkeys(_OF_STEPS, "credit.step_weight=0 has no step term")
        if self.mixing == "ungated":
            unused["eta_min"] = "credit.mixing=ungated keeps the outcome term"
        if self.mixing == "ungated" and self.gate_order == "post":
            return unused | dict.fromkeys(_OF_GATE, "credit.mixing=ungated uses no gate") | self._of_backup()
        if self.gate == "binary":
            unused |= dict.fromkeys(("full_visits", "full_branches"), "credit.gate=binary has no ramp")
            if self.n_min <= self.b_min:
                unused["n_min"] = f"credit.b_min={self.b_min} different successors already imply as many visits"
        else:
            unused |= dict.fromkeys(("n_min", "b_min"), f"credit.gate={self.gate} has no thresholds")
        if self.gate == "count_ramp":
            unused["full_branches"] = "credit.gate=count_ramp counts visits"
        return unused | self._of_backup()

    def _of_backup(self) -> dict[str, str]:
        """Return the settings of the backup that change no value beside the others."""
        if self.solver == "exact":
            return dict.fromkeys(
                ("iterations", "tolerance", "softmax_temperature"), "credit.solver=exact has no sweeps"
            )
        if self.iterations == 0:
            names = ("backup", "tolerance", "softmax_temperature")
            return dict.fromkeys(names, "credit.iterations=0 keeps the Monte-Carlo values")
        return {} if self.backup == "softmax" else {"softmax_temperature": f"credit.backup={self.backup} has none"}

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = outcome_advantage(batch, self.outcome_pool, self.outcome_std, self.invalid_penalty)
        batch = batch.penalised(self.step_invalid_penalty)
        graph = RolloutGraph(batch, self.truncation)
        point = self._fixed_point(graph)
        state_gate = self._gate(graph)
        rho = state_gate[batch.state]

        # Stack the values before and after each logged sweep; the last row gives the advantage.
        logged = self._logged_sweeps()
        sweeps = sorted({*logged, *(k - 1 for k in logged), point.last})
        residual = graph.residuals(np.stack([point.after(k) for k in sweeps]), self.gamma)
        accumulated = self._accumulate(batch, residual, rho)
        steps = standardise(accumulated, batch.group_start, self.step_std)
        step = steps[-1]
        advantage = self._mix(batch, outcome, step, rho)
        return Credit(
            advantage,
            terms={
                "outcome": outcome,
                "step": step,
                "step_raw": accumulated[-1],
                "residual": residual[-1],
                "rho": rho,
                "value": point.value[batch.state],
            },
            metrics=self._certificate(graph, point, residual[-1]) | self._changes(logged, dict(zip(sweeps, steps))),
            graph=graph,
            gate=state_gate,
        )

    def _fixed_point(self, graph: RolloutGraph) -> FixedPoint:
        if self.solver == "exact":
            return solve(graph, self.gamma)
        return iterate(graph, self.gamma, self.iterations, self.tolerance, self.backup, self.softmax_temperature)

    def _logged_sweeps(self) -> list[int]:
        if self.solver == "exact":
            return []
        return [k for k in sorted({*BUDGETS, self.iterations}) if 0 < k <= self.iterations]

    def _changes(self, logged: list[int], steps: dict[int, np.ndarray]) -> dict[str, float]:
        """Return max |dA|: how much each logged sweep changes the standardised step advantage (supplement, "Iteration
        budget")."""
        return {f"delta_advantage_{k}": float(np.abs(steps[k] - steps[k - 1]).max()) for k in logged}

    def _gate(self, graph: RolloutGraph) -> Float[np.ndarray, " S"]:
        visits, branches = graph.visits, graph.branches
        if self.gate == "binary":
            return gates.binary(visits, branches, self.n_min, self.b_min)
        if self.gate == "count_ramp":
            return gates.count_ramp(visits, branches, self.full_visits)
        return gates.count_and_branch(visits, branches, self.full_visits, self.full_branches)

    def _accumulate(
        self, batch: RolloutBatch, residual: Float[np.ndarray, "k N"], rho: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, "k N"]:
        """Return GAE over the residuals (Eq. fp_gae), or one of the supplement's two alternatives."""
        decay: float | np.ndarray = self.gamma * self.gae_lambda
        if self.gate_order == "mask":
            residual = rho * residual
        elif self.gate_order == "stop":
            decay = decay * np.append(rho[1:], 0.0)  # the entry after a trajectory's last transition is unused
        return backward_recursion(batch, residual, decay)

    def _mix(self, batch: RolloutBatch, outcome: np.ndarray, step: np.ndarray, rho: np.ndarray) -> np.ndarray:
        if self.mixing == "outcome_only":
            return outcome
        if self.mixing == "ungated":
            return outcome + self.step_weight * step
        eta = self.eta_min + (1 - self.eta_min) * (1 - rho)
        if self.mixing == "group_skew":
            ids = batch.trajectory_group
            p = np.bincount(ids, weights=batch.success, minlength=batch.n_groups) / np.bincount(ids)
            eta = np.clip(4 * p * (1 - p), 0.0, 1.0)[batch.group] * eta
        return eta * outcome + self.step_weight * rho * step

    def _certificate(self, graph: RolloutGraph, point: FixedPoint, residual: np.ndarray) -> dict[str, float]:
        """Return the distance of values from the fixed point. A large one means that ``iterations`` is too small."""
        return {
            "sweeps": float(point.sweeps.max()),
            "residual": float(point.change.max()),
            "value_bound": float(point.error_bound(self.gamma).max()),
            "converged_groups": float(point.converged.mean()),
            "centring_error": centring_error(graph, residual),
        }
