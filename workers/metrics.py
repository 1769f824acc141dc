"""What is measured of an execution: names, units, which way is worse, and how much of a difference matters.

A metric is an outcome. What was known before the decision is a feature; two features are watched for drift as well, because the
specification names them: pool depth and volatility.

``floor`` (in the metric's unit) and ``ratio`` (share of the earlier value) say what is material. Statistics alone would call
30.05 against 30.10 bps a discovery, given enough trades.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from schemas.claims import Category


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``worse`` is the direction that costs; ``binary`` ones are 0 or 1 and compared as rates."""

    name: str
    unit: str
    phrase: str
    worse: Literal["higher", "lower"]
    category: Category
    floor: float
    ratio: float = 0.0
    binary: bool = False

    def material(self, before: float, after: float) -> bool:
        """Whether a move is large enough to matter to anybody.

        >>> METRICS["cost_bps"].material(30.05, 30.10), METRICS["gas_gwei"].material(20.0, 23.0)
        (False, True)
        """
        return abs(after - before) >= max(self.floor, self.ratio * abs(before))


_ALL = (
    Metric("cost_bps", "bps", "total cost against the pre-trade mid", "higher", Category.SLIPPAGE, 0.5),
    Metric("impact_bps", "bps", "price impact", "higher", Category.LIQUIDITY_DEPTH, 0.5),
    Metric("fee_bps", "bps", "pool fee", "higher", Category.FEE_OPTIMIZATION, 0.1),
    Metric("slippage_bps", "bps", "slippage against the quote", "higher", Category.SLIPPAGE, 0.5),
    Metric("shortfall_bps", "bps", "shortfall against the oracle price", "higher", Category.SLIPPAGE, 1.0),
    Metric("gas_native", "native", "gas cost", "higher", Category.GAS_TIMING, 0.0, 0.1),
    Metric("gas_gwei", "gwei", "gas price", "higher", Category.GAS_TIMING, 0.0, 0.1),
    Metric("gas_usd", "USD", "gas cost", "higher", Category.GAS_TIMING, 0.01, 0.1),
    Metric("reward", "reward", "reward", "lower", Category.GENERAL, 0.0, 0.05),
    Metric("pnl_bps", "bps", "profit and loss", "lower", Category.GENERAL, 1.0),
    Metric("failed", "rate", "failure rate", "higher", Category.ROUTE_SELECTION, 0.05, binary=True),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
"""Outcomes, by name: the only things a claim may be about."""

CONDITIONS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("pool_depth_usd", "USD", "pool depth", "lower", Category.LIQUIDITY_DEPTH, 0.0, 0.1),
        Metric("pool_liquidity", "L", "pool liquidity in range", "lower", Category.LIQUIDITY_DEPTH, 0.0, 0.1),
        Metric("volatility", "volatility", "volatility", "higher", Category.VOLATILITY, 0.0, 0.1),
    )
}
"""Features that are watched for drift: never the subject of a claim."""

WATCHED: dict[str, Metric] = {name: METRICS[name] for name in ("cost_bps", "gas_gwei", "failed")} | CONDITIONS
"""What a key has drift detectors for: slippage, gas, pool depth and volatility (the specification's four), and failures."""


SMALLEST, LARGEST = 1e-100, 1e100


def workable(value: float) -> bool:
    """Whether sums, squares and ratios of such numbers stay finite, so that statistics can take it. Others are as good as absent:
    one volatility of 1e308 beside a second makes a mean infinite, and what rests on it nothing that a record can hold.

    >>> [workable(value) for value in (0.0, -30.1, 1e-18, 1e300, 5e-324, math.inf, math.nan)]
    [True, True, True, False, False, False, False]
    """
    return value == 0.0 or SMALLEST <= abs(value) <= LARGEST


def watched_values(metrics: Mapping[str, float], features: Mapping[str, bool | float | str]) -> dict[str, float]:
    """The values of an episode that drift detectors follow.

    >>> watched_values({"cost_bps": 30.1, "fee_bps": 30.0}, {"volatility": 0.8, "router": "alpha"})
    {'cost_bps': 30.1, 'volatility': 0.8}
    """
    values = {}
    for name in WATCHED:
        value = metrics.get(name) if name in METRICS else features.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and workable(value):
            values[name] = float(value)
    return values


def settled(values: Mapping[str, Decimal | None]) -> dict[str, float]:
    """What is known, rounded. What is not known, or is beyond a float (10^255 decimals allow it), is left out: never zero."""
    found = {name: rounded(value) for name, value in values.items() if value is not None}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def rounded(value: float | Decimal) -> float:
    """A number to six significant digits: the precision in which metrics and features are kept, so that replays agree.

    >>> rounded(Decimal("30.0912345678")), rounded(1234567.0), rounded(-0.0)
    (30.0912, 1234570.0, 0.0)
    """
    return float(format(value, ".6g")) + 0.0
