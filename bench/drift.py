"""What the drift detectors cost in false alarms and in delay: ``python -m bench.drift [--runs N]``.

Every stream is ``cost_bps`` (or ``failed``) of one key, one event each ten minutes unless a row says otherwise. Beside each other:
the monitor as shipped, and what it is measured against — ADWIN on the raw values, and on a fixed squash x/(x+30).
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from workers.adwin import Adwin
from workers.drift import DriftMonitor
from workers.metrics import WATCHED

Series = npt.NDArray[np.float64]
MINUTE_MS = 60_000
LENGTH = 2_000
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> Series:
    """An AR(1) of variance one."""
    noise = rng.normal(size=n) * math.sqrt(1 - phi * phi)
    out = np.empty(n)
    out[0] = rng.normal()
    for i in range(1, n):
        out[i] = phi * out[i - 1] + noise[i]
    return out


def day(rng: np.random.Generator, n: int, rate: int) -> Series:
    """A daily sine of the noise's own size, ``rate`` events a day."""
    return np.asarray(np.sin(np.arange(n) / rate * 2 * math.pi + rng.uniform(0, 6.28)) + rng.normal(size=n))


NULLS: dict[str, tuple[str, int, Callable[[np.random.Generator], Series]]] = {
    "normal": ("cost_bps", 144, lambda rng: 30 + 5 * rng.normal(size=LENGTH)),
    "lognormal, σ 1.5": ("cost_bps", 144, lambda rng: 30 * np.exp(1.5 * rng.normal(size=LENGTH))),
    "AR(1), φ 0.8": ("cost_bps", 144, lambda rng: 30 + 5 * autoregressive(rng, LENGTH, 0.8)),
    "AR(1), φ 0.95": ("cost_bps", 144, lambda rng: 30 + 5 * autoregressive(rng, LENGTH, 0.95)),
    "daily cycle, 50 a day": ("cost_bps", 50, lambda rng: 30 + 5 * day(rng, LENGTH, 50)),
    "daily cycle, 200 a day": ("cost_bps", 200, lambda rng: 30 + 5 * day(rng, LENGTH, 200)),
    "failures, 5 %": ("failed", 144, lambda rng: (rng.random(LENGTH) < 0.05).astype(float)),
    "failures, 50 %": ("failed", 144, lambda rng: (rng.random(LENGTH) < 0.5).astype(float)),
}


def _moved(rng: np.random.Generator, name: str, at: int, by: Callable[[Series], Series]) -> Series:
    series = NULLS[name][2](rng)
    series[at:] = by(series[at:])
    return series


def _rates(rng: np.random.Generator, at: int, before: float, after: float) -> Series:
    return np.asarray(rng.random(LENGTH) < np.where(np.arange(LENGTH) < at, before, after), dtype=float)


SHIFTS: dict[str, tuple[str, int, int, Callable[[np.random.Generator], Series]]] = {
    "normal +1 sd after 100": ("cost_bps", 144, 100, lambda rng: _moved(rng, "normal", 100, lambda x: x + 5)),
    "normal +1 sd after 500": ("cost_bps", 144, 500, lambda rng: _moved(rng, "normal", 500, lambda x: x + 5)),
    "normal +2 sd after 500": ("cost_bps", 144, 500, lambda rng: _moved(rng, "normal", 500, lambda x: x + 10)),
    "lognormal ×2 after 500": ("cost_bps", 144, 500, lambda rng: _moved(rng, "lognormal, σ 1.5", 500, lambda x: x * 2)),
    "AR(1) φ 0.8 +2 sd after 500": ("cost_bps", 144, 500, lambda rng: _moved(rng, "AR(1), φ 0.8", 500, lambda x: x + 10)),
    "failures .7 → .4 after 100": ("failed", 144, 100, lambda rng: _rates(rng, 100, 0.7, 0.4)),
    "failures .7 → .4 after 500": ("failed", 144, 500, lambda rng: _rates(rng, 500, 0.7, 0.4)),
    "failures .02 → .2 after 500": ("failed", 144, 500, lambda rng: _rates(rng, 500, 0.02, 0.2)),
}

Detector = Callable[[str, int, Series], list[int]]


def shipped(delta: float) -> Detector:
    """The monitor; ``delta`` is the key's."""

    def run(metric: str, rate: int, series: Series) -> list[int]:
        monitor, step = DriftMonitor(delta), 1440 * MINUTE_MS // rate
        return [i for i, value in enumerate(series.tolist()) if monitor.learn_one(i * step, "", {metric: value})]

    return run


