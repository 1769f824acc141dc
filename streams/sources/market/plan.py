"""The simulated desk: what it trades, and every effect planted in it.

The numbers here are the only place where an effect is written down: the simulator draws from them, and the truth file is
derived from them, so neither can say what the other does not do. A pair ``(before, after)`` holds what applies before and after
the regime change halfway; an effect whose two halves are equal does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from schemas.events import Token

START = datetime(2025, 1, 1, tzinfo=UTC)
MEAN_GAP_S = 150.0
"""Mean seconds between two executions of the desk: 20,000 of them take five weeks."""

FLAT_CHAIN, DAILY_CHAIN = 31337, 1337
"""Development chains' ids, so that nobody takes an event for a real one. Gas has a daily rhythm on the second only."""

GAS_GWEI = {FLAT_CHAIN: 18.0, DAILY_CHAIN: 6.0}
GAS_BY_HOUR = (
    0.72, 0.66, 0.62, 0.60, 0.62, 0.68, 0.76, 0.88, 1.00, 1.12, 1.22, 1.32,
    1.44, 1.58, 1.72, 1.80, 1.78, 1.66, 1.50, 1.34, 1.18, 1.04, 0.92, 0.80,
)  # fmt: skip
"""Gas on the daily chain by hour of day (UTC), as a multiple of its level."""

ACTIVITY_BY_HOUR = (
    0.70, 0.65, 0.60, 0.60, 0.65, 0.75, 0.90, 1.00, 1.10, 1.15, 1.15, 1.20,
    1.25, 1.35, 1.40, 1.40, 1.35, 1.25, 1.15, 1.05, 0.95, 0.85, 0.80, 0.75,
)  # fmt: skip
"""How busy the desk is by hour of day (UTC); the mean is 1."""

ROUTERS = ("alpha", "beta", "gamma")
STRATEGIES = ("momentum", "twap", "inventory")
"""Drawn evenly for each execution: a strategy's name has no effect on anything."""

BASE_FAILURE = 0.04
RARE_FAILURE = 0.03
"""Share of deposits, withdrawals and rebalances that meet a pause."""
LARGE_SHARE = 0.003
"""Share of a pool's depth from which an order is large."""


def _token(number: int, symbol: str, decimals: int) -> Token:
    return Token(address=f"0x51{number:038x}", symbol=symbol, decimals=decimals)


USDC, WETH, WBTC, ARB = _token(1, "USDC", 6), _token(2, "WETH", 18), _token(3, "WBTC", 8), _token(4, "ARB", 18)
PRICES = {WETH.identity: 3300.0, WBTC.identity: 94_000.0, ARB.identity: 0.80}
"""USD at the start; USDC is worth one dollar."""
VOLATILITY = {WETH.identity: 0.65, WBTC.identity: 0.50, ARB.identity: 0.95}
"""Annualised, at its long-run level."""


@dataclass(frozen=True, slots=True)
class Impact:
    """Price impact in bps at a share of the pool's depth: a slope, and a step where the next liquidity is thin."""

    slope: float = 0.0
    step: float = 0.0
    threshold: float = 1.0

    def bps(self, share: float) -> float:
        """The impact of taking ``share`` of the depth.

        >>> Impact(slope=50.0).bps(0.002), round(Impact(step=30.0, threshold=0.004).bps(0.008), 1)
        (0.1, 29.9)
        """
        steepness = (share / self.threshold) ** 8
        return self.slope * share + self.step * steepness / (1.0 + steepness)


def _even(keys: tuple[str, ...]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    level = dict.fromkeys(keys, 0.0)
    return level, level


@dataclass(frozen=True, slots=True)
class Book:
    """One record key of the desk and the effects planted in it.

    ``weight`` is its share of the executions. ``router_bps`` adds to the cost of a swap, ``large_router_bps`` to that of a swap
    from ``LARGE_SHARE`` of the depth on; ``volatility_bps`` is added for each multiple of the long-run volatility above one;
    ``failure`` maps the value of ``failure_feature`` to the probability that an execution fails.
    """

    tool: str
    chain: int | None
    tokens: tuple[Token, ...]
    weight: float
    fee_pips: int = 0
    pool: str | None = None
    depth_usd: float = 0.0
    impact: tuple[Impact, Impact] = (Impact(), Impact())
    router_bps: tuple[Mapping[str, float], Mapping[str, float]] = field(default_factory=lambda: _even(ROUTERS))
    large_router_bps: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(ROUTERS, 0.0))
    volatility_bps: float = 0.0
    failure_feature: str = "router"
    failure: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(ROUTERS, BASE_FAILURE))
    pnl_slope: float = 0.0
    reward: Mapping[str, float] = field(default_factory=dict)
    pair: str | None = None


