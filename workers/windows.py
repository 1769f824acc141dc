"""Tumbling windows of event time, as values.

A window is its start: ``[start, start + length)``, aligned to the Unix epoch, so that every key and every run cuts at the same
moments. A window may close when no admissible record can still fall into it, that is when its end is at or before the key clock's
horizon (clock − lateness), or when the idle rule of ``workers/clock.py`` says that its key has fallen silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one length. Times are Unix milliseconds.

    >>> windows = Tumbling.of_hours(4)
    >>> windows.start_of(5 * HOUR_MS) == 4 * HOUR_MS, windows.end_of(4 * HOUR_MS) == 8 * HOUR_MS
    (True, True)
    """

    length_ms: int

    def __post_init__(self) -> None:
        if self.length_ms <= 0:
            raise ValueError("a window is longer than nothing")

    @classmethod
    def of_hours(cls, hours: float) -> Tumbling:
        """Windows of so many hours, to the millisecond."""
        return cls(round(hours * HOUR_MS))

    def start_of(self, ts_ms: int) -> int:
        """The start of the window that holds a moment; right for moments before 1970 too."""
        return ts_ms - ts_ms % self.length_ms

    def end_of(self, start_ms: int) -> int:
        """The first moment after the window."""
        return start_ms + self.length_ms

    def closable(self, starts: Iterable[int], horizon_ms: int | None) -> list[int]:
        """Which of the open windows no admissible record can fall into any more, oldest first.

        ``horizon_ms`` is ``KeyClock.horizon_ms``; while it is None nothing closes.
        """
        if horizon_ms is None:
            return []
        return sorted(start for start in starts if self.end_of(start) <= horizon_ms)
