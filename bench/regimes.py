"""How well regimes are told, and what it costs: ``python -m bench.regimes [--runs N]``.

Markets whose regimes are known: a state that lasts a while and then gives way to another, each with its volatility. What the
monitor sees is what a producer would state (``volatility``, which wanders within a regime as well), or prices alone, or what trades
cost. Beside them, markets without regimes. Executions come at irregular times, one in twelve minutes on average.

- *agree*: the share of executions, after the first regime is known, whose regime as raised then is the true one; each of the
  chain's states counts as the true one that it mostly stands for.
- *delay*: executions from a true change until what is raised is right; *missed*: it is not before the next change.
- *flicker*: signals that no true change is near, a thousand executions.
- *states*: how many the chain has at the end, over the runs.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from time import process_time

import numpy as np
import numpy.typing as npt

from gateway.loop.effects import REGIME_ORDERS
from gateway.loop.market import Street
from streams.sources.market.plan import START
from workers.regimes.monitor import Change, RegimeMonitor

Series = npt.NDArray[np.float64]
MINUTE_MS = 60_000
LENGTH = 3_000
GAP_MINUTES = 12.0
DWELL = 120
"""Executions that a regime lasts on average: a day."""
LEVELS = {2: (0.5, 1.5), 3: (0.35, 0.7, 1.8)}
"""Annualised volatility by regime."""
HALF_LIFE_MINUTES, SPREAD = 240.0, 0.25


@dataclass(slots=True)
class Market:
    """What happened: minutes, the true state at each execution, and what was seen."""

    minutes: Series
    states: npt.NDArray[np.int64]
    values: list[dict[str, float]]


def cycle(rng: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
    """States that last ``DWELL`` executions on average, and at least a quarter of it."""
    states: list[int] = []
    state = int(rng.integers(size))
    while len(states) < LENGTH:
        states += [state] * int(DWELL * (0.25 + 0.75 * rng.exponential()))
        state = int((state + rng.integers(1, size)) % size) if size > 1 else 0
    return np.array(states[:LENGTH])


def reverting(rng: np.random.Generator, minutes: Series, spread: float, half_life: float) -> Series:
    """An Ornstein–Uhlenbeck level at irregular times."""
    level = np.empty(len(minutes))
    level[0] = spread * rng.normal()
    for i in range(1, len(minutes)):
        kept = 0.5 ** ((minutes[i] - minutes[i - 1]) / half_life)
        level[i] = level[i - 1] * kept + spread * math.sqrt(1.0 - kept * kept) * rng.normal()
    return level


def market(rng: np.random.Generator, size: int, shows: str, spread: float = SPREAD) -> Market:
    """A market of ``size`` regimes (one: none), seen by way of ``shows``."""
    minutes = np.cumsum(rng.exponential(GAP_MINUTES, LENGTH))
    states = cycle(rng, size)
    levels = np.array(LEVELS.get(size, (0.65,)))[states]
    volatility = levels * np.exp(reverting(rng, minutes, spread, HALF_LIFE_MINUTES))
    if shows == "volatility":
        values = [{"volatility": float(one)} for one in volatility]
    elif shows == "price":
        hours = np.diff(minutes, prepend=0.0) / 60.0
        steps = volatility / math.sqrt(8760.0) * np.sqrt(hours) * rng.normal(size=LENGTH)
        values = [{"price": float(one)} for one in np.cumsum(steps)]
    else:
        noise = 7.0 * volatility / 0.65 * rng.standard_t(3, LENGTH)
        values = [{"cost_bps": float(one)} for one in 20.0 + 20.0 * (volatility / 0.65 - 1.0) + noise]
    return Market(minutes, states, values)


def street(rng: np.random.Generator) -> Market:
    """The closed loop's street that cycles: volatility doubles for five hundred orders, and wanders all the time."""
    orders = list(Street("cycling", int(rng.integers(1_000_000)), LENGTH).orders())
    minutes = np.array([(order.ts - START) / timedelta(minutes=1) for order in orders])
    states = np.array([order.number // REGIME_ORDERS % 2 for order in orders])
    return Market(minutes, states, [{"volatility": order.volatility} for order in orders])


MARKETS: dict[str, Callable[[np.random.Generator], Market]] = {
    "3 regimes, stated volatility": lambda rng: market(rng, 3, "volatility"),
    "2 regimes, stated volatility": lambda rng: market(rng, 2, "volatility"),
    "3 regimes, prices": lambda rng: market(rng, 3, "price"),
    "2 regimes, prices": lambda rng: market(rng, 2, "price"),
    "3 regimes, costs": lambda rng: market(rng, 3, "cost"),
    "2 regimes, costs": lambda rng: market(rng, 2, "cost"),
    "2 regimes, the closed loop's street": street,
    "none, steady volatility, prices": lambda rng: market(rng, 1, "price", spread=0.0),
    "none, steady volatility, costs": lambda rng: market(rng, 1, "cost", spread=0.0),
    "none, volatility wanders": lambda rng: market(rng, 1, "volatility", spread=0.45),
    "none, volatility wanders, prices": lambda rng: market(rng, 1, "price", spread=0.45),
}


@dataclass(slots=True)
class Told:
    """What came of a kind of market, over its runs."""

    agreed: list[float] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    missed: int = 0
    changes: int = 0
    flicker: list[float] = field(default_factory=list)
    states: Counter[int] = field(default_factory=Counter)
    known: list[int] = field(default_factory=list)


def watch(one: Market) -> tuple[list[tuple[int, Change]], RegimeMonitor]:
    """The changes raised, by the number of the execution."""
    monitor = RegimeMonitor()
    raised = []
    for number, values in enumerate(one.values):
        change = monitor.learn_one(round(one.minutes[number] * MINUTE_MS), str(number), values)
        if change is not None:
            raised.append((number, change))
    return raised, monitor


def tell(told: Told, one: Market) -> None:
    """Add a run."""
    raised, monitor = watch(one)
    told.states[len(monitor.model.states) if monitor.model else 1] += 1
    if not raised:
        told.flicker.append(0.0)
        return
    first = raised[0][0]
    told.known.append(first)
    truth = one.states
    said = np.full(len(truth), -1)
    for (start, change), end in zip(raised, [*(number for number, _ in raised[1:]), len(truth)], strict=True):
        names = [state.name for state in change.model.states]
        said[start:end] = 10 * len(names) + names.index(change.regime)
    said[first:] = _as_of(said[first:], truth[first:])
    if truth.max() > 0:
        told.agreed.append(float((said[first:] == truth[first:]).mean()))
    turns = [int(at) for at in np.flatnonzero(np.diff(truth)) + 1 if at > first]
    for at, end in zip(turns, [*turns, len(truth)][1:], strict=True):
        told.changes += 1
        right = np.flatnonzero(said[at:end] == truth[at])
        if len(right):
            told.delays.append(int(right[0]))
        else:
            told.missed += 1
    spurious = sum(not any(0 <= number - at <= DWELL // 4 for at in turns) for number, _ in raised[1:])
    told.flicker.append(1_000.0 * spurious / (len(truth) - first))


def _as_of(said: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Each of the chain's states as the true one that it mostly stands for."""
    found = said.copy()
    for state in np.unique(said):
        found[said == state] = np.bincount(truth[said == state]).argmax()
    return found


def cost(runs: int) -> str:
    """CPU time an execution, and the most that one took."""
    spent: list[float] = []
    for seed in range(runs):
        one = market(np.random.default_rng(seed), 3, "volatility")
        monitor = RegimeMonitor()
        for number, values in enumerate(one.values):
            started = process_time()
            monitor.learn_one(round(one.minutes[number] * MINUTE_MS), str(number), values)
            spent.append(process_time() - started)
    spent.sort()
    filtered = spent[len(spent) // 2]
    return (
        f"{sum(spent) / len(spent) * 1e6:.0f} µs an execution with its share of the fits, {filtered * 1e6:.0f} µs the median; "
        f"99.9 % take under {spent[int(len(spent) * 0.999)] * 1e3:.1f} ms, the longest {spent[-1] * 1e3:.1f} ms (CPU time)"
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.regimes", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="runs of each market (default: 10)")
    parser.add_argument("--first", type=int, default=5_000, help="the first seed; 1,000 and on were used to choose the constants")
    asked = parser.parse_args()
    runs = asked.runs
    print("| market | agree | delay, median | missed | flicker | known after | states |")
    print("|---|---|---|---|---|---|---|")
    for name, make in MARKETS.items():
        told = Told()
        for seed in range(runs):
            tell(told, make(np.random.default_rng(asked.first + seed)))
        agreed = f"{100 * sum(told.agreed) / len(told.agreed):.0f} %" if told.agreed else "–"
        delay = f"{median(told.delays):.0f}" if told.delays else "–"
        missed = f"{told.missed} of {told.changes}"
        states = ", ".join(f"{size}: {count}" for size, count in sorted(told.states.items()))
        known = f"{median(told.known):.0f}" if told.known else "–"
        print(f"| {name} | {agreed} | {delay} | {missed} | {sum(told.flicker) / runs:.1f} | {known} | {states} |", flush=True)
    print(cost(2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