BOOKS: tuple[Book, ...] = (
    Book(
        "swap", FLAT_CHAIN, (WETH, USDC), 0.21, fee_pips=500, pool=f"0x52{1:038x}", depth_usd=9e6,
        impact=(Impact(slope=4000.0), Impact(slope=4000.0)),
        router_bps=({"alpha": 11.0, "beta": 0.0, "gamma": 0.0}, {"alpha": 0.0, "beta": 11.0, "gamma": 11.0}),
    ),
    Book(
        "swap", FLAT_CHAIN, (WBTC, WETH), 0.18, fee_pips=500, pool=f"0x52{2:038x}", depth_usd=9e6,
        impact=(Impact(slope=500.0, step=28.0, threshold=0.0035), Impact(slope=500.0, step=28.0, threshold=0.0012)),
        failure={"alpha": BASE_FAILURE, "beta": BASE_FAILURE, "gamma": 0.17},
    ),
    Book(
        "swap", DAILY_CHAIN, (WETH, USDC), 0.15, fee_pips=3000, pool=f"0x52{3:038x}", depth_usd=6e6,
        impact=(Impact(slope=2500.0), Impact(slope=2500.0)), large_router_bps={"alpha": 0.0, "beta": 22.0, "gamma": 0.0},
    ),
    Book(
        "swap", DAILY_CHAIN, (ARB, USDC), 0.15, fee_pips=3000, pool=f"0x52{4:038x}", depth_usd=8e6,
        impact=(Impact(slope=4000.0), Impact(slope=4000.0)), volatility_bps=20.0,
    ),
    Book("deposit", FLAT_CHAIN, (USDC,), 0.05, pool=f"0x53{1:038x}"),
    Book("withdraw", DAILY_CHAIN, (USDC,), 0.05, pool=f"0x53{2:038x}"),
    Book("rebalance", DAILY_CHAIN, (WETH, USDC), 0.08, pool=f"0x53{3:038x}", pnl_slope=0.22),
    Book(
        "simulate", FLAT_CHAIN, (WBTC, WETH), 0.07,
        failure_feature="slippage_bound_bps", failure={"5": 0.36, "10": 0.26, "25": 0.12, "50": 0.06},
    ),
    Book("research", None, (), 0.06, pair="market-notes", reward={"quick": 0.42, "deep": 0.54, "cached": 0.40}),
)  # fmt: skip
"""Nine keys: two pools with effects that change halfway, two without, five keys of other tools."""


MEMPOOL_BPS = {"public": 9.0, "private": 0.0}
"""Above the keys: what the way to the block adds to the cost of a swap, in every pair."""
PRIORITY_GAS = {"low": 1.0, "high": 1.4}
"""Above the keys: what the priority asked for does to the gas price, in every transaction of every tool."""
EAST_SHARE = {FLAT_CHAIN: 0.15, DAILY_CHAIN: 0.85}
"""A trap: the desk ``east`` trades mostly on the one chain, whose pools cost more, and moves nothing itself."""
BRIDGE_SHARE = 0.03
"""Share of executions that are of a bridge which always fails: a key without a single success."""
MORE_FAILURES = {"research": (0.12, "rpc timeout: no answer"), "deposit": (0.12, "insufficient funds for the transfer")}
"""Tools that fail more often where there are effects above the keys, and what they say then."""


def without_effects(book: Book) -> Book:
    """The same book with nothing planted: costs, gas and failures no longer depend on anything that is known before."""
    level = sum(book.reward.values()) / len(book.reward) if book.reward else 0.0
    return Book(
        book.tool,
        book.chain,
        book.tokens,
        book.weight,
        fee_pips=book.fee_pips,
        pool=book.pool,
        depth_usd=book.depth_usd,
        failure_feature=book.failure_feature,
        failure=dict.fromkeys(book.failure, BASE_FAILURE),
        reward=dict.fromkeys(book.reward, level),
        pair=book.pair,
    )


def books(planted: bool) -> tuple[Book, ...]:
    """The desk's books, with or without what is planted in them."""
    return BOOKS if planted else tuple(without_effects(book) for book in BOOKS)


def change_s(events: int) -> float:
    """Seconds from the start to the regime change: where half of the executions are expected."""
    return events * MEAN_GAP_S / 2
