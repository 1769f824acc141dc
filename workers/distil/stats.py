"""The statistics a claim is judged by: effects with intervals, exact and rank tests, corrections for many looks.

Everything here is numpy and the standard library. ``scipy.stats`` has most of it, but importing it costs about 75 MB of resident
memory (``scipy.special`` alone 26 MB) and seconds of start-up, in a process whose whole budget is 250 MB; what is needed is a
page. The tests hold every function equal to scipy's or statsmodels' to 1e-10.

Trades are not independent draws: a slow metric beside a slow feature looks like an effect (the nonsense correlation of two
autocorrelated series). Every comparison therefore takes a :class:`Dependence`: the factor by which the effect's sampling variance
exceeds that of independent observations, and the degrees of freedom that are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Z95 = 1.959963984540054
"""Normal quantile of a two-sided 95 % interval."""

SMALLEST_P = 1e-300
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect, positive = higher inside; the ends of its 95 % interval; a two-sided p-value."""

    effect: float
    low: float
    high: float
    p: float

    def toward(self, sign: int) -> Effect:
        """The same effect seen so that ``sign`` is positive; ``low`` stays the lower end."""
        return self if sign > 0 else Effect(-self.effect, -self.high, -self.low, self.p)


def wilson(successes: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a proportion; ``n`` may be an effective (fractional) size.

    >>> tuple(round(end, 4) for end in wilson(8, 10))
    (0.4902, 0.9433)
    """
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return centre - half, centre + half


def newcombe(k1: int, n1: int, k2: int, n2: int, inflation: float = 1.0) -> tuple[float, float, float]:
    """Risk difference ``k1/n1 − k2/n2`` with Newcombe's hybrid score interval (Newcombe 1998, method 10).

    >>> tuple(round(value, 4) for value in newcombe(56, 70, 48, 80))
    (0.2, 0.0524, 0.3339)
    """
    p1, p2 = k1 / n1, k2 / n2
    low1, high1 = wilson(k1 / inflation, n1 / inflation)
    low2, high2 = wilson(k2 / inflation, n2 / inflation)
    gap = p1 - p2
    return gap, gap - math.hypot(p1 - low1, high2 - p2), gap + math.hypot(high1 - p1, p2 - low2)


def fisher_exact(k1: int, n1: int, k2: int, n2: int) -> float:
    """Two-sided Fisher exact p of ``k1`` of ``n1`` against ``k2`` of ``n2``: all tables no likelier than this one.

    >>> round(fisher_exact(8, 10, 1, 6), 6)
    0.034965
    """
    positives, total = k1 + k2, n1 + n2
    smallest, largest = max(0, positives - n2), min(positives, n1)
    if smallest == largest:
        return 1.0
    k = np.arange(smallest, largest, dtype=np.float64)
    steps = np.log((positives - k) * (n1 - k)) - np.log((k + 1) * (total - positives - n1 + k + 1))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    chances = np.exp(logs - logs.max())
    observed = chances[k1 - smallest]
    return float(min(1.0, chances[chances <= observed * (1 + 1e-7)].sum() / chances.sum()))


def regularized_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function by its continued fraction (modified Lentz; Numerical Recipes 6.4).

    >>> round(regularized_beta(2.0, 0.5, 0.7), 10)
    0.2605745474
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - regularized_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1), tiny)
    total = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / ((1.0 + term * d) or tiny)
            c = (1.0 + term / c) or tiny
            total *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * total


def student_p(t: float, df: float) -> float:
    """Two-sided p of a t statistic; from whichever side keeps its digits."""
    square = t * t
    if not math.isfinite(square):
        return 0.0
    if square < 1.0:
        return 1.0 - regularized_beta(0.5, df / 2, square / (df + square))
    return regularized_beta(df / 2, 0.5, df / (df + square))


def normal_p(z: float) -> float:
    """Two-sided p of a normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2))


