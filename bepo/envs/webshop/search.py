"""BM25 search as in Lucene (k1 = 0.9, b = 0.4, English analyzer): it finds the same documents in the same order.

We know of no deviation: all 120 recorded Anserini queries give the same fifty documents in the same order.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int, UInt

from bepo.envs.webshop.analyzer import analyze

K1, B = np.float32(0.9), np.float32(0.4)
"""The parameters of BM25."""
HITS = 50
"""The largest number of documents that a search finds."""


class Index:
    """An inverted index of D documents, T terms and P postings (pairs of a term and a document that contains it).

    Documents with equal scores are ordered by name, ascending.
    """

    def __init__(
        self,
        names: np.ndarray,
        lengths: Int[np.ndarray, " D"],
        terms: dict[str, int],
        starts: Int[np.ndarray, " T_plus_1"],
        docs: Int[np.ndarray, " P"],
        counts: UInt[np.ndarray, " P"],
    ) -> None:
        """``lengths`` count terms; the postings of term ``t`` are ``starts[t]`` to ``starts[t + 1]``.

        A posting is a document (``docs``) and how often the term occurs in it (``counts``).
        """
        self._terms, self._starts, self._docs, self._counts = terms, starts, docs, counts
        self._name_rank = np.empty(len(names), np.int32)
        self._name_rank[np.argsort(names, kind="stable")] = np.arange(len(names))
        self._inverse_norm = _inverse_norms(lengths)
        self._n = len(names)

    @classmethod
    def build(cls, documents: Iterable[tuple[str, str]]) -> Index:
        """Return the index of some documents, given as (name, text)."""
        names, lengths = [], array("i")
        postings: dict[str, tuple[array, array]] = {}
        for number, (name, text) in enumerate(documents):
            terms = analyze(text)
            names.append(name)
            lengths.append(len(terms))
            for term, count in Counter(terms).items():
                docs, counts = postings.setdefault(term, (array("i"), array("H")))
                docs.append(number)
                counts.append(min(count, 65535))
        parts = list(postings.values())
        starts = np.concatenate([[0], np.cumsum([len(d) for d, _ in parts])]).astype(np.int64)
        docs, counts = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
        for i, (d, c) in enumerate(parts):
            docs[starts[i] : starts[i + 1]], counts[starts[i] : starts[i + 1]] = d, c
        terms = {term: i for i, term in enumerate(postings)}
        return cls(np.array(names), np.array(lengths), terms, starts, docs, counts)

    @property
    def terms(self) -> list[str]:
        """The terms, by number."""
        return list(self._terms)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all parts of the index except the terms."""
        kept = {"starts": self._starts, "docs": self._docs, "counts": self._counts}
        return kept | {"name_rank": self._name_rank, "inverse_norm": self._inverse_norm}

    @classmethod
    def of_arrays(cls, terms: list[str], arrays: dict[str, np.ndarray]) -> Index:
        """Return the index with these ``terms`` and ``arrays``."""
        known = cls.__new__(cls)
        known._terms = {term: number for number, term in enumerate(terms)}
        known._starts, known._docs, known._counts = (arrays[name] for name in ("starts", "docs", "counts"))
        known._name_rank, known._inverse_norm = arrays["name_rank"], arrays["inverse_norm"]
        known._n = len(known._name_rank)
        return known

    def search(self, query: str) -> Int[np.ndarray, " k"]:
        """Return the numbers of the best documents, best first, at most ``HITS``; an empty query finds nothing."""
        scores = np.zeros(self._n)
        for term, times in Counter(analyze(query)).items():
            if (at := self._terms.get(term)) is not None:
                span = slice(self._starts[at], self._starts[at + 1])
                docs, counts = self._docs[span], self._counts[span].astype(np.float32)
                weight = self._idf(len(docs)) * np.float32(times)
                # As in Lucene, float32 within a term and float64 over terms: this decides which scores are equal.
                scores[docs] += weight - weight / (np.float32(1) + counts * self._inverse_norm[docs])
        hits = np.flatnonzero(scores)
        scores = scores[hits].astype(np.float32)
        if len(hits) > HITS:
            best = scores >= np.partition(scores, -HITS)[-HITS]
            hits, scores = hits[best], scores[best]
        return hits[np.lexsort((self._name_rank[hits], -scores))][:HITS]

    def _idf(self, holders: int) -> np.float32:
        """Return the inverse document frequency of a term that ``holders`` documents contain."""
        return np.float32(np.log(1 + (self._n - holders + 0.5) / (holders + 0.5)))


def _inverse_norms(lengths: Int[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    """Return 1 / (k1 (1 - b + b dl / avgdl)), where dl is the length after Lucene's rounding to one byte."""
    mean = np.float32(max(lengths.sum() / max(len(lengths), 1), 1))
    byte = np.array([_one_byte(n) for n in range(int(lengths.max(initial=0)) + 1)], np.float32)[lengths]
    return np.float32(1) / (K1 * ((np.float32(1) - B) + B * byte / mean))


def _one_byte(length: int) -> int:
    """Return a length after Lucene's lossy coding (SmallFloat.intToByte4).

    Lengths up to 40 are exact. For longer ones, it keeps the four leading bits of the length minus 24.
    """
    if length < 40:
        return length
    rest = length - 24
    shift = rest.bit_length() - 4
    return 24 + (rest >> shift << shift)
