"""EMPG: outcome credit, stronger where the policy is certain, with a bonus for certainty at the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from bepo.core.batch import RolloutBatch, Terminal
from bepo.core.returns import Std
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm


@register
@dataclass
class EMPG(OutcomeTerm):
    """A_i = A_E exp(-k H_i) / mean exp(-k H) + zeta exp(-k_bonus H_(i+1)), minus its mean (Wang et al., 2025).

    H is the entropy of a step's response (mean over its tokens), scaled to [0, 1] over the batch; means are over the
    batch. The bonus of a trajectory's last step is 0. Raises ``UserError`` for rollouts without entropies.
    """

    name: Literal["empg"] = "empg"
    k: float = setting(1.0, at_least=0)
    """How strongly certainty scales the outcome term."""
    k_bonus: float = setting(1.0, at_least=0)
    """How strongly certainty at the next step raises the bonus."""
    zeta: float = setting(0.05, at_least=0)
    """Weight of the bonus."""
    std: Std = "sample"
    """Standard deviation to divide the outcome term by; ``none`` centres only."""

    label: ClassVar[str] = "EMPG"
    colour: ClassVar[str] = "#006600"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Wang et al., 2025, EMPG (arXiv 2509.09265)"
    needs: ClassVar[frozenset[str]] = frozenset({"entropy"})
    traits: ClassVar[Traits] = {
        "needs": "episode returns, entropies",
        "step_credit": "Entropy",
        "temporal": "No",
        "mixing": "Adaptive",
    }

    @property
    def mixes_groups(self) -> bool:
        return True

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome, entropy = self.outcome(batch, self.std), batch.column("entropy")
        entropy = (entropy - entropy.min()) / (entropy.max() - entropy.min() + 1e-8)
        scale = np.exp(-self.k * entropy)
        scale /= scale.mean()
        certain = np.append(np.exp(-self.k_bonus * entropy)[1:], 0.0)
        bonus = np.where(batch.terminal == Terminal.NONE, certain, 0.0)
        advantage = outcome * scale + self.zeta * bonus
        return Credit(advantage - advantage.mean(), terms={"outcome": outcome, "rho": scale, "bonus": bonus})