def plain_adwin(delta: float, squash: Callable[[float], float]) -> Detector:
    """ADWIN with the same share of delta on ``squash(value)``, started anew after an alarm as river does."""

    def run(metric: str, rate: int, series: Series) -> list[int]:
        adwin, alarms = Adwin(delta / len(WATCHED)), []
        for i, value in enumerate(series.tolist()):
            if adwin.update(squash(value)):
                alarms.append(i)
                adwin = Adwin(delta / len(WATCHED))
        return alarms

    return run


def _row(name: str, cells: list[str]) -> str:
    return f"{name:<30}" + "".join(f"{cell:>24}" for cell in cells)


def nulls(detectors: dict[str, Detector], runs: int) -> None:
    """Share of streams with any alarm, and alarms a stream."""
    print(_row(f"no change, {LENGTH} events", list(detectors)))
    for name, (metric, rate, make) in NULLS.items():
        cells = []
        for detect in detectors.values():
            counts = [len(detect(metric, rate, make(np.random.default_rng(run)))) for run in range(runs)]
            cells.append(f"{np.mean([count > 0 for count in counts]):.0%} any, {np.mean(counts):.2f} mean")
        print(_row(name, cells), flush=True)


def shifts(detectors: dict[str, Detector], runs: int) -> None:
    """Median delay in events, share of streams where it was missed, alarms a stream."""
    print("\n" + _row("a change", list(detectors)))
    for name, (metric, rate, at, make) in SHIFTS.items():
        cells = []
        for detect in detectors.values():
            delays, alarms = [], 0
            for run in range(runs):
                found = detect(metric, rate, make(np.random.default_rng(run)))
                alarms += len(found)
                delays.append(next((i - at for i in found if i >= at), math.inf))
            missed = np.mean([math.isinf(delay) for delay in delays])
            cells.append(f"{np.median(delays):.0f}, miss {missed:.0%}, {alarms / runs:.1f} al.")
        print(_row(name, cells), flush=True)


def real() -> None:
    """Alarms on gas prices that nobody made up."""
    mainnet, polygon = DATA / "uniswap_v3" / "wbtc_weth_3000_events.jsonl", DATA / "pool_minutes" / "gas_price.csv"
    if not mainnet.exists():
        print("\nreal gas prices: skipped, no ../shared/data here")
        return
    events = [json.loads(line) for line in mainnet.read_text().splitlines()]
    swaps = [(event["timestamp"] * 1000, event["gasPrice"] / 1e9) for event in events if event["method"] == "SWAP"]
    rows = list(csv.DictReader(polygon.open()))
    minutes = [(i * MINUTE_MS, float(row["gas_price"])) for i, row in enumerate(rows)]
    print()
    for name, series in (("mainnet, 725 swaps", swaps), ("Polygon, each 10 min", minutes[::10]), ("Polygon, each minute", minutes)):
        monitor = DriftMonitor(0.01)
        alarms = [alarm for ts, gas in series for alarm in monitor.learn_one(ts, str(ts), {"gas_gwei": gas})]
        told = ", ".join(f"{alarm.mean_before:g} → {alarm.mean_after:g} gwei" for alarm in alarms)
        print(f"real gas, {name} ({len(series)}): {len(alarms)} alarms {told}")


def speed() -> None:
    """Microseconds an event with four numeric metrics and failures, median of five."""
    rng, took = np.random.default_rng(0), []
    values = rng.lognormal(size=(4_000, 4)).tolist()
    for _ in range(5):
        monitor, start = DriftMonitor(0.01), perf_counter()
        for i, (cost, gas, depth, volatility) in enumerate(values):
            watched = {"cost_bps": cost, "gas_gwei": gas, "pool_depth_usd": depth, "volatility": volatility, "failed": 0.0}
            monitor.learn_one(i * 600_000, "", watched)
        took.append((perf_counter() - start) / len(values) * 1e6)
    print(f"\n{np.median(took):.0f} µs an event with five metrics; a key's state is {len(json.dumps(monitor.to_plain()))} bytes")


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60, help="streams a row")
    runs = parser.parse_args().runs
    detectors = {
        "shipped, δ .002": shipped(0.002),
        "shipped, δ .01": shipped(0.01),
        "shipped, δ .05": shipped(0.05),
        "raw values, δ .01": plain_adwin(0.01, float),
        "x/(x+30), δ .01": plain_adwin(0.01, lambda x: x / (abs(x) + 30)),
    }
    nulls(detectors, runs)
    shifts(detectors, runs)
    real()
    speed()


if __name__ == "__main__":
    main()