@dataclass(frozen=True, slots=True)
class Dependence:
    """How far observations are from independent: variance ``inflation`` (at least 1), degrees of freedom ``df`` of it, and how many
    ``stretches`` of consecutive observations lie on one side.
    """

    inflation: float
    df: float
    stretches: int = 0

    @property
    def widening(self) -> float:
        """The inflation with which a normal interval also pays for a variance estimated from few effective observations: times
        the square of the t quantile over the normal one (Cornish–Fisher).
        """
        if self.inflation <= 1.0:
            return 1.0
        return self.inflation * (1.0 + (Z95 * Z95 + 1.0) / (4.0 * self.df)) ** 2

    def deflate(self, p: float) -> float:
        """The p-value once its statistic's variance is taken as ``inflation`` times larger, by Student's t.

        >>> INDEPENDENT.deflate(0.01), round(Dependence(4.0, 23.0).deflate(0.01), 4)
        (0.01, 0.2106)
        """
        if self.inflation <= 1.0 or p >= 1.0:
            return p
        return student_p(_NORMAL.inv_cdf(max(p, SMALLEST_P) / 2) / math.sqrt(self.inflation), self.df)


INDEPENDENT = Dependence(1.0, math.inf)


def _placements(x: Floats, y: Floats) -> tuple[Floats, float]:
    """For each of ``x`` how many of ``y`` lie under it (a tie counts half), and how many pairs tie."""
    order = np.sort(y)
    under, over = np.searchsorted(order, x, "left"), np.searchsorted(order, x, "right")
    return (under + over) / 2.0, float((over - under).sum())


def rank_effect(x: Floats, y: Floats, dependence: Dependence = INDEPENDENT) -> Effect:
    """Cliff's delta of ``x`` over ``y`` with its asymmetric interval, and the Brunner–Munzel p-value.

    δ = P(x>y) − P(x<y) = 2U/(n1·n2) − 1. Variance: Cliff's (1996) unbiased estimate; interval: Feng and Cliff's (2004)
    asymmetric one, which stays inside [−1, 1]. p: Brunner and Munzel's t approximation (unequal shapes allowed), Mann–Whitney's
    normal one where their variance vanishes (complete separation, or nothing but ties). Both samples need two values.
    """
    n1, n2 = len(x), len(y)
    above, ties = _placements(x, y)
    below, _ = _placements(y, x)
    delta = 2.0 * float(above.sum()) / (n1 * n2) - 1.0
    spread1 = float(np.square(above - above.mean()).sum()) / (n1 - 1)
    spread2 = float(np.square(below - below.mean()).sum()) / (n2 - 1)
    wider = dependence.widening
    low, high = _delta_interval(delta, _delta_variance(delta, spread1, spread2, ties, n1, n2) * wider, min(n1, n2) / wider)
    return Effect(delta, low, high, dependence.deflate(_rank_p(delta, spread1, spread2, x, y)))


def _delta_variance(delta: float, spread1: float, spread2: float, ties: float, n1: int, n2: int) -> float:
    """Cliff (1996): rows' and columns' dominance variances less the cells', bounded from below as he advises."""
    rows = 4.0 * spread1 / (n2 * n2) * (n1 - 1)
    columns = 4.0 * spread2 / (n1 * n1) * (n2 - 1)
    cells = n1 * n2 - ties - n1 * n2 * delta * delta
    variance = (n2 * n2 * rows + n1 * n1 * columns - cells) / (n1 * n2 * (n1 - 1) * (n2 - 1))
    return max(variance, (1.0 - delta * delta) / (n1 * n2 - 1))


