"""Our drift monitor beside river's detectors at their defaults: ``python -m bench.rivals [--runs N] [--seeds 1-4]``.

river's detectors get the values as they are, which is what their defaults suppose: ADWIN (δ = 0.002, looked at every 32 values),
Page–Hinkley (δ = 0.005, λ = 50), KSWIN (α = 0.005, windows of 100 and 30, seeded). Three tables:

- made-up streams of ``bench.drift``: share of null streams with any alarm, and delay and misses after a change;
- the streams of the simulated market's keys: how often the two costs that change halfway are noticed, how late, and how many
  alarms there are where nothing was changed, a stream of the same market;
- four series of the Numenta Anomaly Benchmark, if they are at hand: labelled windows in which there was an alarm, and alarms
  outside of any. The labels are anomalies, not all of them drifts, and their absence is no proof of calm.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from river.drift import ADWIN, KSWIN, PageHinkley

from bench.drift import DATA, MINUTE_MS, NULLS, SHIFTS
from bench.planted import seeds_of
from streams.sources.market import simulate, truth_of
from workers.drift import DriftMonitor
from workers.metrics import WATCHED, watched_values
from workers.reflect import reflect

OURS_DELTA = 0.01
EVENTS = 20_000
CHANGED = "cost_bps"
LEVELS = ("gas_gwei", "pool_depth_usd", "volatility")
Points = Sequence[tuple[int, float]]
"""(Unix milliseconds, value)."""


class _River(Protocol):
    drift_detected: bool

    def update(self, x: float) -> object: ...


def ours(metric: str, points: Points) -> list[int]:
    """Positions of the shipped monitor's alarms."""
    monitor = DriftMonitor(OURS_DELTA)
    return [i for i, (ts_ms, value) in enumerate(points) if monitor.learn_one(ts_ms, "", {metric: value})]


def rivers(make: Callable[[], _River]) -> Callable[[str, Points], list[int]]:
    """Positions of a river detector's alarms."""

    def run(_metric: str, points: Points) -> list[int]:
        detector, alarms = make(), []
        for i, (_, value) in enumerate(points):
            detector.update(value)
            if detector.drift_detected:
                alarms.append(i)
        return alarms

    return run


DETECTORS: dict[str, Callable[[str, Points], list[int]]] = {
    f"shipped, δ {OURS_DELTA}": ours,
    "river ADWIN": rivers(ADWIN),
    "river Page-Hinkley": rivers(PageHinkley),
    "river KSWIN": rivers(lambda: KSWIN(seed=0)),
}


def made_up(runs: int) -> Iterator[str]:
    """The first table."""
    yield _row("no change: any alarm, alarms a stream", list(DETECTORS))
    for name, (metric, rate, make) in NULLS.items():
        cells = []
        for detect in DETECTORS.values():
            counts = [len(detect(metric, _timed(make(np.random.default_rng(run)), rate))) for run in range(runs)]
            cells.append(f"{np.mean([count > 0 for count in counts]):.0%}, {np.mean(counts):.1f}")
        yield _row(name, cells)
    yield _row("a change: delay, missed, alarms before it", list(DETECTORS))
    for name, (metric, rate, at, make) in SHIFTS.items():
        cells = []
        for detect in DETECTORS.values():
            delays, early = [], 0
            for run in range(runs):
                found = detect(metric, _timed(make(np.random.default_rng(run)), rate))
                early += sum(i < at for i in found)
                delays.append(next((i - at for i in found if i >= at), math.inf))
            cells.append(_delay(delays) + f", {early / runs:.1f}")
        yield _row(name, cells)


def _timed(series: np.ndarray, rate: int) -> Points:
    step = 1440 * MINUTE_MS // rate
    return [(i * step, value) for i, value in enumerate(series.tolist())]


def _delay(delays: Sequence[float]) -> str:
    missed = sum(math.isinf(delay) for delay in delays) / len(delays)
    middle = float(np.median(delays))
    return f"{'–' if math.isinf(middle) else f'{middle:.0f}'}, {missed:.0%}"


@dataclass(slots=True)
class _Keys:
    delays: list[float] = field(default_factory=list)
    early: int = 0
    still: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)


def simulated(seeds: Sequence[int]) -> Iterator[str]:
    """The second table."""
    found = {name: _Keys() for name in DETECTORS}
    for seed in seeds:
        truth = truth_of(seed, EVENTS)
        moved = {effect.key for effect in truth.effects if effect.follows and CHANGED in effect.metrics}
        for (key, metric), points in _streams(seed).items():
            at = next((i for i, (ts_ms, _) in enumerate(points) if ts_ms >= truth.change_ts.timestamp() * 1000), len(points))
            for name, detect in DETECTORS.items():
                alarms, told = detect(metric, points), found[name]
                if metric == CHANGED and key in moved:
                    told.early += sum(i < at for i in alarms)
                    told.delays.append(next((i - at for i in alarms if i >= at), math.inf))
                else:
                    (told.levels if metric in LEVELS else told.still).append(len(alarms))
    yield _row(f"simulated market, {len(seeds)} seeds of {EVENTS} events", list(DETECTORS))
    one = next(iter(found.values()))
    yield _row(f"{len(one.delays)} costs that change: delay, missed, early", [
        f"{_delay(told.delays)}, {told.early / max(1, len(told.delays)):.1f}" for told in found.values()
    ])  # fmt: skip
    yield _row(
        f"{len(one.still)} costs, failures unchanged: alarms each", [f"{np.mean(told.still):.2f}" for told in found.values()]
    )
    yield _row(f"{len(one.levels)} gas, depth, volatility: alarms each", [f"{np.mean(told.levels):.2f}" for told in found.values()])


def _streams(seed: int) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Every watched metric of every key of the simulated market."""
    streams: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for event in simulate(seed, EVENTS):
        thought = reflect(event)
        for metric, value in watched_values(thought.metrics, thought.features).items():
            streams.setdefault((event.key, metric), []).append((round(event.ts_executed.timestamp() * 1000), value))
    return streams


def benchmark() -> Iterator[str]:
    """The third table."""
    folder = DATA / "drift"
    if not folder.is_dir():
        yield f"series with labelled anomalies: skipped, there are none at {folder}"
        return
    yield _row("series: windows with an alarm, alarms outside", list(DETECTORS))
    for name, windows in json.loads((folder / "label_windows.json").read_text()).items():
        points = [(_ms(line["timestamp"]), float(line["value"])) for line in csv.DictReader((folder / name).open())]
        spans = [(_ms(first), _ms(last)) for first, last in windows]
        cells = []
        for detect in DETECTORS.values():
            at = [points[i][0] for i in detect(CHANGED, points)]
            hit = sum(any(first <= ts_ms <= last for ts_ms in at) for first, last in spans)
            outside = sum(not any(first <= ts_ms <= last for first, last in spans) for ts_ms in at)
            cells.append(f"{hit} of {len(spans)}, {outside}")
        yield _row(f"{name.removesuffix('.csv')} ({len(points)})", cells)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<48}" + "".join(f"{cell:>22}" for cell in cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="made-up streams a row")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("1-2"), help="of the simulated market")
    given = parser.parse_args(arguments)
    print(f"watched: {', '.join(WATCHED)}; ours splits its δ evenly over them")
    for part in (benchmark(), simulated(given.seeds), made_up(given.runs)):
        for line in part:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
