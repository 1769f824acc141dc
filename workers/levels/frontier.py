"""Event time above the keys: which windows are complete, whatever order their parts arrive in.

Closed windows of the keys come from several partitions, each in its own order, with what each has handed on completely so far (its
watermark). A window above the keys is complete when every partition's watermark has passed its end. A partition that is
``patience_ms`` of event time behind the furthest one is not waited for; one that has said nothing yet counts from the first
watermark that anybody sent.

So for partitions that stay within ``patience_ms`` of each other, what is in a window depends on the records alone:

- a part belongs to the window of its own time, or, when its own partition had passed that already (history that is filled in for
  one key), to the window in which its partition's watermark stood: that one cannot have closed before the part arrived;
- windows close in their order, and parts are sorted inside by (time, id).

Only beyond that does arrival matter: such a part joins the first window that is still open.
"""

from __future__ import annotations

from typing import Any

from workers.windows import Tumbling


class Frontier:
    """The watermarks of ``sources`` partitions.

    >>> frontier = Frontier(2, Tumbling(10), patience_ms=100)
    >>> frontier.advance(0, 25); frontier.advance(1, 5)
    >>> frontier.horizon_ms
    5
    >>> frontier.advance(0, 110)
    >>> frontier.horizon_ms
    110
    """

    __slots__ = ("_furthest", "_marks", "_origin", "_patience_ms", "_windows")

    def __init__(self, sources: int, windows: Tumbling, patience_ms: int) -> None:
        self._marks: list[int | None] = [None] * sources
        self._windows = windows
        self._patience_ms = patience_ms
        self._origin: int | None = None
        self._furthest: int | None = None

    @property
    def horizon_ms(self) -> int | None:
        """Windows that end here or before are complete; None while nobody has sent a watermark."""
        if self._origin is None or self._furthest is None:
            return None
        marks = [self._origin if mark is None else mark for mark in self._marks]
        return min(mark for mark in marks if self._furthest - mark <= self._patience_ms)

    def advance(self, source: int, watermark_ms: int) -> None:
        """A partition has handed on everything up to ``watermark_ms``."""
        mark = self._marks[source]
        self._marks[source] = watermark_ms if mark is None else max(mark, watermark_ms)
        self._origin = watermark_ms if self._origin is None else min(self._origin, watermark_ms)
        self._furthest = watermark_ms if self._furthest is None else max(self._furthest, watermark_ms)

    def window_for(self, start_ms: int, watermark_ms: int | None) -> tuple[int, bool]:
        """The start of the window that a part belongs to, given the watermark it came with; whether it came too late for it."""
        start = self._windows.start_of(start_ms)
        if watermark_ms is not None and self._windows.end_of(start) <= watermark_ms:
            start = self._windows.start_of(watermark_ms)
        horizon = self.horizon_ms
        if horizon is not None and self._windows.end_of(start) <= horizon:
            return self._windows.start_of(horizon), True
        return start, False

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"marks": self._marks, "origin": self._origin, "furthest": self._furthest}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take up what ``to_plain`` gave. Raises ValueError when it is of another number of partitions."""
        marks = [None if mark is None else int(mark) for mark in plain["marks"]]
        if len(marks) != len(self._marks):
            raise ValueError(f"{len(marks)} partitions, not {len(self._marks)}")
        self._marks, self._origin, self._furthest = marks, plain["origin"], plain["furthest"]
