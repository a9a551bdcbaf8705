"""G2PO: the outcome term, the value after a step, and its gain, on mean returns of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bepo.core.batch import RolloutBatch
from bepo.core.graph import RolloutGraph, with_terminals
from bepo.core.returns import Std, standardise, standardise_by_state
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm

_SUCCESS = 10.0  # the value of success, as in the official code


@register
@dataclass
class G2PO(OutcomeTerm):
    """A = A_E + step_weight (A_node + A_edge) on V(s), the mean of 10 gamma^(steps to success) (Wang et al., 2026).

    A_node standardises V(s') within a state, and A_edge standardises V(s') - V(s) over the group. V(success) = 10 and
    V(failure) = 0. ``credit=g2po_official`` takes the official scripts' deviation for the environment.

    As in the official code, A_node divides a penalty by the state's deviation. Where all V(s') are equal, one invalid
    action has a score of full size.
    """

    name: Literal["g2po"] = "g2po"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns; the official code has 0.95 whatever its setting."""
    std: Std = "sample"
    """Standard deviation to divide all terms by; ``none`` centres only, as the official WebShop script does."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the node and edge terms."""
    invalid_penalty: float = setting(0.1, at_least=0)
    """Subtracted from the outcome score of an invalid transition and from its successor's value in the node term."""

    label: ClassVar[str] = "G2PO"
    colour: ClassVar[str] = "#8866CC"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Wang et al., 2026, Group-Graph Policy Optimization (arXiv 2606.22995)"
    traits: ClassVar[Traits] = {
        "needs": "success, state and successor keys",
        "step_credit": "Return proxy",
        "temporal": "Yes",
        "mixing": "Fixed",
    }

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch, self.std)
        graph = RolloutGraph(batch.paying_success(_SUCCESS * self.gamma))
        value = graph.monte_carlo(self.gamma)
        after = with_terminals(value, _SUCCESS)[graph.successor]
        node = standardise_by_state(batch, after - self.invalid_penalty * ~batch.valid, self.std)
        edge = standardise(after - value[batch.state], batch.group_start, self.std)
        advantage = outcome + self.step_weight * (node + edge)
        return Credit(advantage, terms={"outcome": outcome, "step": node + edge, "node": node, "edge": edge})
