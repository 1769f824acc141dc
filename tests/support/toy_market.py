"""Toy episodes with effects that the test plants: cost by size share, gas by hour, failures by router; or with none at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from schemas.episodes import Episode
from schemas.events import ToolExecution
from schemas.topics import EPISODES_RECORDED
from workers.stage import Delivery, Position

START = datetime(2026, 1, 5, tzinfo=UTC)
MINUTE_MS = 60_000
Metrics = dict[str, float]
Features = dict[str, bool | float | str]
Effect = Callable[[int, Features, Metrics, np.random.Generator], None]


@dataclass(frozen=True)
class Market:
    """A stream of one key's episodes. ``effects`` change metrics in place, given how many episodes came before."""

    effects: tuple[Effect, ...] = ()
    seed: int = 0
    key: str = "swap:1:WBTC/WETH"
    tail: str = "lognormal"
    persistence: float = 0.0
    minutes: float = 10.0
    simulated: bool = False
    noise: dict[str, float] = field(default_factory=dict)

    def episodes(self, n: int) -> Iterator[Episode]:
        """The first ``n`` episodes, in order of time."""
        rng = np.random.default_rng(self.seed)
        slow = [autoregressive(rng, n, self.persistence) for _ in range(5)]
        start_ms = int(START.timestamp() * 1000)
        for i in range(n):
            ts_ms = start_ms + round((i + 0.9 * rng.random()) * self.minutes * MINUTE_MS)
            seconds = ts_ms // 1000 % 86_400
            depth, size = float(np.exp(14 + 0.4 * slow[0][i])), float(np.exp(rng.normal(8.5, 1.3)))
            features: Features = {
                "hour": six(seconds / 3600),
                "weekday": float(datetime.fromtimestamp(ts_ms / 1000, UTC).weekday()),
                "size_usd": six(size),
                "pool_depth_usd": six(depth),
                "size_share": six(size / depth),
                "volatility": six(float(np.exp(-3 + 0.5 * slow[1][i]))),
                "router": str(rng.choice(["alpha", "beta", "gamma"])),
                "stable": bool(rng.random() < 0.4),
            }
            cost = {"lognormal": 3 * np.exp(0.8 * slow[2][i]), "cauchy": abs(np.tan(np.pi * (rng.random() - 0.5)))}[self.tail]
            metrics: Metrics = {
                "cost_bps": 30 + float(cost),
                "gas_gwei": float(20 * np.exp(0.4 * slow[3][i])),
                "failed": float(rng.random() < 0.06),
            }
            for effect in self.effects:
                effect(i, features, metrics, rng)
            yield episode(self.key, i, ts_ms, {name: six(value) for name, value in metrics.items()}, features, self.simulated)


def autoregressive(rng: np.random.Generator, n: int, persistence: float) -> np.ndarray:
    """A stationary AR(1) series of unit variance; white noise at persistence 0."""
    shocks = rng.normal(size=n) * np.sqrt(1 - persistence**2)
    series = np.empty(n)
    level = rng.normal()
    for i, shock in enumerate(shocks):
        level = persistence * level + shock
        series[i] = level
    return series


def six(value: float) -> float:
    """To six significant digits, as real episodes have it."""
    return float(f"{value:.6g}")


def episode(key: str, i: int, ts_ms: int, metrics: Metrics, features: Features, simulated: bool = False) -> Episode:
    """An episode with just these numbers."""
    event = ToolExecution(
        event_id=f"{key}#{i}", tool="swap", action="call", agent_id="agent", status="success", simulated=simulated,
        ts_executed=ts_ms / 1000, pair="WBTC/WETH",
    )  # fmt: skip
    return Episode(
        id=f"{key}#{i}", key=key, label="swap WBTC/WETH on Ethereum", event=event, metrics=metrics, features=features,
        reflection="", sentence="", vector=b"", model="none", importance=0.0,
    )  # fmt: skip


def deliveries(episodes: Iterable[Episode]) -> list[Delivery]:
    """Episodes as a stage gets them."""
    return [
        Delivery(Position(EPISODES_RECORDED.name, 0, i), one.key.encode(), one, round(one.ts.timestamp() * 1000))
        for i, one in enumerate(episodes)
    ]


def dearer_by_share(threshold: float = 0.006, extra: float = 6.0, since: int = 0, until: int = 10**9) -> Effect:
    """Trades that take a large share of the pool cost more."""

    def effect(i: int, features: Features, metrics: Metrics, rng: np.random.Generator) -> None:
        if since <= i < until and float(features["size_share"]) >= threshold:
            metrics["cost_bps"] += extra

    return effect


def gas_by_hour(first: float = 13.0, last: float = 17.0, factor: float = 1.8) -> Effect:
    """Gas is dear in the afternoon."""

    def effect(i: int, features: Features, metrics: Metrics, rng: np.random.Generator) -> None:
        if first <= float(features["hour"]) < last:
            metrics["gas_gwei"] *= factor

    return effect


def failing_router(router: str = "beta", rate: float = 0.3) -> Effect:
    """One router fails more often."""

    def effect(i: int, features: Features, metrics: Metrics, rng: np.random.Generator) -> None:
        if features["router"] == router and rng.random() < rate:
            metrics["failed"] = 1.0

    return effect
