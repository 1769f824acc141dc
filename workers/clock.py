"""Event-time clocks: what time it is in a stream, when all there is are the records themselves.

A key's clock is the **second largest** event time among the distinct events seen in that key. The largest alone would let one
record dated a day ahead make every honest record after it late; the second largest needs two such records to agree. It never
goes back.

``late`` is a record older than the clock by more than the allowed lateness. ``duplicate`` is an id already seen inside that
horizon. Older ids are forgotten, which is safe: a record that old is late whatever its id. So memory is bounded by what happens
within the horizon, and a restored clock gives the same verdicts as one that never stopped.

A partition's clock is the largest of its keys' clocks. It serves one purpose, the **idle rule**: a key that falls silent never
moves its own clock, so its last window would stay open for ever. It closes when the partition's clock has advanced by one window
length *since that key last spoke*. Counting from the key's last record rather than from its event time lets old data, filled in
for a key while the partition is years ahead, still form windows and teach.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: datetime) -> int:
    """A moment as whole Unix milliseconds, rounded down; exact where ``timestamp()`` is a float.

    >>> milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC))
    1000
    """
    return (moment - _EPOCH) // _MILLISECOND


def moment(ms: int) -> datetime:
    """The moment of whole Unix milliseconds.

    >>> moment(1000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    return _EPOCH + ms * _MILLISECOND


class Verdict(StrEnum):
    """What a clock says of a record."""

    FRESH = "fresh"
    DUPLICATE = "duplicate"
    LATE = "late"


class KeyClock:
    """The clock and the recent event ids of one record key. Times are Unix milliseconds of event time.

    >>> clock = KeyClock(lateness_ms=1_000)
    >>> [str(clock.admit(event, ts)) for event, ts in (("a", 0), ("b", 5_000), ("b", 5_000), ("future", 10**9))]
    ['fresh', 'fresh', 'duplicate', 'fresh']
    >>> clock.now_ms, str(clock.admit("c", 5_500)), str(clock.admit("d", 100))
    (5000, 'fresh', 'late')
    """

    __slots__ = ("_by_time", "_first", "_second", "_seen", "lateness_ms")

    def __init__(self, lateness_ms: int) -> None:
        self.lateness_ms = lateness_ms
        self._first: int | None = None
        self._second: int | None = None
        self._seen: set[str] = set()
        self._by_time: list[tuple[int, str]] = []

    @property
    def now_ms(self) -> int | None:
        """The second largest event time seen; None until two distinct events were."""
        return self._second

    @property
    def horizon_ms(self) -> int | None:
        """Event times below this are late; None while the clock has no time. Windows that end here or before are complete."""
        return None if self._second is None else self._second - self.lateness_ms

    def admit(self, event_id: str, ts_ms: int) -> Verdict:
        """Judge a record and remember it. A late record is not remembered and cannot move the clock (it is behind it)."""
        horizon = self.horizon_ms
        if horizon is not None and ts_ms < horizon:
            return Verdict.LATE
        if event_id in self._seen:
            return Verdict.DUPLICATE
        self._seen.add(event_id)
        heappush(self._by_time, (ts_ms, event_id))
        self._advance(ts_ms)
        return Verdict.FRESH

    def _advance(self, ts_ms: int) -> None:
        if self._first is None or ts_ms > self._first:
            self._first, self._second = ts_ms, self._first
        elif self._second is None or ts_ms > self._second:
            self._second = ts_ms
        horizon = self.horizon_ms
        while horizon is not None and self._by_time[0][0] < horizon:
            self._seen.discard(heappop(self._by_time)[1])

    def __len__(self) -> int:
        """How many ids it remembers."""
        return len(self._by_time)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values, the same for the same history."""
        return {
            "lateness_ms": self.lateness_ms,
            "first": self._first,
            "second": self._second,
            "seen": [[ts, event_id] for ts, event_id in sorted(self._by_time)],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> KeyClock:
        """The clock that gave ``plain``. Raises ValueError when it is not one of ours."""
        try:
            clock = cls(int(plain["lateness_ms"]))
            clock._first, clock._second = plain["first"], plain["second"]
            clock._by_time = [(int(ts), str(event_id)) for ts, event_id in plain["seen"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a key clock: {error}") from None
        heapify(clock._by_time)
        clock._seen = {event_id for _, event_id in clock._by_time}
        return clock


class PartitionClock:
    """The largest key clock of a partition, and which keys have fallen silent (the idle rule above).

    >>> clock = PartitionClock()
    >>> clock.observe("quiet", 0); clock.observe("busy", 10); clock.observe("busy", 100)
    >>> clock.idle(window_ms=90), clock.idle(window_ms=90)
    (['quiet'], [])
    """

    __slots__ = ("_marks", "now_ms")

    def __init__(self) -> None:
        self.now_ms: int | None = None
        # In order of each key's last record; the partition's clock never goes back, so the marks are ascending too.
        self._marks: dict[str, int | None] = {}

    def observe(self, key: str, key_now_ms: int | None) -> None:
        """A key has spoken (admitted or not) and its clock now says ``key_now_ms``."""
        if key_now_ms is not None and (self.now_ms is None or key_now_ms > self.now_ms):
            if self.now_ms is None:  # whoever spoke before there was any time counts from now
                self._marks = dict.fromkeys(self._marks, key_now_ms)
            self.now_ms = key_now_ms
        self._marks.pop(key, None)
        self._marks[key] = self.now_ms

    def idle(self, window_ms: int) -> list[str]:
        """Keys since whose last record the partition's clock has moved on by ``window_ms``; each is named once, until it speaks
        again. Ask after every record: the answer must not depend on how records were batched.
        """
        silent = []
        for key, mark in self._marks.items():
            if self.now_ms is None or mark is None or self.now_ms - mark < window_ms:
                break
            silent.append(key)
        for key in silent:
            del self._marks[key]
        return silent

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values; the order of keys matters and is kept."""
        return {"now": self.now_ms, "marks": [[key, mark] for key, mark in self._marks.items()]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> PartitionClock:
        """The clock that gave ``plain``. Raises ValueError when it is not one of ours."""
        clock = cls()
        try:
            clock.now_ms = plain["now"]
            clock._marks = {str(key): mark for key, mark in plain["marks"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a partition clock: {error}") from None
        return clock
