"""The desk: a plain agent with fixed habits, and one that lets the memory move four soft parameters inside hard bounds.

For each parameter in turn the remembering agent asks :func:`gateway.middleware.choice.choose` about the options that the bounds
leave. It does not always do as told: a small share of its choices is drawn evenly from the bounds, because what is never tried
teaches nothing, and a share of its advice is ignored to know what following is worth (:mod:`gateway.middleware.guard`). Both cost
something, and both are in the figures. It learns of an execution when that has happened, never before.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from gateway.loop.effects import ROUTERS
from gateway.loop.events import executions_of, hour_of, record_key
from gateway.loop.market import DELAY_BPS, MOST_PIECES, MOST_WAIT_H, WIDEST_BPS, Choice, Order, Street, gas_bps
from gateway.loop.memory import Memory
from gateway.middleware.choice import Option, choose
from gateway.middleware.guard import Guard, Limits
from schemas.episodes import FeatureCell
from schemas.events import ToolExecution
from schemas.insights import Insight
from schemas.settings import Settings

LEAST_GAIN_BPS = 0.5
"""What a change has to bring, by the insights, to be made."""
FAILURE_BPS = 15.0
"""What the desk reckons a reverted piece to cost besides its gas: the chase after the price, at a wide bound."""
Value = str | float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The hard limits of the soft parameters: an allow-list of routers, and every value that the others may take.

    Nothing that is remembered changes them: advice and exploration choose among what is listed here.

    Raises:
        ValueError: an empty list, or a value beyond what the desk can do at all.
    """

    routers: tuple[str, ...] = ROUTERS
    pieces: tuple[int, ...] = (1, 2, 4)
    wait_h: tuple[int, ...] = (0, 2, 4, 6)
    bound_bps: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0, 80.0)

    def __post_init__(self) -> None:
        """See the class."""
        if not (self.routers and self.pieces and self.wait_h and self.bound_bps):
            raise ValueError("each parameter needs at least one value")
        if not set(self.routers) <= set(ROUTERS):
            raise ValueError(f"unknown router; there are {', '.join(ROUTERS)}")
        if not all(1 <= one <= MOST_PIECES for one in self.pieces) or not all(0 <= one <= MOST_WAIT_H for one in self.wait_h):
            raise ValueError(f"pieces lie in 1 … {MOST_PIECES}, waiting in 0 … {MOST_WAIT_H} h")
        if not all(0.0 < one <= WIDEST_BPS for one in self.bound_bps):
            raise ValueError(f"a slippage bound lies over 0 and up to {WIDEST_BPS:g} bps")

    def allows(self, choice: Choice) -> bool:
        """Whether a choice lies within them."""
        return (
            choice.router in self.routers
            and choice.pieces in self.pieces
            and choice.wait_h in self.wait_h
            and choice.bound_bps in self.bound_bps
        )


@dataclass(frozen=True, slots=True)
class Exploring:
    """The share of each parameter's choices that is drawn evenly from what is not the habit: ``first`` for the ``orders`` that an
    agent starts with, when it knows nothing, ``later`` from then on."""

    first: float = 0.25
    orders: int = 400
    later: float = 0.08


@dataclass(slots=True)
class Result:
    """What both agents paid for the same orders, in basis points an order, and what the remembering one did.

    ``explored`` is the part of the difference, summed over orders, that comes from those in which anything was tried out; ``turns``
    counts the times that a market that misleads turned on the advice.
    """

    kind: str
    seed: int
    plain: list[float] = field(default_factory=list)
    remembering: list[float] = field(default_factory=list)
    explored: float = 0.0
    tried: int = 0
    followed: Counter[str] = field(default_factory=Counter)
    trips: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    alarms: int = 0
    turns: int = 0

    @property
    def difference(self) -> float:
        """What the memory cost an order; negative: what it saved."""
        return _mean(self.remembering) - _mean(self.plain)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class Expected:
    """What orders of a size have come to lately, however they were executed.

    The guards compare surprises instead of costs: sizes differ far more than advice does. The same is taken off a cost whether
    advice was followed or not, so the comparison stays fair.
    """

    RATE = 0.05

    def __init__(self) -> None:
        self._means: dict[int, float] = {}

    def surprise(self, order: Order, cost: float) -> float:
        """By how much an order was dearer than those of its size; then it is one of them."""
        group = round(2.0 * math.log2(order.size_usd / order.depth_usd))
        mean = self._means.setdefault(group, cost)
        self._means[group] = mean + self.RATE * (cost - mean)
        return cost - mean


