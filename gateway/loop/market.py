"""A simulated street: orders that come whatever anybody does, and what each way of executing one costs.

Everything that does not depend on a choice is drawn beforehand from the seed: times, sizes, depth, volatility and gas by the
hour, and for each piece of each order its noise, how far the price moves away, and whether a searcher sees it. So what an order
would have cost another way is known exactly, and the same order's two costs differ by nothing but the choice.

The cost of an order in basis points of its size: for each piece the pool's fee, impact, what the router adds, noise, and what a
sandwich takes within the slippage bound; gas for each transaction; and for each hour of waiting ``DELAY_BPS``. A piece whose price
moves away beyond its bound reverts: its gas is lost, ``RETRY_BPS`` with it, and it is sent again with the widest bound. The
risk of the price while waiting is not charged: it is the same either way on average, and would only add noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp
from random import Random

from gateway.loop.effects import Effects, Plan
from streams.sources.market.plan import GAS_BY_HOUR, START, VOLATILITY, WETH, Impact
from streams.sources.market.world import student

MEAN_GAP_S = 600.0
FEE_BPS = 5.0
SLOPE_BPS = 1500.0
NOISE_BPS = 7.0
DEPTH_USD = 9e6
GAS_UNITS = 165_000
GAS_GWEI = 12.0
NATIVE_USD = 3300.0
DELAY_BPS = 0.1
RETRY_BPS = 4.0
MOST_PIECES = 4
MOST_WAIT_H = 6
WIDEST_BPS = 80.0


@dataclass(frozen=True, slots=True)
class Choice:
    """How an order is executed: the soft parameters."""

    router: str
    pieces: int
    wait_h: int
    bound_bps: float


@dataclass(frozen=True, slots=True)
class Order:
    """One order and the market around it. ``noise``, ``away`` and ``seen`` are drawn a piece, each in its own unit scale."""

    number: int
    ts: datetime
    size_usd: float
    depth_usd: float
    volatility: float
    stress: float
    queue: float
    noise: tuple[float, ...]
    away: tuple[float, ...]
    seen: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """One transaction of an order: a piece, or the attempt of one that reverted. Costs are in basis points of the piece."""

    ts: datetime
    size_usd: float
    bound_bps: float
    gas_gwei: float
    cost_bps: float
    reverted: bool = False


@dataclass(frozen=True, slots=True)
class Execution:
    """What an order came to: ``cost_bps`` of its whole size, all included."""

    fills: tuple[Fill, ...]
    cost_bps: float


class Street:
    """One seed's market of ``orders`` orders. ``plan`` holds the effects; everything else is fixed when it is made."""

    def __init__(self, kind: str, seed: int, orders: int) -> None:
        self.kind = kind
        self.seed = seed
        self.plan = Plan(kind, seed, orders)
        self._orders = orders
        hours = int(orders * MEAN_GAP_S / 3600 * 1.5) + 24 * 7
        self._gas = _hourly(seed, "gas", hours, half_life_h=2.0, spread=0.30)
        self._depth = _hourly(seed, "depth", hours, half_life_h=18.0, spread=0.35)
        self._stress = _hourly(seed, "stress", hours, half_life_h=6.0, spread=0.35)

    def orders(self) -> Iterator[Order]:
        """The orders as they come, each with the market's state at its time."""
        times = Random(f"{self.seed}:times")  # noqa: S311 — reproducible, not secret
        now = 0.0
        for number in range(self._orders):
            now += times.expovariate(1.0 / MEAN_GAP_S)
            yield self._order(number, now)

    def _order(self, number: int, now: float) -> Order:
        random = Random(f"{self.seed}:order:{number}")  # noqa: S311
        hour = min(int(now // 3600), len(self._depth) - 1)
        stress = exp(self._stress[hour]) * self.plan.at(number).stress
        return Order(
            number=number,
            ts=START + timedelta(milliseconds=int(now * 1000)),
            size_usd=round(random.lognormvariate(10.1, 0.8), 2),
            depth_usd=DEPTH_USD * exp(self._depth[hour]),
            volatility=VOLATILITY[WETH.identity] * stress,
            stress=stress,
            queue=float(int(random.lognormvariate(2.0, 1.0))),
            noise=tuple(student(random) for _ in range(MOST_PIECES)),
            away=tuple(random.expovariate(1.0) for _ in range(MOST_PIECES)),
            seen=tuple(random.random() for _ in range(MOST_PIECES)),
        )

    def gas_gwei(self, ts: datetime, shift_h: int = 0) -> float:
        """The gas price at a time: a daily rhythm, turned by ``shift_h`` hours, and a persistent deviation."""
        hour = int((ts - START).total_seconds() // 3600)
        return GAS_GWEI * GAS_BY_HOUR[(ts.hour + shift_h) % 24] * exp(self._gas[min(hour, len(self._gas) - 1)])

    def gas_now(self, order: Order) -> float:
        """The gas price when an order comes: what an agent sees before it decides."""
        return self.gas_gwei(order.ts, self.plan.at(order.number).shift_h)

    def execute(self, order: Order, choice: Choice) -> Execution:
        """What an order comes to, executed like this. The same order and choice always come to the same."""
        effects = self.plan.at(order.number)
        ts = order.ts + timedelta(hours=choice.wait_h)
        gwei = self.gas_gwei(ts, effects.shift_h)
        piece_usd = order.size_usd / choice.pieces
        fills: list[Fill] = []
        total = DELAY_BPS * choice.wait_h
        for piece in range(choice.pieces):
            for fill in _fills(order, effects, choice, piece, piece_usd, ts + timedelta(seconds=12 * piece), gwei):
                fills.append(fill)
                share = piece_usd / order.size_usd
                total += share * (fill.cost_bps + gas_bps(gwei, piece_usd) + (RETRY_BPS if fill.reverted else 0.0))
        return Execution(tuple(fills), total)


def _fills(
    order: Order, effects: Effects, choice: Choice, piece: int, piece_usd: float, ts: datetime, gwei: float
) -> Iterator[Fill]:
    """The transactions of one piece: one, or a reverted one and another with the widest bound."""
    bound = choice.bound_bps
    if order.away[piece] * effects.away_bps > bound:
        yield Fill(ts, piece_usd, bound, gwei, 0.0, reverted=True)
        ts, bound = ts + timedelta(seconds=24), WIDEST_BPS
    impact = Impact(slope=SLOPE_BPS, step=effects.step_bps, threshold=effects.threshold)
    cost = FEE_BPS + impact.bps(piece_usd / order.depth_usd) + effects.router_bps[choice.router]
    cost += effects.leak_bps * (choice.pieces - 1) + NOISE_BPS * order.stress * order.noise[piece]
    if order.seen[piece] < effects.sandwiched:
        cost += effects.taken * bound
    yield Fill(ts, piece_usd, bound, gwei, cost)


def gas_bps(gwei: float, size_usd: float) -> float:
    """What one transaction's gas costs, in basis points of a size in USD."""
    return 10_000.0 * GAS_UNITS * gwei * 1e-9 * NATIVE_USD / size_usd


def _hourly(seed: int, name: str, hours: int, *, half_life_h: float, spread: float) -> list[float]:
    """A mean-reverting level at each hour: an AR(1) of standard deviation ``spread``."""
    random = Random(f"{seed}:{name}")  # noqa: S311
    kept = 0.5 ** (1.0 / half_life_h)
    level, levels = random.gauss(0.0, spread), []
    for _ in range(hours):
        levels.append(level)
        level = kept * level + spread * (1.0 - kept * kept) ** 0.5 * random.gauss(0.0, 1.0)
    return levels
