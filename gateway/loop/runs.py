"""Many seeds of a market, and what they add up to: the paired difference with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student_t

from gateway.loop.desk import Result

BOUND_BPS = 3.0
"""What the memory may cost an order in a market that misleads, on average over a run."""
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Table:
    """A market's row. Costs are basis points an order, each seed counting once.

    ``low`` and ``high`` are the ends of the 95 % paired t interval of the difference, ``boot`` those of a bootstrap over seeds;
    ``worst`` is the dearest seed's difference, ``explored`` the part of the difference from orders that tried something out.
    """

    kind: str
    seeds: int
    plain: float
    remembering: float
    difference: float
    low: float
    high: float
    boot: tuple[float, float]
    better: float
    worst: float
    explored: float
    trips: float
    turns: float

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {name: _rounded(getattr(self, name)) for name in self.__slots__}


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_rounded(one) for one in value]
    return round(value, 3) if isinstance(value, float) and math.isfinite(value) else None if isinstance(value, float) else value


def table(results: Sequence[Result]) -> Table:
    """The row of one market's results.

    Raises:
        ValueError: there are none.
    """
    if not results:
        raise ValueError("no results")
    differences = [one.difference for one in results]
    low, high = paired(differences)
    return Table(
        kind=results[0].kind,
        seeds=len(results),
        plain=fmean(fmean(one.plain) for one in results),
        remembering=fmean(fmean(one.remembering) for one in results),
        difference=fmean(differences),
        low=low,
        high=high,
        boot=bootstrap(differences),
        better=fmean(one < 0 for one in differences),
        worst=max(differences),
        explored=fmean(one.explored / len(one.plain) for one in results),
        trips=fmean(one.trips.total() for one in results),
        turns=fmean(one.turns for one in results),
    )


def paired(differences: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of paired differences by Student's t; infinite with fewer than two.

    >>> [round(end, 3) for end in paired([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    n = len(differences)
    if n < 2:
        return (-math.inf, math.inf)
    mean, half = fmean(differences), float(student_t.ppf(0.975, n - 1)) * stdev(differences) / math.sqrt(n)
    return (mean - half, mean + half)


def bootstrap(differences: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile interval of the mean over ``RESAMPLES`` resamples of the seeds; always the same for the same numbers."""
    random = Random(0)  # noqa: S311 — reproducible, not secret
    n = len(differences)
    means = sorted(sum(random.choices(differences, k=n)) / n for _ in range(RESAMPLES))
    return (means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1])