class Desk:
    """The remembering agent of one market. ``habits`` is what it does without advice, and what the plain agent always does."""

    def __init__(self, street: Street, settings: Settings, bounds: Bounds, exploring: Exploring, limits: Limits) -> None:
        self.bounds = bounds
        self.habits = habits_of(street.seed, bounds)
        self.memory = Memory(settings)
        self.result = Result(street.kind, street.seed)
        self._street = street
        self._exploring = exploring
        self._random = Random(f"{street.seed}:exploring")  # noqa: S311 — reproducible, not secret
        self._values: dict[str, Sequence[Value]] = {
            "pieces": bounds.pieces,
            "router": bounds.routers,
            "bound": bounds.bound_bps,
            "wait": bounds.wait_h,
        }
        self.guards = {name: Guard(limits, Random(f"{street.seed}:guard:{name}")) for name in self._values}  # noqa: S311
        self._executions: list[tuple[float, int, ToolExecution]] = []
        self._outcomes: list[tuple[float, int, dict[str, bool], Order, float]] = []
        self._expected = Expected()
        self._sequence = 0

    def trade(self, order: Order) -> None:
        """Execute an order both ways, and learn what has happened by the time that it came."""
        self._catch_up(order.ts.timestamp())
        choice, taken, advised, tried = self._decide(order)
        if not self.bounds.allows(choice):
            raise AssertionError(f"{choice} lies outside the bounds")
        plain, done = self._street.execute(order, self.habits), self._street.execute(order, choice)
        result = self.result
        result.plain.append(plain.cost_bps)
        result.remembering.append(done.cost_bps)
        result.tried += tried
        result.explored += (done.cost_bps - plain.cost_bps) if tried else 0.0
        result.followed.update(name for name, follows in taken.items() if follows)
        for event in executions_of(self._street, order, choice, done):
            self._sequence += 1
            heapq.heappush(self._executions, (event.ts_executed.timestamp(), self._sequence, event))
        self._sequence += 1
        over = (done.fills[-1].ts.timestamp(), self._sequence, taken, order, done.cost_bps)
        heapq.heappush(self._outcomes, over)
        self._street.plan.seen(order.number, advised, self._default_values())

    def finish(self) -> Result:
        """The result."""
        self.result.trips = Counter({name: guard.trips for name, guard in self.guards.items() if guard.trips})
        self.result.operations = self.memory.operations
        self.result.alarms = self.memory.alarms
        self.result.turns = len(self._street.plan.turns)
        return self.result

    def _catch_up(self, now: float) -> None:
        while self._executions and self._executions[0][0] <= now:
            self.memory.learn(heapq.heappop(self._executions)[2])
        while self._outcomes and self._outcomes[0][0] <= now:
            _, _, taken, order, cost = heapq.heappop(self._outcomes)
            surprise = self._expected.surprise(order, cost)
            for name, follows in taken.items():
                self.guards[name].outcome(follows, surprise)

    def _default_values(self) -> dict[str, Value]:
        habits = self.habits
        return {"pieces": habits.pieces, "router": habits.router, "bound": habits.bound_bps, "wait": habits.wait_h}

    def _decide(self, order: Order) -> tuple[Choice, dict[str, bool], dict[str, Value | None], bool]:
        """The choice; which advice was taken or held back; what is advised and not off; whether anything was tried out."""
        insights = self.memory.recall(record_key())
        chosen = self._default_values()
        taken: dict[str, bool] = {}
        advised: dict[str, Value | None] = {}
        tried = False
        share = self._exploring.first if order.number < self._exploring.orders else self._exploring.later
        for name, values in self._values.items():
            wanted = self._advice(name, values, order, chosen, insights)
            default = chosen[name]
            guard = self.guards[name]
            advised[name] = wanted if wanted != default and guard.on else None
            others = [value for value in values if value != default]
            if others and self._random.random() < share:
                chosen[name] = self._random.choice(others)
                tried = True
            elif wanted != default:
                was_on = guard.on
                follows = guard.follow()
                if was_on:
                    taken[name] = follows
                if follows:
                    chosen[name] = wanted
        choice = Choice(str(chosen["router"]), int(chosen["pieces"]), int(chosen["wait"]), float(chosen["bound"]))
        return choice, taken, advised, tried

    def _advice(
        self, name: str, values: Sequence[Value], order: Order, chosen: Mapping[str, Value], insights: Sequence[Insight]
    ) -> Value:
        """The value that the insights favour, the others being as chosen so far."""
        default = chosen[name]
        options = [self._option(name, value, order, chosen) for value in (default, *(one for one in values if one != default))]
        gas = gas_bps(1.0, order.size_usd)
        pieces = int(chosen["pieces"])
        worth = {"cost_bps": 1.0, "gas_gwei": pieces * gas, "failed": FAILURE_BPS + gas * self._street.gas_now(order)}
        features = self._features(order, chosen)
        best = choose([one for one, _ in options], worth, insights, features, least_gain=LEAST_GAIN_BPS)
        return next(value for one, value in options if one is best.option)

    def _features(self, order: Order, chosen: Mapping[str, Value]) -> dict[str, FeatureCell]:
        """What is known before the decision, as the executions will have it."""
        known: dict[str, FeatureCell] = {
            "volatility": order.volatility,
            "pool_depth_usd": order.depth_usd,
            "queue_depth": order.queue,
            "weekday": float(order.ts.weekday()),
        }
        for name in self._values:
            known |= self._sets(name, chosen[name], order)
        return known

    def _sets(self, name: str, value: Value, order: Order) -> dict[str, FeatureCell]:
        if name == "router":
            return {"router": str(value)}
        if name == "bound":
            return {"tolerance_bps": float(value)}
        if name == "wait":
            return {"hour": hour_of(order.ts + timedelta(hours=float(value)))}
        piece = order.size_usd / float(value)
        return {"size": piece, "size_usd": piece, "size_share": piece / order.depth_usd}

    def _option(self, name: str, value: Value, order: Order, chosen: Mapping[str, Value]) -> tuple[Option, Value]:
        cost = 0.0
        if name == "pieces":
            cost = float(value) * gas_bps(self._street.gas_now(order), order.size_usd)
        elif name == "wait":
            cost = DELAY_BPS * float(value)
        return Option(f"{name}={value}", self._sets(name, value, order), cost), value


