"""Gated-BEPO: outcome credit mixed with Bellman fixed-point credit where the rollout graph offers alternatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from bepo import gate as gates
from bepo.credit import Credit, Traits, register
from bepo.credit._audit import audit
from bepo.errors import UserError
from bepo.graph import Backup, FixedPoint, RolloutGraph, centring_error, iterate, solve
from bepo.returns import Pool, Std, backward_recursion, outcome_advantage, standardise
from bepo.rollout import RolloutGroup

BUDGETS = (1, 3, 5, 10, 20)  # sweeps at which the change of the advantage is logged (paper, iteration ablation)


@register
@dataclass
class GatedBEPO:
    """A_i = eta_i A_out_i + w rho(s_i) A_FP_i (Gated-BEPO paper, Algorithm 1).

    Where the paper is silent, the choice is a field: the deviations (sample), the invalid-action penalty (outcome
    side only), the softmax temperature (1.0), what truncation is worth (0, as the paper says; ``bootstrap`` offered).
    A group whose fixed-point advantages are all equal gets 0 from that term.
    """

    name: Literal["gated_bepo"] = "gated_bepo"
    gamma: float = 0.95
    gae_lambda: float = 0.8
    step_weight: float = 1.5
    """w in Eq. combined_advantage."""
    eta_min: float = 0.5
    """Outcome weight where the gate is open (Eq. outcome_weight). 1 keeps all of it, 0 drops it."""
    mixing: Literal["dynamic", "outcome_only", "ungated", "group_skew"] = "dynamic"
    """Supplement, "Outcome-Step Mixing Variants"; full weight and drop are ``eta_min`` 1 and 0."""
    backup: Backup = "mean"
    softmax_temperature: float = 1.0
    iterations: int = 20
    tolerance: float = 1e-6
    solver: Literal["iterate", "exact"] = "iterate"
    """``exact`` solves the linear system of the mean backup."""
    gate: Literal["binary", "count_ramp", "count_and_branch"] = "binary"
    n_min: int = 2
    b_min: int = 2
    full_visits: int = 4
    """k of the soft gates: visits at which the count ramp reaches 1 (the paper tries 3 and 4)."""
    full_branches: int = 3
    gate_order: Literal["post", "mask", "stop"] = "post"
    """Gate after GAE, or mask residuals of closed states, or stop the recursion at them (supplement)."""
    normalise: Std = "sample"
    """Deviation that the fixed-point advantage is divided by, over all records of the group."""
    outcome_pool: Pool = "record"
    outcome_std: Std = "sample"
    invalid_penalty: float = 0.1
    """Taken off the outcome score of an invalid record, as in verl-agent."""
    step_invalid_penalty: float = 0.0
    """Taken off the reward of an invalid record before the Bellman backup."""
    truncation: Literal["absorb", "bootstrap"] = "absorb"

    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Yan et al., 2026, Gated-BEPO, Algorithm 1"
    reconstruction: ClassVar[bool] = False
    traits: ClassVar[Traits] = {
        "needs": "step rewards, state and successor keys",
        "step_credit": "Mean Bellman",
        "temporal": "Yes",
        "mixing": "Adaptive",
    }

    def __post_init__(self) -> None:
        if self.solver == "exact" and self.backup != "mean":
            raise UserError(f"credit.solver=exact needs credit.backup=mean, not {self.backup!r}")
        for field in ("gamma", "gae_lambda", "eta_min"):
            if not 0 <= getattr(self, field) <= 1:
                raise UserError(f"credit.{field}={getattr(self, field)}: must be from 0 to 1")
        for field, least in {"iterations": 0, "n_min": 1, "b_min": 1}.items():
            if getattr(self, field) < least:
                raise UserError(f"credit.{field}={getattr(self, field)}: at least {least}")
        for field in ("full_visits", "full_branches"):
            if getattr(self, field) < 2:
                raise UserError(f"credit.{field}={getattr(self, field)}: a ramp needs at least 2")
        if self.softmax_temperature <= 0:
            raise UserError(f"credit.softmax_temperature={self.softmax_temperature}: must be above 0")

    def __call__(self, group: RolloutGroup) -> Credit:
        outcome = outcome_advantage(group, self.outcome_pool, self.outcome_std, self.invalid_penalty)
        group = group.penalised(self.step_invalid_penalty)
        graph = RolloutGraph(group, self.truncation)
        point = self._fixed_point(graph)
        state_gate = self._gate(graph)
        rho = state_gate[group.state]

        # Side by side: the values before and after each logged sweep; the last are those that count.
        logged = self._logged_sweeps()
        sweeps = sorted({*logged, *(k - 1 for k in logged), point.last})
        residual = graph.residuals(np.stack([point.after(k) for k in sweeps]), self.gamma)
        accumulated = self._accumulate(group, residual, rho)
        steps = standardise(accumulated, group.group_start, self.normalise)
        step = steps[-1]
        advantage = self._mix(group, outcome, step, rho)
        return Credit(
            advantage,
            terms={
                "outcome": outcome,
                "step": step,
                "step_raw": accumulated[-1],
                "residual": residual[-1],
                "rho": rho,
                "value": point.value[group.state],
            },
            metrics=audit(graph, advantage, state_gate)
            | self._certificate(graph, point, residual[-1])
            | self._changes(logged, dict(zip(sweeps, steps))),
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
        """max |dA|: how far each logged sweep moves a standardised step advantage (supplement, "Iteration budget")."""
        return {f"delta_advantage_{k}": float(np.abs(steps[k] - steps[k - 1]).max()) for k in logged}

    def _gate(self, graph: RolloutGraph) -> Float[np.ndarray, " S"]:
        visits, branches = graph.visits, graph.branches
        if self.gate == "binary":
            return gates.binary(visits, branches, self.n_min, self.b_min)
        if self.gate == "count_ramp":
            return gates.count_ramp(visits, branches, self.full_visits)
        return gates.count_and_branch(visits, branches, self.full_visits, self.full_branches)

    def _accumulate(
        self, group: RolloutGroup, residual: Float[np.ndarray, "k N"], rho: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, "k N"]:
        """GAE over the residuals (Eq. fp_gae), or one of the supplement's two alternatives."""
        decay: float | np.ndarray = self.gamma * self.gae_lambda
        if self.gate_order == "mask":
            residual = rho * residual
        elif self.gate_order == "stop":
            decay = decay * np.append(rho[1:], 0.0)  # what follows a last record is never read
        return backward_recursion(group, residual, decay)

    def _mix(self, group: RolloutGroup, outcome: np.ndarray, step: np.ndarray, rho: np.ndarray) -> np.ndarray:
        if self.mixing == "outcome_only":
            return outcome
        if self.mixing == "ungated":
            return outcome + self.step_weight * step
        eta = self.eta_min + (1 - self.eta_min) * (1 - rho)
        if self.mixing == "group_skew":
            ids = group.trajectory_group
            p = np.bincount(ids, weights=group.success, minlength=group.n_groups) / np.bincount(ids)
            eta = np.clip(4 * p * (1 - p), 0.0, 1.0)[group.group] * eta
        return eta * outcome + self.step_weight * rho * step

    def _certificate(self, graph: RolloutGraph, point: FixedPoint, residual: np.ndarray) -> dict[str, float]:
        """How far the values are from the fixed point; a budget that stops short shows here."""
        return {
            "sweeps": float(point.sweeps.max()),
            "residual": float(point.change.max()),
            "value_bound": float(point.error_bound(self.gamma).max()),
            "converged_groups": float(point.converged.mean()),
            "centring_error": centring_error(graph, residual),
        }
