"""Toy windows of several keys, as the distiller hands them on, with effects that the test plants within pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from schemas.events import Action
from schemas.topics import WINDOWS_CLOSED
from schemas.windows import WindowClosed
from workers.distil.handover import window_closed
from workers.distil.observations import Observation
from workers.stage import Delivery, Position

WINDOW_MS = 4 * 3_600_000
START_MS = 1_767_571_200_000  # 2026-01-05, a window's start
Metrics = dict[str, float]
Features = dict[str, bool | float | str]
Plant = Callable[[int, Features, Metrics, np.random.Generator], str]
"""Changes the metrics of a row in a window of some number; what it returns is the kind of error, if it fails."""


@dataclass(frozen=True)
class Pair:
    """One key: where its costs lie, how often its router is alpha, what is planted, and its partition."""

    key: str
    base: float = 10.0
    alpha: float = 0.5
    plant: Plant = field(default=lambda window, features, metrics, rng: "")
    source: int = 0
    rows: int = 12


def dearer(extra: float = 6.0, since: int = 0, until: int = 10**9) -> Plant:
    """Router alpha costs more."""

    def plant(window: int, features: Features, metrics: Metrics, rng: np.random.Generator) -> str:
        if features["router"] == "alpha" and since <= window < until:
            metrics["cost_bps"] += extra
        return ""

    return plant


def failing(kind: str, rate: float, since: int = 0, until: int = 10**9) -> Plant:
    """Executions fail with a kind of error."""

    def plant(window: int, features: Features, metrics: Metrics, rng: np.random.Generator) -> str:
        if not since <= window < until or rng.random() >= rate:
            return ""
        metrics["failed"] = 1.0
        return kind

    return plant


def records(pairs: Sequence[Pair], windows: int, seed: int = 0) -> list[WindowClosed]:
    """Each pair's windows, in the order in which one process would hand them on."""
    rngs = {pair.key: np.random.default_rng([seed, i]) for i, pair in enumerate(pairs)}
    sent: dict[int, int] = {}
    made = []
    for window in range(windows):
        start = START_MS + window * WINDOW_MS
        for pair in pairs:
            rng = rngs[pair.key]
            rows = [_row(pair, window, start, i, rng) for i in range(pair.rows)]
            sequence = sent.get(pair.source, 0)
            sent[pair.source] = sequence + 1
            emission = window_closed(
                key=pair.key, label=pair.key, action=Action.SWAP, start_ms=start, end_ms=start + WINDOW_MS, source=pair.source,
                sequence=sequence, watermark_ms=start, closing=sorted(rows, key=lambda one: (one.ts_ms, one.id)), cuts={},
            )  # fmt: skip
            assert isinstance(emission.message, WindowClosed)
            made.append(emission.message)
    return made


def _row(pair: Pair, window: int, start: int, i: int, rng: np.random.Generator) -> Observation:
    features: Features = {"router": "alpha" if rng.random() < pair.alpha else "beta", "size_usd": float(np.exp(rng.normal()))}
    metrics: Metrics = {"cost_bps": pair.base + float(np.exp(rng.normal())), "failed": 0.0}
    error = pair.plant(window, features, metrics, rng)
    ts_ms = start + round((i + rng.random()) * WINDOW_MS / pair.rows) % WINDOW_MS
    return Observation(ts_ms, f"{pair.key}#{window}#{i}", metrics, features, error=error)


def deliveries(made: Iterable[WindowClosed]) -> list[Delivery]:
    """Records as the levels stage gets them."""
    return [Delivery(Position(WINDOWS_CLOSED.name, 0, i), one.tool.encode(), one, one.end_ms) for i, one in enumerate(made)]


def interleaved(made: Sequence[WindowClosed], seed: int) -> list[WindowClosed]:
    """Another arrival: each partition in its own order, the partitions in any."""
    queues: dict[int, list[WindowClosed]] = {}
    for one in made:
        queues.setdefault(one.source, []).append(one)
    random = Random(seed)
    mixed = []
    while queues:
        source = random.choice(sorted(queues))
        burst = random.randint(1, 25)
        mixed += queues[source][:burst]
        queues[source] = queues[source][burst:]
        if not queues[source]:
            del queues[source]
    return mixed
