"""Simulated events for tests, made once a process: drawing them anew for every test would be most of the tests' time."""

from __future__ import annotations

from functools import cache

from schemas.events import ToolExecution
from streams.sources.market import Truth, simulate, truth_of


@cache
def market_events(seed: int, events: int, *, effects: bool = True) -> tuple[ToolExecution, ...]:
    """``events`` executions of the simulated desk."""
    return tuple(simulate(seed, events, effects=effects))


@cache
def market_keys(seed: int, events: int, *, effects: bool = True) -> dict[str, list[ToolExecution]]:
    """The same executions by record key."""
    by_key: dict[str, list[ToolExecution]] = {}
    for event in market_events(seed, events, effects=effects):
        by_key.setdefault(event.key, []).append(event)
    return by_key


def market_truth(seed: int, events: int, *, effects: bool = True) -> Truth:
    """The truth about ``market_events`` with the same arguments."""
    return truth_of(seed, events, effects=effects)
