"""From one scored list a source to one list: fusion recipes, by name.

A source (dense, lexical, …) gives scores by id, in its own unit, higher is better. A recipe turns each source's scores into
numbers that can be added and adds them by weight. What a source does not have gets that source's worst. Every recipe's result lies
in 0 … 1, so a boost of 0.15 means the same beside each, and keeps what each source contributed: that is the *why* of a hit.

Which one is the default was measured, see ``docs/recall.md``. Min–max and z-scores stretch whatever a source says over the same
range, so a source that finds everything alike gets as much of a say as one that finds a single match; ranks forget by how much.
Dividing by the best keeps both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Scores = Mapping[str, float]
"""One source's scores, by id."""

RRF_K = 60
"""Cormack, Clarke & Büttcher, "Reciprocal Rank Fusion outperforms Condorcet", 2009."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A fused score in 0 … 1 and what each source contributed to it, 0 … 1 before weighting."""

    score: float
    parts: Mapping[str, float]


Recipe = Callable[[Mapping[str, Scores], Mapping[str, float]], dict[str, Fused]]
"""Sources and their weights (absent: 1) to fused scores by id."""


def rrf(sources: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Fused]:
    """Reciprocal ranks: ``1 / (60 + rank)``, scaled so that the first of every source gets 1. Equal scores share a rank; absent: 0.

    >>> [(key, round(hit.score, 3)) for key, hit in rrf({"dense": {"a": 0.9, "b": 0.1}, "lexical": {"b": 7.0}}, {}).items()]
    [('a', 0.5), ('b', 0.992)]
    """
    return _summed({name: _reciprocal(scores) for name, scores in sources.items()}, weights)


def maxnorm(sources: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Fused]:
    """Each score as a share of its source's best, then the weighted mean: the convex combination with a fixed floor, 0, in place of
    the list's own least (Bruch, Gai & Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", 2023). Absent: 0.

    >>> hits = maxnorm({"dense": {"a": 0.5, "b": 0.4}, "lexical": {"b": 7.0}}, {})
    >>> [(key, hit.score) for key, hit in hits.items()]
    [('a', 0.5), ('b', 0.9)]
    """
    return _summed({name: _ranged(scores, 0.0, _extremes(scores)[1]) for name, scores in sources.items()}, weights)


def convex(sources: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Fused]:
    """Min–max over each source's list, then the weighted mean. Absent: 0, like the last of a list.

    >>> hits = convex({"dense": {"a": 0.9, "b": 0.4, "c": 0.4}, "lexical": {"b": 7.0}}, {})
    >>> [(key, hit.score) for key, hit in hits.items()]
    [('a', 0.5), ('b', 0.5), ('c', 0.0)]
    """
    return _summed({name: _ranged(scores, *_extremes(scores)) for name, scores in sources.items()}, weights)


def dbsf(sources: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Fused]:
    """Distribution-based: like ``convex``, with mean ± 3 deviations as the ends, so that one outlier does not flatten the rest."""
    normalised = {}
    for name, scores in sources.items():
        mean, deviation = _moments(scores)
        normalised[name] = _ranged(scores, mean - 3.0 * deviation, mean + 3.0 * deviation)
    return _summed(normalised, weights)


def zscore(sources: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Fused]:
    """Deviations from each source's mean, added; absent: the least of the source's list, or −1 where all are equal. A logistic
    curve, which keeps the order, brings the sum into 0 … 1."""
    standard: dict[str, Scores] = {}
    for name, scores in sources.items():
        mean, deviation = _moments(scores)
        standard[name] = {key: (score - mean) / deviation if deviation > 0 else 0.0 for key, score in scores.items()}
    worst = {name: min(scores.values(), default=0.0) or -1.0 for name, scores in standard.items()}
    fused = {}
    for key in _keys(sources):
        raw = {name: scores.get(key, worst[name]) for name, scores in standard.items()}
        total = sum(weights.get(name, 1.0) * value for name, value in raw.items())
        fused[key] = Fused(_logistic(total), {name: _logistic(value) for name, value in raw.items()})
    return fused


RECIPES: Mapping[str, Recipe] = {"rrf": rrf, "maxnorm": maxnorm, "convex": convex, "dbsf": dbsf, "zscore": zscore}
"""Every recipe, by name."""

DEFAULT_RECIPE = "maxnorm"
"""The best over both tasks of ``python -m bench.retrieval``."""


def ranked(fused: Mapping[str, Fused]) -> list[tuple[str, Fused]]:
    """Best first; equal ones by id."""
    return sorted(fused.items(), key=lambda hit: (-hit[1].score, hit[0]))


def _summed(normalised: Mapping[str, Scores], weights: Mapping[str, float]) -> dict[str, Fused]:
    total = sum(weights.get(name, 1.0) for name in normalised) or 1.0
    fused = {}
    for key in _keys(normalised):
        parts = {name: scores.get(key, 0.0) for name, scores in normalised.items()}
        fused[key] = Fused(sum(weights.get(name, 1.0) * part for name, part in parts.items()) / total, parts)
    return fused


def _keys(sources: Mapping[str, Scores]) -> list[str]:
    return list(dict.fromkeys(key for scores in sources.values() for key in scores))


def _reciprocal(scores: Scores) -> dict[str, float]:
    ranks = {score: rank for rank, score in enumerate(sorted(set(scores.values()), reverse=True), start=1)}
    return {key: (RRF_K + 1.0) / (RRF_K + ranks[score]) for key, score in scores.items()}


def _ranged(scores: Scores, low: float, high: float) -> dict[str, float]:
    """Scores as shares of the way from ``low`` to ``high``; all the same where that is no way at all."""
    if high <= low:
        return dict.fromkeys(scores, 1.0 if high > 0.0 else 0.0)
    return {key: min(1.0, max(0.0, (score - low) / (high - low))) for key, score in scores.items()}


def _extremes(scores: Scores) -> tuple[float, float]:
    return (min(scores.values()), max(scores.values())) if scores else (0.0, 0.0)


def _moments(scores: Scores) -> tuple[float, float]:
    if not scores:
        return 0.0, 0.0
    mean = sum(scores.values()) / len(scores)
    return mean, math.sqrt(sum((score - mean) ** 2 for score in scores.values()) / len(scores))


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(max(value, -60.0), 60.0)))
