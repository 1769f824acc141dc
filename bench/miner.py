"""What the distiller finds, what it invents and what it costs: ``python -m bench.miner [--tables 40]``.

Four tables, all on made-up data with fixed seeds:

- one look at one key's evidence, by its size: how many of three planted effects are found (a step in cost, a failure rate by
  category, an hour of the day), and the share of claims that are about what was planted;
- the same looks on noise: light, heavy-tailed, autocorrelated: the share of looks with any claim;
- how many episodes after a reversal a fully trusted claim has lost its confidence;
- CPU: one look at 2,000 rows × 12 features × 5 metrics, and the stage on the simulated market, per event.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import process_time

import numpy as np

from bench.planted import _delivery
from schemas.claims import Claim, Condition
from streams.sources.market import simulate
from workers.distil.confirm import Halves, discover
from workers.distil.evidence import compare
from workers.distil.learning import Learning
from workers.distil.observations import Observation, Observations, View
from workers.distil.stage import DistilStage
from workers.distil.stats import alpha_spent
from workers.distil.verdicts import Belief, judge
from workers.metrics import METRICS

Columns = dict[str, np.ndarray]
PLANTED = {("cost_bps", "size_share"), ("failed", "router"), ("gas_gwei", "hour")}
MINED = ("cost_bps", "gas_gwei", "failed", "gas_usd", "pnl_bps")
SIZES = (200, 400, 800, 1600)


def series(rng: np.random.Generator, n: int, persistence: float) -> np.ndarray:
    """A stationary AR(1) of unit variance."""
    shocks, level = rng.normal(size=n) * np.sqrt(1 - persistence**2), rng.normal()
    made = np.empty(n)
    for i, shock in enumerate(shocks):
        made[i] = level = persistence * level + shock
    return made


def table(seed: int, n: int, *, effects: bool, tail: float = 0.8, persistence: float = 0.0) -> View:
    """A key's evidence: 12 features, 5 metrics, one episode in ten minutes."""
    rng = np.random.default_rng(seed)
    hour = (np.arange(n) + rng.random(n)) / 6 % 24
    features: Columns = {f"state_{i}": series(rng, n, persistence) for i in range(7)}
    features |= {
        "hour": hour,
        "size_usd": np.exp(rng.normal(8.5, 1.3, n)),
        "pool_depth_usd": np.exp(14 + 0.4 * series(rng, n, persistence)),
    }
    features["size_share"] = features["size_usd"] / features["pool_depth_usd"]
    router = rng.choice(["alpha", "beta", "gamma"], n)
    cost = 30 + 3 * np.exp(tail * series(rng, n, persistence))
    gas = 20 * np.exp(0.4 * series(rng, n, persistence))
    risk = np.full(n, 0.06)
    if effects:
        cost = cost + 5.0 * (features["size_share"] >= 0.006)
        gas = gas * np.where((hour >= 13) & (hour < 17), 1.8, 1.0)
        risk = np.where(router == "beta", 0.25, risk)
    metrics = {
        "cost_bps": cost, "gas_gwei": gas, "failed": (rng.random(n) < risk).astype(float),
        "gas_usd": gas * 0.3 * np.exp(0.1 * rng.normal(size=n)), "pnl_bps": 20 * rng.standard_t(2, n),
    }  # fmt: skip
    rows = Observations(n)
    for i in range(n):
        cells: dict[str, bool | float | str] = {name: float(column[i]) for name, column in features.items()}
        cells["router"] = str(router[i])
        rows.append(Observation(i * 600_000, f"e{i}", {name: float(column[i]) for name, column in metrics.items()}, cells))
    return rows.view()


def look(view: View, alpha: float) -> set[tuple[str, str]]:
    """(metric, features) of what one look at every metric finds, none said twice."""
    rules, halves = [], Halves()
    for name in MINED:
        rules += [finding.rule for finding in discover(view, METRICS[name], halves, alpha=alpha, believed=tuple(rules))]
    return {(rule.metric, "&".join(rule.features)) for rule in rules}


