"""Which of the specification's twelve categories a claim belongs to: by what it is about, then by what it depends on."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.claims import Category
from schemas.events import Action
from workers.metrics import Metric

EMERGENCY_RATE = 0.5
"""Where at least every second execution fails, it is no longer a question of choosing a route."""

_BY_ACTION = {
    Action.REBALANCE: Category.REBALANCE_TIMING,
    Action.DEPOSIT: Category.VAULT_STRATEGY,
    Action.WITHDRAW: Category.VAULT_STRATEGY,
    Action.COLLECT: Category.VAULT_STRATEGY,
}

_BY_FEATURE: tuple[tuple[Category, tuple[str, ...]], ...] = (
    (Category.MEV_PATTERN, ("mev", "sandwich", "mempool", "private", "bundle", "builder")),
    (Category.ROUTE_SELECTION, ("router", "route", "hops", "aggregator", "bridge", "venue")),
    (Category.FEE_OPTIMIZATION, ("fee",)),
    (Category.GAS_TIMING, ("gas", "base_fee", "congestion")),
    (Category.VOLATILITY, ("volatility", "vol_", "sigma", "regime")),
    (Category.LIQUIDITY_DEPTH, ("depth", "liquidity", "size_share", "reserve", "tvl")),
    (Category.POOL_BEHAVIOR, ("pool", "tick", "utilization", "imbalance", "side")),
)


def category(metric: Metric, features: Iterable[str], action: Action, level_inside: float) -> Category:
    """The category of a claim on ``metric`` whose conditions are on ``features``, for a tool that does ``action``.

    ``level_inside`` is the metric's level where the conditions hold. Gas stays gas whatever it depends on: "base_fee" is asked
    before "fee".

    >>> from workers.metrics import METRICS
    >>> str(category(METRICS["cost_bps"], ["size_share"], Action.SWAP, 41.0))
    'liquidity_depth'
    >>> str(category(METRICS["failed"], ["hour"], Action.SWAP, 0.7)), str(category(METRICS["failed"], ["hour"], Action.SWAP, 0.2))
    ('emergency', 'general')
    """
    names = sorted(features)
    by_feature = [found for found in (_of_feature(name) for name in names) if found is not None]
    if Category.MEV_PATTERN in by_feature:
        return Category.MEV_PATTERN
    if metric.binary and metric.worse == "higher" and level_inside >= EMERGENCY_RATE:
        return Category.EMERGENCY
    if action in _BY_ACTION:
        return _BY_ACTION[action]
    if metric.category is Category.GAS_TIMING:
        return Category.GAS_TIMING
    if by_feature:
        return min(by_feature, key=_rank)
    return Category.GENERAL if metric.binary else metric.category


def _of_feature(name: str) -> Category | None:
    if "base_fee" in name or "priority_fee" in name:
        return Category.GAS_TIMING
    return next((found for found, words in _BY_FEATURE if any(word in name for word in words)), None)


def _rank(found: Category) -> int:
    return [one for one, _ in _BY_FEATURE].index(found)
