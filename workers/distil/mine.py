"""Subgroup discovery: which conditions single out episodes whose outcome differs.

A **selector** is a condition with the rows it covers; a **subgroup** is up to ``depth`` selectors at once. Its quality is weighted
relative accuracy, WRAcc = (n/N)·(mean inside − mean overall), which for any outcome is the sum over the inside of each row's
deviation from the mean, over N. So all subgroups of one level are two matrix products: how many rows, and how much deviation.

Deviations are whole numbers (doubled mid-ranks for numeric outcomes, so that a heavy tail weighs no more than its rank; counts
for 0/1 outcomes) small enough that float32 sums of them are exact: the ranking of subgroups cannot depend on the machine's
threads or its matrix library, and a rebuild finds what the first run found.

One strong effect would fill any top-k list with its shadows: neighbouring thresholds, correlated proxies, itself and-ed with
noise. :func:`explore` therefore takes one subgroup only (the strongest of the best), removes from the outcome whatever the
features of that subgroup explain (mean by quantile bin), and searches what remains. A refinement is taken only where it improves
on each of its parents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.claims import Condition
from workers.distil.observations import Codes, View
from workers.distil.stats import Bools, Floats, midranks
from workers.metrics import Metric

Ints = npt.NDArray[np.int64]
Sums = npt.NDArray[Any]
"""Whole numbers as float32 or float64, whichever holds them exactly."""

BINS = 8
DISCRETE = 32
"""A number with at most so many values is cut between every two of them: a fee tier is not to be binned."""
NATURAL: dict[str, tuple[float, ...]] = {"hour": tuple(float(hour) for hour in range(1, 24))}
"""Features that people cut in a way of their own."""
MIN_SUPPORT = 20
MIN_SHARE = 0.05
TOP = 20
SHORTLIST = 200
ROUNDS = 5
"""Most effects looked for in one metric at one time."""
EXPLORE_Z = 3.5
"""Weakest standardised difference worth a confirmation: each candidate makes the correction for many tests stricter."""
PARENT_Z = 2.0
RANK_FLOOR = 0.147
"""|Cliff's δ| under this is negligible (Romano et al. 2006)."""
RATE_FLOOR = 0.05
CHUNK = 512


@dataclass(frozen=True, slots=True)
class Selectors:
    """Conditions, the rows that each covers (shape conditions × rows), and their slots: one slot's selectors exclude each other.

    ``dense`` is ``covers`` in floats that hold sums of deviations exactly, ``joint`` how many rows each two cover together: made
    once, used by every search over the same rows. ``depth`` is how many conditions a claim may have; with one, nothing is joint.
    """

    conditions: tuple[Condition, ...]
    covers: Bools
    slots: Ints
    dense: Sums
    joint: Sums
    depth: int = 2

    @classmethod
    def of(cls, conditions: Sequence[Condition], covers: Bools, slots: Sequence[str], depth: int = 2) -> Selectors:
        """Selectors from conditions, what they cover, and the names of their slots."""
        order = {slot: i for i, slot in enumerate(dict.fromkeys(slots))}
        # Sums of at most n²/2 in size are whole numbers that float32 holds exactly up to n = 5,792 rows.
        exact: type[np.floating[Any]] = np.float32 if covers.shape[1] ** 2 < 2**25 else np.float64
        dense: Sums = covers.astype(exact)
        joint: Sums = dense @ dense.T if depth > 1 else dense[:, :0]
        return cls(tuple(conditions), covers, np.array([order[slot] for slot in slots], dtype=np.int64), dense, joint, depth)


@dataclass(frozen=True, slots=True)
class Subgroup:
    """Positions of its selectors in rising order, rows covered, and the sum of their deviations."""

    members: tuple[int, ...]
    n: int
    total: int


def floor(metric: Metric) -> float:
    """The smallest effect that matters, in the unit of the effect (Cliff's δ, or a risk difference)."""
    return RATE_FLOOR if metric.binary else RANK_FLOOR


def min_support(n: int) -> int:
    """Fewest rows on either side of a comparison among ``n``."""
    return max(MIN_SUPPORT, math.ceil(MIN_SHARE * n))


