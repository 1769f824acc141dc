"""What a market's regime is told from: one series a record key, chosen from those that its executions carry.

In order of preference:

- ``volatility``, where the producer states it: a level, and volatility's logarithm is near normal;
- ``price_change``: the change of the pool's mid between two executions, in bps per square root of the hours between them. Its
  spread is the volatility, so its states differ in spread;
- ``cost_bps``, what trades cost, where there is no price to see;
- ``gas_gwei`` for what has neither (deposits, withdrawals): the market for block space has regimes too. It has a daily cycle, so
  day and night may be two of them.

Two executions within ``LEAST_GAP_MS`` are one look at the market, and one that is not after the last look is none: the chain goes
forward in time. A last look that is ``FAR_AHEAD_MS`` ahead of the key's clock (``workers/clock.py``) had a wrong date and does not
count any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.events import ToolExecution
from workers.costs import mid_before
from workers.metrics import rounded, workable

LEAST_GAP_MS = 60_000
FAR_AHEAD_MS = 3_600_000
HOUR_MS = 3_600_000.0
BPS = 10_000.0
PRICE = "price"
"""The logarithm of the mid, one direction for a pair: what ``price_change`` is made of."""


@dataclass(frozen=True, slots=True)
class Series:
    """One that can be observed. ``logarithm``: its logarithm is. ``spread``: states differ in spread, not in level."""

    name: str
    logarithm: bool = False
    spread: bool = False

    def observed(self, value: float) -> float | None:
        """What of a value is observed; None where it has no logarithm."""
        if not self.logarithm:
            return rounded(value)
        return rounded(math.log(value)) if value > 0.0 else None

    def typical(self, mean: float, sd: float) -> float:
        """What a state stands for, in the metric's unit, from its mean and sd in the unit of what is observed. States are in this
        order: for a volatility and for changes of the price it is that of the variance."""
        if self.spread:
            return math.hypot(mean, sd)
        return math.exp(min(mean, 700.0)) if self.logarithm else mean


SERIES: dict[str, Series] = {
    one.name: one
    for one in (
        Series("volatility", logarithm=True),
        Series("price_change", spread=True),
        Series("cost_bps"),
        Series("gas_gwei", logarithm=True),
    )
}
"""By name, the preferred first."""


def seen(event: ToolExecution, metrics: Mapping[str, float], features: Mapping[str, bool | float | str]) -> dict[str, float]:
    """What an execution shows of its market: ``price`` and the values of ``SERIES``, as far as they are known and workable."""
    found: dict[str, float] = {}
    for name, value in (
        ("volatility", features.get("volatility")),
        ("cost_bps", metrics.get("cost_bps")),
        ("gas_gwei", metrics.get("gas_gwei")),
        (PRICE, log_price(event)),
    ):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and workable(value):
            found[name] = float(value)
    return found


def log_price(event: ToolExecution) -> float | None:
    """The logarithm of the pair's price before the trade, the same whichever way the trade goes."""
    mid = mid_before(event)
    if mid is None or mid <= 0 or event.token_in is None or event.token_out is None:
        return None
    level = float(mid.ln())
    return level if event.token_in.identity < event.token_out.identity else -level


def price_change(before: float, after: float, gap_ms: int) -> float:
    """The change between two log prices in bps per square root of an hour.

    >>> round(price_change(0.0, 0.001, 900_000), 9)
    20.0
    """
    return BPS * (after - before) / math.sqrt(gap_ms / HOUR_MS)
