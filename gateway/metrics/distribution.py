"""A histogram that takes a whole batch of values at once; prometheus-client's takes them one by one, ten times as dear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WORK_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends for what one batch takes."""
AGE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper ends for how old a record is."""
EVENT_AGE_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, 31_536_000.0)
"""Upper ends for how old an event is: live ones at one end, a replayed year at the other."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A histogram's state: cumulative counts by upper end as Prometheus writes them, ``+Inf`` last, and the sum."""

    buckets: tuple[tuple[str, float], ...]
    total: float


class Distribution:
    """Counts of values by bucket. Not safe to share between threads: the meter has a lock.

    >>> seen = Distribution((0.1, 1.0))
    >>> seen.add([0.05, 0.1, 0.5, 7.0])
    >>> seen.shape()
    Shape(buckets=(('0.1', 2.0), ('1.0', 3.0), ('+Inf', 4.0)), total=7.65)
    """

    def __init__(self, ends: Sequence[float]) -> None:
        self._ends = np.asarray(ends, dtype=np.float64)
        self._names = (*(repr(end) for end in ends), "+Inf")
        self._counts = np.zeros(len(ends) + 1, dtype=np.int64)
        self._sum = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Count the values; a negative one (two clocks that disagree) counts as 0, for a sum never falls."""
        seen = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
        self._counts += np.bincount(np.searchsorted(self._ends, seen, side="left"), minlength=len(self._counts))
        self._sum += float(seen.sum())

    def shape(self) -> Shape:
        """What it holds now."""
        cumulative = np.cumsum(self._counts).astype(float).tolist()
        return Shape(tuple(zip(self._names, cumulative, strict=True)), self._sum)
