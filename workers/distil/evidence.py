"""Comparing inside with outside: one claim, some rows, what they say — and what they say once something else is held fixed.

Where rows have groups (the pairs of a tool), inside is compared with outside within each group only, and the groups' effects are
averaged: pairs differ in whatever they like, and that is no effect of a condition that one of them meets more often. What is
averaged must also be there throughout: :meth:`Comparison.general`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from schemas.claims import Condition, Evidence, Spread
from workers.distil.mine import MIN_SUPPORT, Ints, floor
from workers.distil.observations import Codes, View
from workers.distil.stats import (
    INDEPENDENT,
    Z95,
    Bools,
    Dependence,
    Effect,
    Floats,
    combine,
    dependence,
    grouped_dependence,
    heterogeneity,
    midranks,
    rank_effect,
    rate_effect,
)
from workers.metrics import Metric, rounded

EFFECTIVE_SUPPORT = 8
"""Fewest rows on a side once autocorrelation is taken off: twenty trades of one calm hour are not twenty observations."""
STRETCHES = 8
"""Fewest separate stretches, of both sides together: of a group always, else where more than half of the variance is resemblance
of neighbours.
"""
SAMPLE_IDS = 20
TIME_BLOCKS = 4
BLOCK_SUPPORT = 3
STRATUM_SUPPORT = 4
GROUP_SUPPORT = 8
"""Fewest rows on a side for a group to say something of its own."""
SHOWN_SHARE = 2 / 3
"""Of the units that can tell, how many have to show an effect over the floor."""
AGAINST_SHARE = 0.1
"""Of the groups, how many may exclude an effect over the floor: with many, one does by chance."""
CONFINED_SHARE = 1 / 3
"""Of the groups, how many have to exclude it before a claim that was general is so no longer."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one group's rows say by themselves; ``weight`` is n1·n2/(n1+n2)."""

    unit: int
    weight: float
    effect: Effect
    inside: float
    outside: float
    gap: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One claim on some rows. ``view`` has only rows where metric and features are known; ``inside`` says where conditions hold.

    ``inside_level``/``outside_level`` are medians, or rates; ``gap`` is a conservative 95 % interval of their difference
    (distribution-free: each median's own interval by ranks), for rates the effect's interval. ``shares`` are the groups', where
    rows have them; levels and gap are then averages over groups.
    """

    view: View
    metric: Metric
    inside: Bools
    effect: Effect
    between: Dependence
    inside_level: float
    outside_level: float
    gap: tuple[float, float]
    shares: tuple[Share, ...] = ()

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
        return _enough(min(self.n_inside, self.n_outside), self.between)

    def clears(self, sign: int) -> bool:
        """Whether the interval's near end is beyond the practical floor in the direction of ``sign``, and the levels' difference
        is material in the same direction.
        """
        return (
            self.effect.toward(sign).low > floor(self.metric)
            and self.enough
            and self.material
            and (self.inside_level - self.outside_level) * sign > 0
            and self.general(sign)
        )

    def general(self, sign: int) -> bool:
        """Whether the effect is there throughout the units (pairs of a tool, tools), not only on average.

        At least two units and two thirds of them show an effect over the floor; hardly a group excludes one; and without any one of
        the units the others still show it. Always true where rows have no groups.
        """
        if not self.shares:
            return True
        units = {share.unit for share in self.shares}
        shown = self._shown(sign)
        if len(shown) < 2 or len(shown) < SHOWN_SHARE * len(units) or self._against(sign) > AGAINST_SHARE * len(self.shares):
            return False
        least = floor(self.metric)
        for unit in sorted(units):
            rest = self._averaged([share for share in self.shares if share.unit != unit]).toward(sign)
            if rest.low <= 0 or rest.effect <= least:
                return False
        return True

    def confined(self, sign: int) -> bool:
        """Whether so many groups exclude an effect over the floor that what is true of the others is not true of all."""
        return bool(self.shares) and self._against(sign) >= max(1.0, CONFINED_SHARE * len(self.shares))

    def _averaged(self, shares: Sequence[Share]) -> Effect:
        return combine([share.effect for share in shares], [share.weight for share in shares], self.between)

    def _shown(self, sign: int) -> list[int]:
        """Units whose own effect is over the floor."""
        by_unit: dict[int, list[Share]] = {}
        for share in self.shares:
            by_unit.setdefault(share.unit, []).append(share)
        return [unit for unit, own in by_unit.items() if self._averaged(own).toward(sign).effect > floor(self.metric)]

    def _against(self, sign: int) -> int:
        """Groups whose own interval, widened as the whole one is, lies under the floor."""
        wide = math.sqrt(self.between.widening)
        ends = [(one.effect, one.high) for one in (share.effect.toward(sign) for share in self.shares)]
        return sum(middle + (high - middle) * wide < floor(self.metric) for middle, high in ends)

    def _spread(self) -> Spread | None:
        if not self.shares:
            return None
        sign = 1 if self.effect.effect > 0 else -1
        least = floor(self.metric)
        groups = self.view.groups
        tools = {share.unit for share in self.shares} if groups is not None and len(set(groups.units)) < len(groups.units) else {0}
        return Spread(
            pairs=len(self.shares),
            pairs_shown=sum(share.effect.toward(sign).effect > least for share in self.shares),
            tools=len(tools),
            tools_shown=len(self._shown(sign)) if len(tools) > 1 else 1,
            heterogeneity=rounded(heterogeneity([share.effect for share in self.shares])),
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
            spread=self._spread(),
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
    if view.groups is not None:
        either &= _telling(view.groups.codes, inside, outside)
    if not either.all():
        view, inside = view.where(either), inside[either]
    if view.groups is not None:
        return _compare_grouped(view, inside, metric, least)
    outcome = view.metrics[metric.name]
    x, y = outcome[inside], outcome[~inside]
    between = dependence(inside, outcome if metric.binary else midranks(outcome).astype(np.float64))
    effect = _effect(x, y, metric, between)
    if metric.binary:
        return Comparison(view, metric, inside, effect, between, float(x.mean()), float(y.mean()), (effect.low, effect.high))
    level, other, gap = _medians(x, y, between.inflation)
    return Comparison(view, metric, inside, effect, between, level, other, gap)


def _telling(codes: Codes, inside: Bools, outside: Bools) -> Bools:
    """Rows of groups that have enough on either side."""
    size = int(codes.max(initial=-1)) + 2
    least = np.minimum(np.bincount(codes[inside] + 1, minlength=size), np.bincount(codes[outside] + 1, minlength=size))
    enough = least >= GROUP_SUPPORT
    enough[0] = False
    told: Bools = enough[codes + 1]
    return told


def _compare_grouped(view: View, inside: Bools, metric: Metric, least: int) -> Comparison | None:
    """Within groups, then averaged; None where fewer than two units can tell.

    A group's effect is widened for the dependence of its own rows, and left out where too few of them are left after that. What
    groups have in common (one chain's gas price, one hour of the day) shows between neighbours in time over all groups, and widens
    the average once more.
    """
    groups, outcome = view.groups, view.metrics[metric.name]
    assert groups is not None
    ranks, shares, kept = outcome.copy(), [], np.zeros(len(outcome), dtype=np.bool_)
    for code in np.unique(groups.codes):
        rows = groups.codes == code
        if not metric.binary:
            ranks[rows] = midranks(outcome[rows]) / (2.0 * int(rows.sum()))
        share = _share(outcome[rows], inside[rows], dependence(inside[rows], ranks[rows]), metric, groups.units[code])
        if share is not None:
            shares.append(share)
            kept |= rows
    if len({share.unit for share in shares}) < 2:
        return None
    if not kept.all():
        view, inside, ranks = view.where(kept), inside[kept], ranks[kept]
    if min(int(np.count_nonzero(inside)), int(np.count_nonzero(~inside))) < least or view.groups is None:
        return None
    between = grouped_dependence(inside, ranks, view.groups.codes)
    total = sum(share.weight for share in shares)
    level, other = (sum(share.weight * value for share, value in zip(shares, levels, strict=True)) / total for levels in (
        [share.inside for share in shares], [share.outside for share in shares]
    ))  # fmt: skip
    low, high = (
        math.sqrt(sum((share.weight / total * (share.inside - share.outside - share.gap[end])) ** 2 for share in shares))
        for end in (0, 1)
    )
    gap = (level - other - low * math.sqrt(between.inflation), level - other + high * math.sqrt(between.inflation))
    whole = combine([share.effect for share in shares], [share.weight for share in shares], between)
    effect = Effect(whole.effect, whole.low, whole.high, _in_two_units(shares, between))
    return Comparison(view, metric, inside, effect, between, level, other, gap, tuple(shares))


def _in_two_units(shares: Sequence[Share], between: Dependence) -> float:
    """The p of "in fewer than two units": the largest that leaving any one unit out gives (partial conjunction; Benjamini and
    Heller 2008). The p of the average would be that of its strongest unit.
    """
    rests = [[share for share in shares if share.unit != unit] for unit in sorted({share.unit for share in shares})]
    return max(combine([share.effect for share in rest], [share.weight for share in rest], between).p for rest in rests)


def _share(outcome: Floats, inside: Bools, own: Dependence, metric: Metric, unit: int) -> Share | None:
    x, y = outcome[inside], outcome[~inside]
    if own.stretches < STRETCHES or not _enough(min(len(x), len(y)), own):
        return None
    effect = _effect(x, y, metric, own)
    if metric.binary:
        level, other, gap = float(x.mean()), float(y.mean()), (effect.low, effect.high)
    else:
        level, other, gap = _medians(x, y, own.inflation)
    return Share(unit, len(x) * len(y) / (len(x) + len(y)), effect, level, other, gap)


def _enough(smaller: int, own: Dependence) -> bool:
    """Whether there are enough observations on the smaller side once their dependence is counted."""
    if own.inflation > 2.0 and own.stretches < STRETCHES:
        return False
    return smaller >= EFFECTIVE_SUPPORT * own.inflation


def _medians(x: Floats, y: Floats, inflation: float) -> tuple[float, float, tuple[float, float]]:
    """Both medians, and the ends of their difference."""
    first, second = _median(x, inflation), _median(y, inflation)
    return first[1], second[1], (first[0] - second[2], first[2] - second[0])


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
    codes = comparison.view.group_codes
    if codes is not None:
        labels = labels * (int(codes.max(initial=0)) + 1) + codes
    weights, effects, variances = [], [], []
    support = 0
    for label in np.unique(labels):
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
    signs = []
    for label in range(TIME_BLOCKS):
        effect = _side_by_side(comparison, labels == label)
        if effect is not None:
            signs.append(sign * effect.effect)
    wrong = sum(one < 0 for one in signs)
    if len(signs) < 2 or wrong > (1 if len(signs) == TIME_BLOCKS else 0):
        return False
    within = held_fixed(comparison, labels)
    return within is not None and sign * within.effect >= sign * comparison.effect.effect / 2


def _side_by_side(comparison: Comparison, rows: Bools) -> Effect | None:
    """The effect among some of the rows, within groups; None where no group has enough of them on either side."""
    view, inside = comparison.view, comparison.inside
    outcome, codes = view.metrics[comparison.metric.name], view.group_codes
    effects, weights = [], []
    for group in [rows] if codes is None else [rows & (codes == code) for code in np.unique(codes)]:
        x, y = outcome[group & inside], outcome[group & ~inside]
        if min(len(x), len(y)) >= BLOCK_SUPPORT:
            effects.append(_effect(x, y, comparison.metric))
            weights.append(len(x) * len(y) / (len(x) + len(y)))
    return combine(effects, weights) if effects else None