def power(tables: int) -> Iterator[str]:
    """The first table."""
    yield f"{'episodes':>9} {'recall':>7} {'precision':>10}   of {tables} tables with 3 planted effects"
    for n in SIZES:
        found = [look(table(seed, n, effects=True), alpha_spent(0.02, 3)) for seed in range(tables)]
        hits = sum(len(one & PLANTED) for one in found)
        related = sum(
            any(key[0] == metric and key[1] in features.split("&") for key in PLANTED) for one in found for metric, features in one
        )
        claims = sum(len(one) for one in found)
        yield f"{n:>9} {hits / (3 * tables):>7.2f} {related / max(1, claims):>10.3f}"


def noise(tables: int) -> Iterator[str]:
    """The second table: at the whole of a key's α in one look, which no look ever has."""
    yield f"{'noise':>16} {'looks with a claim':>19}   of {tables} looks of 5 metrics at 800 episodes, q = 0.1"
    for name, tail, persistence in (
        ("light", 0.3, 0.0),
        ("heavy", 1.5, 0.0),
        ("autocorrelated", 0.8, 0.8),
        ("nearly a walk", 0.8, 0.97),
    ):
        wrong = sum(
            bool(look(table(9000 + seed, 800, effects=False, tail=tail, persistence=persistence), 0.02)) for seed in range(tables)
        )
        yield f"{name:>16} {wrong / tables:>19.3f}"


def reversal(seed: int, extra: float) -> int:
    """Episodes from the reversal of a fully trusted claim until its confidence is under a half."""
    rng, rows = np.random.default_rng(seed), Observations(2000)

    def add(sign: int, n: int) -> None:
        for size in np.exp(rng.normal(size=n)):
            cost = 30 + sign * extra * (size >= 1) + float(np.exp(0.5 * rng.normal()))
            rows.append(Observation(rows.total, f"e{rows.total}", {"cost_bps": cost}, {"size": float(size)}))

    add(1, 240)
    claim = Claim(key="k", metric="cost_bps", conditions=(Condition(feature="size", op=">=", value=1.0),), direction="higher")
    first = compare(rows.view(), claim.conditions, METRICS["cost_bps"])
    assert first is not None
    belief, confidence, seen = Belief.new(claim, first.evidence(0.01), rows.total), 1.0, 0
    while confidence >= 0.5 and seen < 5000:
        add(-1, 10)
        seen += 10
        belief, verdict = judge(belief, rows.view(), 2000)
        confidence += {"UPVOTE": 0.1, "DOWNVOTE": -0.15}.get(verdict.kind, 0.0) if verdict else 0.0
    return seen


def timed(work: Callable[[], object], times: int) -> float:
    """Median CPU seconds of one run."""
    taken = []
    for _ in range(times):
        started = process_time()
        work()
        taken.append(process_time() - started)
    return median(taken)


def costs() -> Iterator[str]:
    """The last table."""
    for name, effects in (("nothing", False), ("three effects", True)):
        view = table(1, 2000, effects=effects)
        taken = 1000 * timed(partial(look, view, 0.02), 5)
        yield f"one look at 2,000 rows × 12 features × 5 metrics, {name} in it: {taken:.0f} ms CPU"
    stream = [_delivery(event, offset) for offset, event in enumerate(simulate(1, 20_000))]
    stages: list[DistilStage] = []

    def run() -> None:
        stages.append(DistilStage(Learning()))
        for start in range(0, len(stream), 256):
            stages[-1].handle(stream[start : start + 256])

    yield f"the stage on the simulated market: {1000 * timed(run, 3) / len(stream):.3f} ms CPU an event"
    state = stages[-1].snapshot()
    keys = len({delivery.message.key for delivery in stream})
    yield f"snapshot of {keys} keys: {len(state) / 1e6:.2f} MB, {1000 * timed(stages[-1].snapshot, 5):.0f} ms"
    yield f"restore: {1000 * timed(lambda: DistilStage(Learning()).restore(state), 5):.0f} ms"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=40, help="made-up tables a row (default 40)")
    tables: int = parser.parse_args().tables
    for block in (power(tables), noise(tables)):
        for line in block:
            print(line, flush=True)
        print()
    for extra in (0.5, 1.0, 3.0):
        episodes = median(reversal(seed, extra) for seed in range(9))
        print(f"reversal of an effect of {extra} bps: confidence 1 is under 0.5 after {episodes:.0f} episodes")
    print()
    for line in costs():
        print(line, flush=True)


if __name__ == "__main__":
    main()
