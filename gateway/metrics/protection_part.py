"""Metrics of what protects: how portfolios stand, and the circuits around calls to the outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gateway.breaking import Breaker
from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from gateway.protection import breakers_view
from schemas.portfolio import BreakerState
from stores.sqlite.connection import Connection, open_connection
from stores.sqlite.standings import standings
from workers.breakers.call import Phase

OUTCOMES = ("ok", "failed", "timeout", "refused", "abandoned")


class PortfoliosPart:
    """How many portfolios stand how, and the deepest fall. Which ones they are is no label: `breakers status` says it."""

    name = "portfolios"

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._connection: Connection | None = None

    def samples(self) -> Iterator[Sample]:
        """Read the store."""
        if self._connection is None:
            self._connection = open_connection(self._path, readonly=True)
        shown = breakers_view(standings(self._connection), datetime.fromtimestamp(self._clock(), UTC))
        real = [one for one in shown.portfolios if not one.simulated]
        for state in BreakerState:
            for sight, blind in (("seen", False), ("blind", True)):
                count = sum(one.state is state and one.blind is blind for one in real)
                yield Sample(catalogue.PORTFOLIOS, (state.value, sight), count)
        yield Sample(catalogue.DRAWDOWN, (), max((one.drawdown_bps for one in real), default=0) / 10_000)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()


class CircuitsPart:
    """The circuits of this process."""

    name = "circuits"

    def __init__(self, breakers: Sequence[Breaker]) -> None:
        self._breakers = tuple(breakers)

    def samples(self) -> Iterator[Sample]:
        """How each stands, and how its calls ended."""
        for breaker in self._breakers:
            seen = breaker.seen()
            for phase in Phase:
                yield Sample(catalogue.CIRCUIT, (seen.name, phase.value), float(seen.phase is phase))
            for outcome in OUTCOMES:
                yield Sample(catalogue.CIRCUIT_CALLS, (seen.name, outcome), seen.counted.get(outcome, 0))
