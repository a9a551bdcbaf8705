"""ProxMO: returns against those from similar states, and outcome credit by difficulty."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Literal

import numpy as np
import scipy  # loads scipy.sparse when it is used
from jaxtyping import Float, Int

from bepo.core.batch import RolloutBatch
from bepo.core.returns import TIE, Std, discounted_returns, without_rounding
from bepo.core.settings import setting
from bepo.credit import Credit, Traits, register
from bepo.credit._outcome import OutcomeTerm

_WORD = re.compile(r"\w\w+")  # words of two letters or more, as scikit-learn's default
_MOST_WORDS = 1024


@register
@dataclass
class ProxMO(OutcomeTerm):
    """A = w(p) A_E + step_weight A_S (Fang et al., 2026).

    A_S_i = G_i - sum_j W_ij G_j over the transitions j of the group, W = softmax of cosine / temperature. The cosine is
    that of TF-IDF vectors of the two states' texts, fitted on the batch (at most 1,024 words). w is
    1 + b (sigmoid((1 - p)^power) - 1/2) for successes and 1 + b (sigmoid(-p^power) - 1/2) for failures,
    b = swing / (sigmoid(1) - 1/2), p the success rate of the group.

    With temperature 0 and no swing, A is GiGPO's with ``std=none`` if no two texts have the same words. A_S is 0 if no
    text of the batch has words; a single text without words is compared with its whole group, as in the official code.
    Text Sokoban's "words" are runs of board symbols, so boards that differ in the order of their rows are one text.
    """

    name: Literal["proxmo"] = "proxmo"
    gamma: float = setting(0.95, at_least=0, at_most=1)
    """Discount of returns."""
    temperature: float = setting(0.1, at_least=0)
    """Temperature of the softmax over similar states; 0 compares only texts with the same words equally often."""
    step_weight: float = setting(1.0, at_least=0)
    """Weight of the step term."""
    std: Std = "none"
    """Standard deviation to divide the outcome term by; ``none`` centres only."""
    power: float = setting(4.0, above=0)
    """How strongly w depends on the success rate near its ends."""
    swing: float = setting(0.05, at_least=0, below=1)
    """The most by which w differs from 1."""
    rate: Literal["success", "score"] = "success"
    """p: the share of successful trajectories (paper), or the mean score of transitions, cut off at 0 and 1 (official
    code; with rewards of 10, any group with a tenth of its transitions in successes has p = 1). With ``score`` a score
    above 0.5 counts as a success."""

    label: ClassVar[str] = "ProxMO"
    colour: ClassVar[str] = "#000048"
    method_version: ClassVar[int] = 1
    citation: ClassVar[str] = "Fang et al., 2026, ProxMO (arXiv 2602.19225), and its code (commit 496efa7)"
    traits: ClassVar[Traits] = {
        "needs": "episode returns, state texts",
        "step_credit": "Outcomes of similar states",
        "temporal": "No",
        "mixing": "Adaptive",
    }

    @property
    def mixes_groups(self) -> bool:
        return True  # the words that count are those of all groups

    def __call__(self, batch: RolloutBatch) -> Credit:
        outcome = self.outcome(batch, self.std)
        returns = discounted_returns(batch, self.gamma) - self.invalid_penalty * ~batch.valid
        step, weight = self._step(batch, returns), self._weight(batch)
        return Credit(
            weight * outcome + self.step_weight * step,
            terms={"outcome": outcome, "step": step, "rho": weight},
        )

    def _step(self, batch: RolloutBatch, returns: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """Return each return minus the mean return from similar states of its group."""
        visits = np.bincount(batch.state, minlength=batch.n_states)
        vectors = tfidf(batch.state_key, visits)
        if not vectors.nnz:
            return np.zeros(len(batch))
        total = np.bincount(batch.state, weights=returns, minlength=batch.n_states)
        mean = np.divide(total, visits, out=np.zeros_like(total), where=visits > 0)
        baseline = np.zeros(batch.n_states)
        order = np.flatnonzero(visits)
        order = order[np.argsort(batch.state_group[order], kind="stable")]
        vectors = vectors[order]
        for part in np.split(np.arange(len(order)), np.flatnonzero(np.diff(batch.state_group[order])) + 1):
            states, its = order[part], vectors[part[0] : part[-1] + 1]
            share = self._similarity(its @ its.toarray().T) * visits[states]
            baseline[states] = share @ mean[states] / share.sum(1)
        return without_rounding(returns - baseline[batch.state], np.abs(returns))

    def _similarity(self, cosine: Float[np.ndarray, "s s"]) -> Float[np.ndarray, "s s"]:
        """Return the softmax over states times a factor that makes it 1 for the most similar state."""
        if self.temperature == 0:
            return (cosine >= cosine.max(1, keepdims=True) - TIE).astype(float)
        return np.exp((cosine - cosine.max(1, keepdims=True)) / self.temperature)

    def _weight(self, batch: RolloutBatch) -> Float[np.ndarray, " N"]:
        """Return w of each transition."""
        score = batch.episode_return[batch.trajectory] - self.invalid_penalty * ~batch.valid
        won = batch.success[batch.trajectory] if self.rate == "success" else score > 0.5
        if self.rate == "success":
            members = np.bincount(batch.trajectory_group, minlength=batch.n_groups)
            p = np.bincount(batch.trajectory_group, weights=batch.success, minlength=batch.n_groups) / members
        else:
            p = np.add.reduceat(score, batch.group_start) / batch.transitions_per_group
        p = np.clip(p, 0, 1)[batch.group]
        b = self.swing / (_sigmoid(np.ones(1))[0] - 0.5)
        return 1 + b * (_sigmoid(np.where(won, (1 - p) ** self.power, -(p**self.power))) - 0.5)


def tfidf(texts: Sequence[str], visits: Int[np.ndarray, " S"]) -> scipy.sparse.csr_array:
    """Return the TF-IDF vectors of texts, of length 1, as scikit-learn's ``TfidfVectorizer(max_features=1024)``.

    A text counts as ``visits`` documents. The words are those that are used most, ties by the alphabet. An empty
    vocabulary gives vectors of no length.
    """
    chunks, in_texts = _counted([text.lower().split() for text in texts])  # few differ, so few are split into words
    place, in_chunks = _counted([_WORD.findall(chunk) for chunk in chunks])
    counts = scipy.sparse.csr_array(in_texts @ in_chunks)
    counts.sort_indices()  # products of vectors add up in this order
    used, holders = visits @ counts, visits @ (counts > 0)
    chosen = [word for word in sorted(place, key=lambda word: (-used[place[word]], word)) if used[place[word]]]
    kept = [place[word] for word in chosen[:_MOST_WORDS]]
    raw = counts[:, kept] @ scipy.sparse.diags_array(np.log((1 + visits.sum()) / (1 + holders[kept])) + 1)
    length = np.sqrt(raw.multiply(raw).sum(1))
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / np.where(length > 0, length, 1.0)) @ raw)


def _counted(lists: Sequence[list[str]]) -> tuple[dict[str, int], scipy.sparse.csr_array]:
    """Return the number of each distinct item, by appearance, and how often each list (row) has each (column)."""
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    rows = np.repeat(np.arange(len(lists)), [len(words) for words in lists])
    columns = np.fromiter(map(number.__getitem__, chain.from_iterable(lists)), int, len(rows))
    ones, shape = np.ones(len(rows)), (len(lists), len(number))
    return number, scipy.sparse.csr_array((ones, (rows, columns)), shape=shape)  # adds up


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