def habits_of(seed: int, bounds: Bounds) -> Choice:
    """What a desk does without advice: one piece, at once, a middling bound, and the router that it happens to use."""
    random = Random(f"{seed}:habits")  # noqa: S311
    bound = 40.0 if 40.0 in bounds.bound_bps else bounds.bound_bps[-1]
    return Choice(random.choice(bounds.routers), bounds.pieces[0], bounds.wait_h[0], bound)


def run(
    kind: str,
    seed: int,
    orders: int,
    settings: Settings,
    *,
    bounds: Bounds | None = None,
    exploring: Exploring | None = None,
    limits: Limits | None = None,
) -> Result:
    """One market traded by both agents.

    Raises:
        ValueError: there is no such kind of market.
    """
    street = Street(kind, seed, orders)
    desk = Desk(street, settings, bounds or Bounds(), exploring or Exploring(), limits or Limits())
    for order in street.orders():
        desk.trade(order)
    return desk.finish()


def plain_costs(kind: str, seed: int, orders: int, settings: Settings, bounds: Bounds | None = None) -> list[float]:
    """What the plain agent pays for each order. A market that misleads follows the remembering agent, which so trades beside.

    Raises:
        ValueError: there is no such kind of market.
    """
    bounds = bounds or Bounds()
    if kind == "misleading":
        return run(kind, seed, orders, settings, bounds=bounds).plain
    street, habits = Street(kind, seed, orders), habits_of(seed, bounds)
    return [street.execute(order, habits).cost_bps for order in street.orders()]
