"""Comparing inside with outside: one claim, some rows, what they say — and what they say once something else is held fixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from schemas.claims import Condition, Evidence
from workers.distil.mine import MIN_SUPPORT, Ints, floor
from workers.distil.observations import View
from workers.distil.stats import INDEPENDENT, Z95, Bools, Dependence, Effect, Floats, dependence, midranks, rank_effect, rate_effect
from workers.metrics import Metric, rounded

EFFECTIVE_SUPPORT = 8
"""Fewest rows on a side once autocorrelation is taken off: twenty trades of one calm hour are not twenty observations."""
STRETCHES = 8
"""Fewest separate stretches, of both sides together, where more than half of the variance is resemblance of neighbours."""
SAMPLE_IDS = 20
TIME_BLOCKS = 4
BLOCK_SUPPORT = 3
STRATUM_SUPPORT = 4


@dataclass(frozen=True, slots=True)
class Comparison:
    """One claim on some rows. ``view`` has only rows where metric and features are known; ``inside`` says where conditions hold.

    ``inside_level``/``outside_level`` are medians, or rates; ``gap`` is a conservative 95 % interval of their difference
    (distribution-free: each median's own interval by ranks), for rates the effect's interval.
    """

    view: View
    metric: Metric
    inside: Bools
    effect: Effect
    between: Dependence
    inside_level: float
    outside_level: float
    gap: tuple[float, float]

    @property
    def n_inside(self) -> int:
        """Rows inside."""
        return int(np.count_nonzero(self.inside))

    @property
    def n_outside(self) -> int:
        """Rows outside."""
        return len(self.inside) - self.n_inside

    @property
    def material(self) -> bool:
        """Whether the difference between the levels matters to anybody, whatever its significance."""
        return self.metric.material(self.outside_level, self.inside_level)

    @property
    def enough(self) -> bool:
        """Whether there are enough observations once their dependence is counted."""
        if self.between.inflation > 2.0 and self.between.stretches < STRETCHES:
            return False
        return min(self.n_inside, self.n_outside) >= EFFECTIVE_SUPPORT * self.between.inflation

    def clears(self, sign: int) -> bool:
        """Whether the interval's near end is beyond the practical floor in the direction of ``sign``, and the levels' difference
        is material in the same direction.
        """
        return (
            self.effect.toward(sign).low > floor(self.metric)
            and self.enough
            and self.material
            and (self.inside_level - self.outside_level) * sign > 0
        )

    def evidence(self, q: float) -> Evidence:
        """As the contract has it, in six significant digits."""
        view = self.view
        return Evidence(
            kind="risk_difference" if self.metric.binary else "cliffs_delta",
            effect=rounded(self.effect.effect),
            low=rounded(self.effect.low),
            high=rounded(self.effect.high),
            n_inside=self.n_inside,
            n_outside=self.n_outside,
            inside=rounded(self.inside_level),
            outside=rounded(self.outside_level),
            unit=self.metric.unit,
            p=rounded(min(1.0, self.effect.p)),
            q=rounded(min(1.0, q)),
            first_ts=_moment(int(view.ts_ms.min())),
            last_ts=_moment(int(view.ts_ms.max())),
            episode_ids=tuple(_sample(view.ids, self.inside)),
        )


def _moment(ts_ms: int) -> datetime:
    return datetime.fromtimestamp(ts_ms / 1000, UTC)


def _sample(ids: Sequence[str], inside: Bools) -> list[str]:
    """The newest of either side, half and half, newest last."""
    half = SAMPLE_IDS // 2
    chosen = np.sort(np.concatenate((np.flatnonzero(inside)[-half:], np.flatnonzero(~inside)[-half:])))
    return [ids[int(i)] for i in chosen]


def compare(view: View, conditions: Sequence[Condition], metric: Metric, least: int = MIN_SUPPORT) -> Comparison | None:
    """Inside against outside; None with fewer than ``least`` rows on a side. ``view`` has the rows where the metric is known."""
    holds, known = view.test(conditions)
    return compare_rows(view, holds & known, known & ~holds, metric, least)


def compare_rows(view: View, inside: Bools, outside: Bools, metric: Metric, least: int = MIN_SUPPORT) -> Comparison | None:
    """Some rows against some others; None with fewer than ``least`` on a side."""
    if int(np.count_nonzero(inside)) < least or int(np.count_nonzero(outside)) < least:
        return None
    either = inside | outside
    if not either.all():
        view, inside = view.where(either), inside[either]
    outcome = view.metrics[metric.name]
    x, y = outcome[inside], outcome[~inside]
    between = dependence(inside, outcome if metric.binary else midranks(outcome).astype(np.float64))
    effect = _effect(x, y, metric, between)
    if metric.binary:
        return Comparison(view, metric, inside, effect, between, float(x.mean()), float(y.mean()), (effect.low, effect.high))
    first, second = _median(x, between.inflation), _median(y, between.inflation)
    gap = (first[0] - second[2], first[2] - second[0])
    return Comparison(view, metric, inside, effect, between, first[1], second[1], gap)


def _effect(x: Floats, y: Floats, metric: Metric, between: Dependence = INDEPENDENT) -> Effect:
    return rate_effect(x, y, between) if metric.binary else rank_effect(x, y, between)


def _median(values: Floats, inflation: float) -> tuple[float, float, float]:
    """The median between the ends of its interval by order statistics."""
    order = np.sort(values)
    n = len(order)
    half = Z95 * math.sqrt(n * inflation) / 2
    low, high = max(0, math.floor(n / 2 - half)), min(n - 1, math.ceil(n / 2 + half))
    return float(order[low]), float(np.median(order)), float(order[high])


def held_fixed(comparison: Comparison, labels: Ints) -> Effect | None:
    """The effect inside strata, averaged: what is left of it when the strata's variable is held fixed.

    Weights are n1·n2/(n1+n2) as in van Elteren's test. None where too few strata have both sides to tell.
    """
    outcome = comparison.view.metrics[comparison.metric.name]
    weights, effects, variances = [], [], []
    support = 0
    for label in range(int(labels.max(initial=-1)) + 1):
        rows = labels == label
        x, y = outcome[rows & comparison.inside], outcome[rows & ~comparison.inside]
        if min(len(x), len(y)) < STRATUM_SUPPORT:
            continue
        support += min(len(x), len(y))
        one = _effect(x, y, comparison.metric)
        weights.append(len(x) * len(y) / (len(x) + len(y)))
        effects.append(one.effect)
        variances.append(((one.high - one.low) / (2 * Z95)) ** 2)
    if support < MIN_SUPPORT // 2:
        return None
    total = sum(weights)
    effect = sum(weight * one for weight, one in zip(weights, effects, strict=True)) / total
    spread = sum(weight**2 * one for weight, one in zip(weights, variances, strict=True)) / total**2
    half = Z95 * math.sqrt(spread * comparison.between.inflation)
    return Effect(effect, effect - half, effect + half, 1.0)


def steady(comparison: Comparison, sign: int) -> bool:
    """Whether the effect is there throughout, not only between times.

    A feature that was high in the first half of the rows and low in the second differs in whatever else changed meanwhile. So
    inside and outside must stand side by side in at least two of four consecutive blocks, with the sign of the claim in all
    of them but at most one, and within blocks at least half of the effect must be left.
    """
    n = len(comparison.inside)
    labels: Ints = np.arange(n, dtype=np.int64) * TIME_BLOCKS // n
    outcome = comparison.view.metrics[comparison.metric.name]
    signs = []
    for label in range(TIME_BLOCKS):
        rows = labels == label
        x, y = outcome[rows & comparison.inside], outcome[rows & ~comparison.inside]
        if min(len(x), len(y)) >= BLOCK_SUPPORT:
            signs.append(sign * _effect(x, y, comparison.metric).effect)
    wrong = sum(one < 0 for one in signs)
    if len(signs) < 2 or wrong > (1 if len(signs) == TIME_BLOCKS else 0):
        return False
    within = held_fixed(comparison, labels)
    return within is not None and sign * within.effect >= sign * comparison.effect.effect / 2