def selectors(view: View, depth: int = 2) -> Selectors:
    """Every single condition worth trying on these rows: quantile cuts of numbers from both sides, each level of a category.

    Cuts of which one side has less than the minimum support are left out.
    """
    least = min_support(len(view))
    conditions: list[Condition] = []
    covers: list[Bools] = []
    slots: list[str] = []
    for feature, column in sorted(view.numbers.items()):
        known = ~np.isnan(column)
        for cut in threshold_cuts(feature, column[known]):
            for op, cover in ((">=", column >= cut), ("<", column < cut)):
                if _supported(cover, known, least):
                    conditions.append(Condition(feature=feature, op=op, value=cut))
                    covers.append(cover)
                    slots.append(feature + op)
    for feature, codes in sorted(view.codes.items()):
        known = codes >= 0
        for code, level in enumerate(view.levels[feature]):
            cover = codes == code
            if level is not False and _supported(cover, known, least):
                conditions.append(Condition(feature=feature, op="==", value=level))
                covers.append(cover)
                slots.append(feature)
    return Selectors.of(conditions, np.array(covers, dtype=np.bool_).reshape(len(covers), len(view)), slots, depth)


def _supported(cover: Bools, known: Bools, least: int) -> bool:
    inside = int(np.count_nonzero(cover))
    return inside >= least and int(np.count_nonzero(known)) - inside >= least


