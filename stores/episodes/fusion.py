"""Putting two result lists together, by named recipes. Pure.

A leg is scores by id, greater is better. Scores of different legs have different scales (BM25 has no bound, cosine ends at 1), so a
recipe makes them comparable first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev

Leg = Mapping[str, float]
Recipe = Callable[[Sequence[Leg]], list[tuple[str, float]]]

RRF_K = 60


def zscore_sum(legs: Sequence[Leg]) -> list[tuple[str, float]]:
    """Sum of standard scores, best first; an id that a leg lacks gets that leg's lowest.

    Keeps how much better a hit is than the rest, which ranks throw away.

    >>> zscore_sum([{"a": 9.0, "b": 8.0, "c": 1.0}, {"b": 0.5, "c": 0.1}])[0][0]
    'b'
    """
    standard = [_standard(leg) for leg in legs if leg]
    totals = {one: sum(leg.get(one, min(leg.values())) for leg in standard) for leg in standard for one in leg}
    return _ranked(totals)


def reciprocal_ranks(legs: Sequence[Leg]) -> list[tuple[str, float]]:
    """Reciprocal rank fusion: the sum of 1 / (60 + rank), best first (Cormack, Clarke & Büttcher 2009).

    >>> reciprocal_ranks([{"a": 9.0, "b": 1.0}, {"b": 0.5, "c": 0.1}])[0][0]
    'b'
    """
    totals: dict[str, float] = {}
    for leg in legs:
        for rank, (one, _) in enumerate(_ranked(leg), start=1):
            totals[one] = totals.get(one, 0.0) + 1.0 / (RRF_K + rank)
    return _ranked(totals)


RECIPES: dict[str, Recipe] = {"zscore_sum": zscore_sum, "rrf": reciprocal_ranks}
DEFAULT_RECIPE = "zscore_sum"


def _standard(leg: Leg) -> dict[str, float]:
    mean, spread = fmean(leg.values()), pstdev(leg.values())
    return {one: (score - mean) / spread if spread > 0.0 else 0.0 for one, score in leg.items()}


def _ranked(scores: Leg) -> list[tuple[str, float]]:
    """Best first; equal scores by id, so that the order never depends on how a leg was computed."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