def _delta_interval(delta: float, variance: float, smaller: float) -> tuple[float, float]:
    z2 = Z95 * Z95
    if abs(delta) >= 1.0:
        near = (smaller - z2) / (smaller + z2)
        return (near, 1.0) if delta > 0 else (-1.0, -near)
    centre = delta - delta**3
    half = math.sqrt(z2 * variance * ((1 - delta**2) ** 2 + z2 * variance))
    scale = 1 - delta**2 + z2 * variance
    return max(-1.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def _rank_p(delta: float, spread1: float, spread2: float, x: Floats, y: Floats) -> float:
    n1, n2 = len(x), len(y)
    weighted1, weighted2 = n1 * spread1, n2 * spread2
    pooled = weighted1 + weighted2
    if pooled <= 0.0:
        return _mann_whitney_p(delta, x, y)
    statistic = n1 * n2 * delta / 2 / math.sqrt(pooled)
    df = pooled**2 / (weighted1**2 / (n1 - 1) + weighted2**2 / (n2 - 1))
    return student_p(statistic, df)


def _mann_whitney_p(delta: float, x: Floats, y: Floats) -> float:
    """Normal approximation with ties and without continuity correction."""
    n1, n2 = len(x), len(y)
    n = n1 + n2
    _, counts = np.unique(np.concatenate((x, y)), return_counts=True)
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    variance = n1 * n2 / 12.0 * ((n + 1) - ties / (n * (n - 1)))
    return normal_p(delta * n1 * n2 / 2 / math.sqrt(variance)) if variance > 0 else 1.0


def rate_effect(x: Floats, y: Floats, dependence: Dependence = INDEPENDENT) -> Effect:
    """Risk difference of 0/1 samples with Newcombe's interval and Fisher's exact p."""
    k1, k2 = round(float(x.sum())), round(float(y.sum()))
    gap, low, high = newcombe(k1, len(x), k2, len(y), dependence.widening)
    return Effect(gap, low, high, dependence.deflate(fisher_exact(k1, len(x), k2, len(y))))


def midranks(values: Floats) -> npt.NDArray[np.int64]:
    """Twice the mid-rank of each value: whole numbers, so that sums of them are exact in any order.

    >>> midranks(np.array([3.0, 1.0, 3.0])).tolist()
    [5, 2, 5]
    """
    order = np.sort(values)
    return np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right") + 1


def combine(effects: Sequence[Effect], weights: Sequence[float], dependence: Dependence = INDEPENDENT) -> Effect:
    """The weighted mean of independent strata's effects, its interval and p.

    With weights n1·n2/(n1+n2) it is van Elteren's (1960) statistic for ranks and the Mantel–Haenszel risk difference for rates.
    Each stratum's variance is read off its own interval, so it is never zero; ``dependence`` widens the whole.
    """
    total = sum(weights)
    effect = sum(weight * one.effect for weight, one in zip(weights, effects, strict=True)) / total
    spread = sum((weight * (one.high - one.low) / (2 * Z95)) ** 2 for weight, one in zip(weights, effects, strict=True)) / total**2
    half = Z95 * math.sqrt(spread * dependence.widening)
    p = dependence.deflate(normal_p(effect / math.sqrt(spread))) if spread > 0 else 1.0
    return Effect(effect, max(-1.0, effect - half), min(1.0, effect + half), p)


def heterogeneity(effects: Sequence[Effect]) -> float:
    """I² of strata's effects: (Q − df)/Q with Cochran's Q, not under 0 (Higgins and Thompson 2002).

    >>> heterogeneity([Effect(0.3, 0.2, 0.4, 0.0), Effect(0.3, 0.1, 0.5, 0.0)])
    0.0
    """
    inverse = [(2 * Z95 / max(one.high - one.low, 1e-9)) ** 2 for one in effects]
    mean = sum(weight * one.effect for weight, one in zip(inverse, effects, strict=True)) / sum(inverse)
    q = sum(weight * (one.effect - mean) ** 2 for weight, one in zip(inverse, effects, strict=True))
    return max(0.0, (q - (len(effects) - 1)) / q) if q > 0 else 0.0


def dependence(inside: Bools, outcome: Floats) -> Dependence:
    """How much larger the variance of "inside minus outside" is than for independent observations.

    Both arrays are in time order. For an indicator and an outcome that are independent of each other but each autocorrelated,
    the variance of their covariance is inflated by ``1 + 2·Σ ρ_inside(k)·ρ_outcome(k)`` (Bartlett 1935). The sum ends where
    either ρ first falls to zero, beyond which there is only noise. The outcome's ρ is taken from what remains after each side's
    mean is removed: with the raw outcome, a real effect of a periodic feature would count as its own noise.

    What is inflated is known only as well as there are separate stretches inside and outside (an hour of the day has two a day,
    however many trades), so the degrees of freedom are Satterthwaite's of a part 1 with n − 2 and a part ``inflation − 1`` with
    as many as there are stretches, less 2.
    """
    if len(inside) < 8:
        return INDEPENDENT
    residual: Floats = outcome - np.where(inside, float(outcome[inside].mean()), float(outcome[~inside].mean()))
    return _dependence(inside, inside.astype(np.float64) - float(inside.mean()), residual)


def grouped_dependence(inside: Bools, outcome: Floats, groups: npt.NDArray[Any]) -> Dependence:
    """The same between groups, for an effect that is taken within groups and averaged: rows are in time order over all of them.

    Neighbours are mostly of different groups, so it shows what groups have in common; what is a group's own is thinned out here and
    has to be counted inside it.
    """
    if len(inside) < 8:
        return INDEPENDENT
    indicator = _centred(inside.astype(np.float64), groups)
    return _dependence(inside, indicator, _centred(outcome, groups.astype(np.int64) * 2 + inside))


def _centred(values: Floats, labels: npt.NDArray[Any]) -> Floats:
    """Values less the mean of their label."""
    _, codes = np.unique(labels, return_inverse=True)
    means: Floats = np.bincount(codes, weights=values) / np.bincount(codes)
    rest: Floats = values - means[codes]
    return rest


def _dependence(inside: Bools, indicator: Floats, residual: Floats) -> Dependence:
    n = len(inside)
    rho1, rho2 = _autocorrelation(indicator), _autocorrelation(residual)
    lags = min(_first_not_positive(rho1), _first_not_positive(rho2))
    inflation = 1.0 + 2.0 * float(np.sum(rho1[1:lags] * rho2[1:lags]))
    stretches = 1 + int(np.count_nonzero(inside[1:] != inside[:-1]))
    df = inflation**2 / (1.0 / (n - 2) + (inflation - 1.0) ** 2 / max(1, stretches - 2))
    return Dependence(inflation, min(df, n - 2.0), stretches)


def _autocorrelation(centred: Floats) -> Floats:
    """ρ(k) for lags under n/2, with what subtracting the sample's own mean took away given back.

    Removing the mean lowers every ρ̂ by about τ/n, where τ = 1 + 2Σρ: in short slow series that is the larger part of it.
    """
    n = len(centred)
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    raw = np.fft.irfft(power, size)[: n // 2]
    if raw[0] <= 0:
        return np.zeros(n // 2)
    rho: Floats = raw / raw[0] * (n / (n - np.arange(n // 2)))
    tau = 1.0 + 2.0 * float(np.sum(rho[1 : _first_not_positive(rho)]))
    rho += (1.0 - rho) * min(tau / n, 0.5)
    return rho


def _first_not_positive(rho: Floats) -> int:
    below = np.flatnonzero(rho[1:] <= 0)
    return int(below[0]) + 1 if len(below) else len(rho)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (q) in the given order: rejecting q ≤ α holds the false discovery rate at α.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    [0.03, 0.04, 0.04]
    """
    if not p_values:
        return []
    p: Any = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    monotone = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    adjusted = np.empty_like(monotone)
    adjusted[order] = monotone
    return [float(value) for value in adjusted]


def alpha_spent(q: float, look: int) -> float:
    """The share of ``q`` that the ``look``-th of unlimited looks may spend: 6q/(π²w²), which sums to ``q``.

    >>> round(sum(alpha_spent(0.1, w) for w in range(1, 100_000)), 4)
    0.1
    """
    return 6.0 * q / (math.pi**2 * look**2)
