"""Watched values relative to their own pair, so that the values of many pairs make one stream.

A pair's reference is the median (of 0/1 values: the mean) of its first ``REFERENCE`` values since the level last alarmed. Where a
difference matters in the metric's unit the reference is taken off, where it matters as a share the value is divided by it: so pairs
of five and of thirty basis points, and that more is traded now in the one and now in the other, show no drift. Until a pair has a
reference its values are not fed. What drifts in one pair alone is found by that pair's own detectors.

Pairs take turns, and neighbours in the stream are mostly of different ones: what they have in common is then hidden from the
detector's estimate of how far neighbours resemble each other, and every swing of a chain's gas price would alarm. So numbers are
fed as means of ``BLOCK`` values in a row, which do resemble each other; 0/1 values are fed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from workers.metrics import WATCHED, Metric

REFERENCE = 32
BLOCK = 16
MAX_PAIRS = 64


class Relative:
    """The references of a level's pairs."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: dict[str, dict[str, list[float]]] = {}
        """By metric, then pair: the values that the reference is made of, in order of arrival; one value once it is made."""

    def of(self, pair: str, values: Mapping[str, float]) -> dict[str, float]:
        """A pair's values, relative to its references; those without one yet are kept for it and left out."""
        found = {}
        for name, value in values.items():
            pairs = self._pairs.setdefault(name, {})
            if pair not in pairs:
                if len(pairs) >= MAX_PAIRS:
                    continue
                pairs[pair] = []
            reference, metric = pairs[pair], WATCHED[name]
            if len(reference) == 1 and not metric.binary and metric.ratio > 0.0:
                found[name] = value / reference[0] if reference[0] > 0.0 else 1.0
            elif len(reference) == 1:
                found[name] = value - reference[0]
            else:
                self._gather(reference, value, metric)
        return found

    @staticmethod
    def _gather(reference: list[float], value: float, metric: Metric) -> None:
        if not reference:
            reference.append(value)  # twice: a list of one is a reference that is made
        reference.append(value)
        if len(reference) > REFERENCE:
            made = reference[1:]
            reference[:] = [fmean(made) if metric.binary else median(made)]

    def in_unit(self, name: str, relative: float) -> float:
        """A relative value as it would be for the average pair, in the metric's unit."""
        made = [values[0] for values in self._pairs.get(name, {}).values() if len(values) == 1]
        level, metric = fmean(made) if made else 0.0, WATCHED[name]
        return relative * level if metric.ratio > 0.0 and not metric.binary else relative + level

    def restart(self, name: str) -> None:
        """New references for a metric: it has moved."""
        self._pairs.pop(name, None)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return dict(sorted(self._pairs.items()))

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Relative:
        """The references that gave ``plain``."""
        made = cls()
        made._pairs = {
            name: {pair: [float(value) for value in values] for pair, values in pairs.items()} for name, pairs in plain.items()
        }
        return made


class Blocks:
    """Values by metric, gathered into means of ``BLOCK`` in a row."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[float]] = {}

    def of(self, values: Mapping[str, float]) -> dict[str, float]:
        """Take one value a metric; those whose block is full now, as its mean."""
        found = {}
        for name, value in values.items():
            if WATCHED[name].binary:
                found[name] = value
                continue
            waiting = self._waiting.setdefault(name, [])
            waiting.append(value)
            if len(waiting) == BLOCK:
                found[name] = fmean(waiting)
                waiting.clear()
        return found

    def restart(self, name: str) -> None:
        """Forget the block that is being filled."""
        self._waiting.pop(name, None)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return dict(sorted(self._waiting.items()))

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Blocks:
        """The blocks that gave ``plain``."""
        made = cls()
        made._waiting = {name: [float(value) for value in values] for name, values in plain.items()}
        return made