def threshold_cuts(feature: str, values: Floats) -> list[float]:
    """Thresholds: whole hours; between all values where there are few; else quantiles in as few digits as keep the split."""
    if feature in NATURAL:
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        return [cut for cut in NATURAL[feature] if low < cut <= high]
    distinct = np.unique(values)
    if len(distinct) <= DISCRETE:
        return [float(value) for value in distinct[1:]]
    order = np.sort(values)
    return sorted({_short(float(order[len(order) * i // BINS]), order) for i in range(1, BINS)})


def _short(value: float, order: Floats) -> float:
    """The threshold with the fewest digits that moves at most one row in a hundred to the other side.

    >>> _short(0.0123456, np.array([0.001, 0.01, 0.02, 0.03]))
    0.012
    """
    exact = int(np.searchsorted(order, value))
    for digits in (2, 3, 4, 5):
        rounded = float(f"{value:.{digits}g}")
        if abs(int(np.searchsorted(order, rounded)) - exact) <= len(order) // 100:
            return rounded
    return value


def rank_deviations(values: Floats) -> Ints:
    """Doubled mid-ranks less their mean: whole numbers that sum to zero."""
    return midranks(values) - (len(values) + 1)


def outcome_deviations(values: Floats, metric: Metric, groups: Codes | None = None) -> Ints:
    """The deviations by which a metric's outcomes are searched; with groups each is taken within its own, in one scale for all.

    Numbers are ranked in steps of what is material for the metric: values less than a step apart mostly tie. Otherwise a cost that
    rises by a hundredth of a basis point from small to middling sizes would hide the whole points that it rises by at the top.
    """
    if groups is not None:
        found: Ints = np.zeros(len(values), dtype=np.int64)
        for group in np.unique(groups[groups >= 0]):
            rows = groups == group
            own = outcome_deviations(values[rows], metric)
            found[rows] = np.rint(own * (len(values) / len(own))).astype(np.int64)
        return found
    if metric.binary:
        return rate_deviations(values)
    step = max(metric.floor, metric.ratio * abs(float(np.median(values))))
    return rank_deviations(np.floor(values / step) if step > 0 else values)


def rate_deviations(values: Floats) -> Ints:
    """0/1 outcomes less their mean, times n: whole numbers that sum to zero."""
    positives = round(float(values.sum()))
    deviations: Ints = np.where(values > 0.5, len(values) - positives, -positives)
    return deviations


def search(
    found: Selectors,
    deviations: Ints,
    *,
    depth: int = 2,
    top: int = TOP,
    least: int = 1,
    worst: float = 1.0,
    both_directions: bool = True,
) -> list[Subgroup]:
    """The ``top`` subgroups by ``|total|`` (or by ``total``), best first; ties: shallower first, then by position.

    None covers fewer than ``least`` rows or has a total under ``worst``.

    Exhaustive down to ``depth``, except for branches whose optimistic estimate (the sum of only the deviations of one sign;
    Wrobel 1997) cannot reach the list. Quality is ``total / N`` in the deviations' unit.
    """
    dense = found.dense
    weights = deviations.astype(dense.dtype)
    signs = (1, -1) if both_directions else (1,)
    same_slot = found.slots[:, None] == found.slots[None, :]
    best: list[_Ranked] = []
    frontier: Ints = np.zeros((1, 0), dtype=np.int64)
    for level in range(1, depth + 1):
        grown: list[Ints] = []
        for start in range(0, len(frontier), CHUNK):
            nodes = frontier[start : start + CHUNK]
            rows: Sums = found.covers[nodes].all(axis=1).astype(dense.dtype)
            counts: Sums = found.joint[nodes[:, 0]] if level == 2 else rows @ dense.T
            totals: Sums = (rows * weights) @ dense.T
            counts = np.where(_allowed(nodes, same_slot), counts, 0)
            quality = np.where(counts >= least, np.abs(totals) if both_directions else totals, -1)
            best = sorted(best + _ranked(nodes, counts, totals, quality, top, worst))[:top]
            if level < depth:
                bar = -best[-1][0] if len(best) == top else math.nextafter(worst, 0.0)
                reach = np.maximum.reduce([(rows * np.maximum(sign * weights, 0)) @ dense.T for sign in signs])
                parents, children = np.nonzero((counts >= least) & (reach > bar))
                grown.append(np.column_stack((nodes[parents], children)))
        frontier = np.concatenate(grown) if grown else frontier[:0]
    return [Subgroup(tuple(members), int(n), int(total)) for _, _, members, n, total in best]


_Ranked = tuple[float, int, list[int], float, float]
"""(−quality, depth, members, rows, total): sorts as the list is wanted."""


def _ranked(nodes: Ints, counts: Sums, totals: Sums, quality: Sums, top: int, worst: float) -> list[_Ranked]:
    """Those of a level's subgroups that can be among the ``top``: few enough to be made Python objects."""
    good = quality[quality >= worst]
    bar = np.partition(good, good.size - top)[good.size - top] if good.size > top else worst
    rows, columns = np.nonzero(quality >= bar)
    members = np.column_stack((nodes[rows], columns)).tolist()
    depth = nodes.shape[1] + 1
    chosen = (array[rows, columns].tolist() for array in (quality, counts, totals))
    return [(-one, depth, group, n, total) for group, one, n, total in zip(members, *chosen, strict=True)]


def _allowed(nodes: Ints, same_slot: Bools) -> Bools:
    """Which selectors may follow each node: later ones (every set is visited once), of slots not yet used."""
    if not nodes.shape[1]:
        return np.ones((len(nodes), len(same_slot)), dtype=np.bool_)
    later = np.arange(len(same_slot)) > nodes[:, -1:]
    allowed: Bools = later & ~same_slot[nodes].any(axis=1)
    return allowed


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hypothesis from the exploring half: what to confirm, in which direction, and how strong it looked (standardised)."""

    conditions: tuple[Condition, ...]
    direction: int
    strength: float


def explore(view: View, metric: Metric, found: Selectors) -> list[Candidate]:
    """Candidates in one metric, strongest first; ``view`` has the rows where the metric is known, ``found`` their selectors.

    A refinement brings its parents along: if it is not confirmed, they may be.
    """
    least = min_support(len(view))
    if not found.conditions:
        return []
    deviations = outcome_deviations(view.metrics[metric.name], metric, view.group_codes)
    candidates: dict[tuple[Condition, ...], Candidate] = {}
    for _ in range(ROUNDS):
        chosen = _best(found, deviations, least, floor(metric))
        if chosen is None:
            break
        family = [chosen.members, *combinations(chosen.members, 1)] if len(chosen.members) > 1 else [chosen.members]
        for members in family:
            candidate = _candidate(found, deviations, members)
            if members == chosen.members or abs(candidate.strength) >= EXPLORE_Z:
                candidates.setdefault(candidate.conditions, candidate)
        features = sorted({found.conditions[i].feature for i in chosen.members})
        deviations = _unexplained(deviations, strata(view, features))
    return list(candidates.values())[:TOP]


def _candidate(found: Selectors, deviations: Ints, members: tuple[int, ...]) -> Candidate:
    inside = found.covers[list(members)].all(axis=0)
    total = int(deviations[inside].sum())
    conditions = tuple(found.conditions[i] for i in members)
    if len(members) == 1 and conditions[0].op == "<":  # the complement is the same claim: one of them speaks for both
        conditions, total = (conditions[0].model_copy(update={"op": ">="}),), -total
    return Candidate(conditions, 1 if total > 0 else -1, float(strength(total, int(inside.sum()), deviations)))


def _best(found: Selectors, deviations: Ints, least: int, smallest: float) -> Subgroup | None:
    """The strongest of the ``SHORTLIST`` best by WRAcc that is large enough and, if a refinement, better than each of its parents.

    WRAcc finds where something is, but likes coverage: it would say "from 8 to 19" of an effect from 13 to 17. The standardised
    difference is the likelihood ratio of "these and no others", so it says where the effect ends.
    """
    size = len(deviations)
    worst = EXPLORE_Z * math.sqrt(float(np.square(deviations).sum()) * least * (size - least)) / size
    shortlist = search(found, deviations, depth=found.depth, top=SHORTLIST, least=least, worst=max(1.0, worst))
    groups = [group for group in shortlist if size - group.n >= least]
    n, totals = np.array([group.n for group in groups]), np.array([group.total for group in groups])
    strengths = np.abs(strength(totals, n, deviations)) if groups else np.zeros(0)
    # Deviations are in doubled ranks, or in n-ths of a rate: either way this is the effect itself, δ or risk difference.
    effects = np.abs(totals) * (1 / n + 1 / (size - n)) / size
    for i in np.argsort(-strengths, kind="stable").tolist():
        if strengths[i] < EXPLORE_Z:
            break
        group: Subgroup = groups[i]
        if effects[i] < smallest:
            continue
        if len(group.members) == 1 or all(_improves(found, deviations, group, parent) for parent in group.members):
            return group
    return None


def strength(total: Any, n: Any, deviations: Ints) -> Any:
    """The difference between inside and outside in standard errors; for numbers or arrays of them, ``0 < n < N``."""
    size = len(deviations)
    sd = math.sqrt(float(np.square(deviations).sum()) / size)
    return total / (sd * np.sqrt(n * (size - n) / size)) if sd > 0 else total * 0.0


def _improves(found: Selectors, deviations: Ints, group: Subgroup, parent: int) -> bool:
    """Whether, among the parent's rows alone, the refined ones differ from the rest in the subgroup's direction."""
    cover = found.covers[parent]
    n = int(cover.sum())
    rest = n - group.n
    if rest < MIN_SUPPORT // 2:
        return False
    total = int(deviations[cover].sum())
    gap = group.total / group.n - (total - group.total) / rest
    sd = float(deviations[cover].std())
    direction = 1 if group.total > 0 else -1
    return direction * gap > PARENT_Z * sd * math.sqrt(1 / group.n + 1 / rest)


def strata(view: View, features: Sequence[str]) -> Ints:
    """Each row's stratum: the crossed quantile bins (numbers) or levels (categories) of the features; unknown is one of its own.

    Bins are as many as leave about twenty rows each, eight at most for one feature and five for each of two. Rows of different
    groups never share a stratum.
    """
    n = len(view) // (1 if view.groups is None else max(1, len(view.groups.names)))
    bins = min(BINS, n // 20) if len(features) == 1 else min(5, math.isqrt(n // 20))
    labels = np.zeros(len(view), dtype=np.int64)
    for feature in features:
        if feature in view.numbers:
            one = binned(view.numbers[feature], bins)
        elif feature in view.codes:
            one = view.codes[feature].astype(np.int64) + 1
        else:
            continue
        labels = labels * (int(one.max(initial=0)) + 1) + one
    if view.groups is not None:
        labels = labels * (len(view.groups.names) + 1) + view.groups.codes + 1
    return np.unique(labels, return_inverse=True)[1]


def binned(column: Floats, bins: int = BINS) -> Ints:
    """Each value's quantile bin from 0 (at least two bins); NaN has the last one to itself."""
    unknown = np.isnan(column)
    order = np.sort(column[~unknown])
    if not len(order):
        return np.zeros(len(column), dtype=np.int64)
    bins = max(2, bins)
    edges = np.unique([order[len(order) * i // bins] for i in range(1, bins)])
    return np.where(unknown, len(edges) + 1, np.searchsorted(edges, column, "right"))


def _unexplained(deviations: Ints, labels: Ints) -> Ints:
    """Deviations from the mean of one's own stratum, as whole numbers again."""
    means = np.bincount(labels, weights=deviations) / np.maximum(np.bincount(labels), 1)
    rest: Ints = np.rint(deviations - means[labels]).astype(np.int64)
    return rest
