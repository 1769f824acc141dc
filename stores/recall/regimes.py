"""Of which regime a memory is, and in which one its market is now: looked up in the timelines when somebody asks.

An episode's regime is that of its key at its time. An insight's are those that its key was in while its evidence came about, by
their share of that time; an insight without evidence, or about more than one key, has none. A claim that its own conditions bind to
a regime is of that one, and an episode that was recorded with a regime is of that one as well.

With a filter on a regime an insight passes that was not learned somewhere else altogether: it has a share of at least ``PART`` from
there, or nothing is known of where it is from.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from stores.episodes.filters import Span
from stores.recall.memories import Kind, Memory
from stores.sqlite.regimes import Stretch, Timelines

PART = 0.1
"""The share of an insight's evidence from which on a regime is one of the insight's."""
MAX_SPANS = 256
"""Stretches of time that a search of episodes is narrowed to: the latest ones of the regime."""


class Told(Protocol):
    """Where timelines come from: the insight store."""

    def stretches(self, key: str | None = None) -> tuple[Stretch, ...]:
        """Every stretch of every key."""
        ...

    def signals_read(self) -> int:
        """Rises with every signal."""
        ...


class Regimes:
    """The timelines of a store, read again when signals have come. Safe to share between threads."""

    def __init__(self, store: Told) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read = -1
        self._timelines = Timelines()

    def timelines(self) -> Timelines:
        """The timelines as they are now."""
        with self._lock:
            read = self._store.signals_read()
            if read != self._read:
                self._timelines, self._read = Timelines(self._store.stretches()), read
            return self._timelines


def tagged(memory: Memory, timelines: Timelines, known_by: datetime | None = None) -> Memory:
    """The memory with its regimes: ``regimes`` by share, and ``regime`` where one has more than half."""
    if memory.regimes or (memory.regime is not None and memory.kind is Kind.INSIGHT):
        return memory
    found = shares_of(memory, timelines, known_by)
    if not found:
        return memory
    most = max(found, key=lambda name: (found[name], name))
    return replace(memory, regimes=found, regime=memory.regime or (most if found[most] > 0.5 else None))


def shares_of(memory: Memory, timelines: Timelines, known_by: datetime | None = None) -> dict[str, float]:
    """Regimes by share; none where nothing is known."""
    if memory.kind is Kind.EPISODE:
        stretch = timelines.at(memory.key, memory.simulated, memory.ts, known_by)
        return {} if stretch is None else {stretch.regime: 1.0}
    if memory.since is None or memory.until is None:
        return {}
    return timelines.shares(memory.key, memory.simulated, memory.since, memory.until, known_by)


def fits(memory: Memory, regime: str) -> bool:
    """Whether a tagged memory passes a filter on a regime."""
    if memory.regime == regime or memory.regimes.get(regime, 0.0) >= PART:
        return True
    return memory.kind is Kind.INSIGHT and memory.regime is None and not memory.regimes


def likeness(memory: Memory, present: str) -> float:
    """How much of a tagged memory is of the present regime, 0 … 1."""
    if memory.regime == present and (memory.kind is Kind.EPISODE or not memory.regimes):
        return 1.0
    return memory.regimes.get(present, 0.0)


def present_of(memory: Memory, timelines: Timelines, now: datetime) -> str | None:
    """The regime in which the memory's market is at ``now``, as it was known then."""
    stretch = timelines.at(memory.key, memory.simulated, now, now)
    return None if stretch is None else stretch.regime


def reason(memory: Memory, present: str, worth: float) -> str:
    """Why a memory is preferred, for people."""
    share = f"{100.0 * worth:.0f} % of its evidence is" if memory.kind is Kind.INSIGHT and worth < 1.0 else "it is"
    return f"{present} now, and {share} from {present}"


def spans_of(
    timelines: Timelines, regime: str, narrow: Mapping[str, str | None], *, simulated: bool | None, known_by: datetime | None = None
) -> tuple[Span, ...]:
    """When markets were in a regime, the latest stretches first, at most ``MAX_SPANS``."""
    found = timelines.spans(regime, narrow, simulated=simulated, known_by=known_by)[:MAX_SPANS]
    return tuple(Span(one.key, one.simulated, one.since, one.until) for one in found)
