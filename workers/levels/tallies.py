"""Failures counted: for each key and window how many executions there were and how many failed with which kind of error.

Counts are all that a lesson from failures needs, so nothing is thinned and no success is needed. A series keeps the last
``MAX_WINDOWS`` windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_WINDOWS = 360
MAX_IDS = 10


@dataclass(frozen=True, slots=True)
class Tally:
    """One window of one key: ``n`` executions, failures by kind, some of the failed episodes by kind."""

    start_ms: int
    end_ms: int
    n: int
    kinds: dict[str, int]
    ids: dict[str, tuple[str, ...]]

    def of(self, kind: str) -> int:
        """Failures of one kind."""
        return self.kinds.get(kind, 0)

    @property
    def failures(self) -> int:
        """Failures of any kind."""
        return sum(self.kinds.values())

    def to_plain(self) -> list[Any]:
        """As JSON values."""
        return [self.start_ms, self.end_ms, self.n, self.kinds, {kind: list(ids) for kind, ids in self.ids.items()}]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Tally:
        """The tally that gave ``plain``."""
        start_ms, end_ms, n, kinds, ids = plain
        return cls(int(start_ms), int(end_ms), int(n), dict(kinds), {kind: tuple(found) for kind, found in ids.items()})


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """Tallies of several keys as one series: those of one window together, oldest first."""
    windows: dict[int, list[Tally]] = {}
    for tally in tallies:
        windows.setdefault(tally.start_ms, []).append(tally)
    return [_together(windows[start]) for start in sorted(windows)]


def _together(tallies: Sequence[Tally]) -> Tally:
    if len(tallies) == 1:
        return tallies[0]
    kinds: dict[str, int] = {}
    ids: dict[str, tuple[str, ...]] = {}
    for tally in tallies:
        for kind, count in tally.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
            ids[kind] = (*ids.get(kind, ()), *tally.ids.get(kind, ()))[-MAX_IDS:]
    return Tally(
        tallies[0].start_ms, max(one.end_ms for one in tallies), sum(one.n for one in tallies), dict(sorted(kinds.items())), ids
    )


def halves(series: Sequence[Tally]) -> tuple[list[Tally], list[Tally]]:
    """The older and the newer half by executions, cut between windows; the older one is empty where there is one window only."""
    whole, seen = sum(one.n for one in series), 0
    for i, one in enumerate(series):
        if 2 * seen >= whole and i:
            return list(series[:i]), list(series[i:])
        seen += one.n
    return list(series[:-1]), list(series[-1:])


def dispersion(counts: Sequence[int], sizes: Sequence[int]) -> float:
    """How much more windows' counts vary than independent failures would: Pearson's χ² over its degrees of freedom, at least 1.

    >>> dispersion([1, 1, 1, 1], [10, 10, 10, 10]), round(dispersion([0, 0, 0, 8], [10, 10, 10, 10]), 1)
    (1.0, 10.0)
    """
    rate = sum(counts) / max(1, sum(sizes))
    if len(counts) < 3 or not 0.0 < rate < 1.0:
        return 1.0
    square = sum((count - size * rate) ** 2 / (size * rate * (1 - rate)) for count, size in zip(counts, sizes, strict=True) if size)
    return max(1.0, square / (len(counts) - 1))


def binomial_tail(k: int, n: int, rate: float) -> float:
    """P(X ≥ k) for X ~ Binomial(n, rate), 0 < rate < 1.

    >>> round(binomial_tail(3, 8, 0.05), 6), binomial_tail(0, 5, 0.5)
    (0.005788, 1.0)
    """
    if k <= 0:
        return 1.0
    log_rate, log_rest, log_all = math.log(rate), math.log1p(-rate), math.lgamma(n + 1)
    terms = []
    for i in range(k, n + 1):
        term = math.exp(log_all - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_rate + (n - i) * log_rest)
        if term == 0.0 and i > n * rate:  # past the mode they only fall
            break
        terms.append(term)
    return min(1.0, math.fsum(terms))
