"""BM25 over texts in memory, for small sets and for measuring. Episodes and insights have full-text indexes of their own in
LanceDB and SQLite, with the same formula and constants.

``score = Σ idf(t) · tf·(k1+1) / (tf + k1·(1 − b + b·len/avg))``, ``idf(t) = ln(1 + (N − n + ½)/(n + ½))`` (Robertson & Zaragoza,
"The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the idf is Lucene's, which is never negative).

A word's postings are two growing arrays, so adding is cheap and scoring is a few numpy operations a word. Removing leaves the
postings where they are and marks the row dead; when half of the rows are dead everything is packed anew.
"""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from stores.recall.text import query_terms, words

K1 = 1.2
B = 0.75
"""The constants of FTS5 and of LanceDB's index."""

Scores = npt.NDArray[np.float64]


class _Postings:
    __slots__ = ("counts", "live", "rows")

    def __init__(self) -> None:
        self.rows = array("q")
        self.counts = array("f")
        self.live = 0


class Bm25:
    """Texts by id. Not safe for use by several threads at once: the caller takes turns."""

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._clear()
        for key, text in texts:
            self.put(key, text)

    def _clear(self) -> None:
        self._postings: dict[str, _Postings] = {}
        self._vocabulary: list[str] | None = None
        self._rows: dict[str, int] = {}
        self._ids: list[str] = []
        self._alive = array("b")
        self._terms: list[tuple[str, ...]] = []
        self._lengths = array("d")
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, key: str, text: str) -> None:
        """Add a text, or replace the one with this id."""
        self.remove(key)
        counts = Counter(map(sys.intern, words(text)))  # each word once, not once a text
        self._append(key, counts)

    def _append(self, key: str, counts: Counter[str]) -> None:
        row = len(self._ids)
        self._rows[key] = row
        self._ids.append(key)
        self._alive.append(1)
        self._terms.append(tuple(counts))
        self._lengths.append(float(counts.total()))
        self._total += counts.total()
        for term, count in counts.items():
            postings = self._postings.get(term)
            if postings is None:
                postings = self._postings[term] = _Postings()
                self._vocabulary = None
            postings.rows.append(row)
            postings.counts.append(count)
            postings.live += 1

    def remove(self, key: str) -> bool:
        """Forget a text; whether there was one."""
        row = self._rows.pop(key, None)
        if row is None:
            return False
        for term in self._terms[row]:
            self._postings[term].live -= 1
        self._total -= self._lengths[row]
        self._alive[row], self._terms[row] = 0, ()
        if len(self._ids) > 64 and len(self._rows) * 2 < len(self._ids):
            self._pack()
        return True

    def _pack(self) -> None:
        kept: dict[int, Counter[str]] = {row: Counter() for row in self._rows.values()}
        for term, postings in self._postings.items():
            for row, count in zip(postings.rows, postings.counts, strict=True):
                if row in kept:
                    kept[row][term] = int(count)
        order = [(key, kept[row]) for key, row in self._rows.items()]
        self._clear()
        for key, counts in order:
            self._append(key, counts)

    def search(self, query: str, k: int, allowed: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Up to ``k`` ids with a score over zero, best first, equal ones by id. ``allowed`` filters before the k are taken."""
        scores = self._scored(query)
        if allowed is None:
            rows = np.flatnonzero((scores > 0.0) & np.array(self._alive, dtype=bool))
        else:
            rows = np.array([row for key in allowed if (row := self._rows.get(key)) is not None], dtype=np.int64)
            rows = rows[scores[rows] > 0.0]
        if 0 < k < len(rows):
            rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
        hits = [(self._ids[row], float(scores[row])) for row in rows]
        hits.sort(key=lambda hit: (-hit[1], hit[0]))
        return hits[: max(k, 0)]

    def _scored(self, query: str) -> Scores:
        scores = np.zeros(len(self._ids))
        if not self._rows:
            return scores
        average = self._total / len(self._rows) or 1.0
        lengths = np.array(self._lengths)
        asked = query_terms(query)
        for term in asked.terms:
            for match in self._longer(term) if term in asked.prefixes else (term,):
                postings = self._postings.get(match)
                if postings is None or postings.live == 0:
                    continue
                rows, counts = np.array(postings.rows), np.array(postings.counts, dtype=np.float64)
                idf = math.log(1.0 + (len(self._rows) - postings.live + 0.5) / (postings.live + 0.5))
                scores[rows] += idf * counts * (K1 + 1.0) / (counts + K1 * (1.0 - B + B * lengths[rows] / average))
        return scores

    def _longer(self, prefix: str) -> list[str]:
        """The indexed words that begin so."""
        if self._vocabulary is None:
            self._vocabulary = sorted(self._postings)
        found = []
        for place in range(bisect_left(self._vocabulary, prefix), len(self._vocabulary)):
            if not self._vocabulary[place].startswith(prefix):
                break
            found.append(self._vocabulary[place])
        return found
