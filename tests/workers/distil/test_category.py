"""All twelve categories of the specification can be reached, each from what an event can say."""

from __future__ import annotations

import pytest

from schemas.claims import Category
from schemas.events import Action
from workers.distil.category import category
from workers.levels.words import lesson_category
from workers.metrics import METRICS

REACHED = [
    ("cost_bps", ["hour"], Action.SWAP, 40.0, Category.SLIPPAGE),
    ("gas_gwei", ["hour"], Action.SWAP, 40.0, Category.GAS_TIMING),
    ("cost_bps", ["router"], Action.SWAP, 40.0, Category.ROUTE_SELECTION),
    ("cost_bps", ["pool"], Action.SWAP, 40.0, Category.POOL_BEHAVIOR),
    ("cost_bps", ["mempool"], Action.SWAP, 40.0, Category.MEV_PATTERN),
    ("impact_bps", ["size_share"], Action.SWAP, 40.0, Category.LIQUIDITY_DEPTH),
    ("cost_bps", ["volatility"], Action.SWAP, 40.0, Category.VOLATILITY),
    ("cost_bps", ["fee_pips"], Action.SWAP, 40.0, Category.FEE_OPTIMIZATION),
    ("pnl_bps", ["drift_bps"], Action.REBALANCE, 4.0, Category.REBALANCE_TIMING),
    ("reward", ["hour"], Action.DEPOSIT, 0.4, Category.VAULT_STRATEGY),
    ("failed", ["hour"], Action.SWAP, 0.6, Category.EMERGENCY),
    ("reward", ["mode"], Action.CALL, 0.4, Category.GENERAL),
]


@pytest.mark.parametrize(("metric", "features", "action", "level", "expected"), REACHED, ids=[str(row[-1]) for row in REACHED])
def test_reached(metric: str, features: list[str], action: Action, level: float, expected: Category) -> None:
    assert category(METRICS[metric], features, action, level) is expected


def test_all_twelve() -> None:
    assert {row[-1] for row in REACHED} == set(Category) - {Category.OPERATOR_DIRECTIVE}


def test_failures_alone_reach_theirs_by_rule() -> None:
    told = {lesson_category(kind, rate) for kind, rate in (("slippage", 0.1), ("gas", 0.1), ("liquidity", 0.1), ("nonce", 0.9))}
    assert told == {Category.SLIPPAGE, Category.GAS_TIMING, Category.LIQUIDITY_DEPTH, Category.EMERGENCY}
