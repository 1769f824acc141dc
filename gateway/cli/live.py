"""What a running pipeline shows: events, episodes, alarms, operations, and how fast."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from gateway.cli.output import Progress as Line
from schemas.topics import OPERATIONS

if TYPE_CHECKING:
    from streams.embedded.worker import Progress


class Live:
    """Takes the driver's progress and keeps one line up to date on a terminal."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last = self._started
        self._line = Line()
        self.counts: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()

    def take(self, progress: Progress) -> None:
        """Take note of a step; called by one thread at a time."""
        tally = progress.tally
        if progress.stage == "embed":
            self.counts["events"] += tally.received
        elif progress.stage == "episodes":
            self.counts["episodes"] += tally.processed
            self.counts["duplicates"] += tally.duplicates
        elif progress.stage == "signals":
            kinds = Counter(getattr(emission.message, "kind", "") for emission in progress.emissions)
            self.counts["alarms"] += kinds["drift"]
            self.counts["regime_changes"] += kinds["regime"]
        elif progress.stage == "distil":
            said = [emission.message for emission in progress.emissions if emission.topic is OPERATIONS]
            self.operations.update(operation.kind for operation in said)  # type: ignore[attr-defined]
        self.counts["rejected"] += tally.rejected
        self._last = time.monotonic()
        self._line.show(self.line())

    def clear(self) -> None:
        """Take the line away."""
        self._line.clear()

    @property
    def seconds(self) -> float:
        """From the start to the last step."""
        return max(self._last - self._started, 1e-9)

    def line(self) -> str:
        """One line for people."""
        made = ", ".join(f"{count} {kind}" for kind, count in sorted(self.operations.items())) or "none"
        return (
            f"{self.counts['events']} events ({self.counts['events'] / self.seconds:.0f}/s), {self.counts['episodes']} episodes, "
            f"{self.counts['duplicates']} duplicates, {self.counts['rejected']} rejected, {self.counts['alarms']} drift alarms, "
            f"{self.counts['regime_changes']} changes of regime, "
            f"operations: {made}"
        )

    def summary(self) -> dict[str, object]:
        """The same for programs."""
        names = ("events", "episodes", "duplicates", "rejected", "alarms", "regime_changes")
        return {**{name: self.counts[name] for name in names}, "operations": dict(self.operations), "seconds": self.seconds}
