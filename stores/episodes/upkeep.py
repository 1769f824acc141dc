"""When a segment is compacted: a policy over counts and a clock that is passed in, no I/O.

Each written batch is a fragment. Fragments cost searches (some 0.2 ms each, and their rows are not in the text index yet),
compaction costs the whole segment (some 60 µs of processor time a row, two thirds of it for the text index), so the two are
balanced:

- from ``FEW`` fragments on, or from two when nothing was written for a while, a segment is compacted if that takes at most a
  twentieth of the time since it was last done;
- at ``MANY`` fragments, or ``ROWS`` rows, it is compacted in any case;
- a segment that takes no more rows is compacted at the first change, within the same twentieth;
- what was compacted is looked at once more when the versions before it may be removed.

In a stream of full batches that is two compactions in the life of a segment: 0.1 ms an episode, whatever the size of the store.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW = 24
MANY = 256
ROWS = 16_384
SHARE = 20
RETRY_S = 30.0
IDLE_S = 2.0


@dataclass(slots=True)
class Upkeep:
    """What one segment has piled up since it was last compacted. Times are seconds of one monotonic clock."""

    fragments: int = 0
    rows: int = 0
    closed: bool = False
    sweep_at: float | None = None
    not_before: float = float("-inf")
    retry_at: float = float("-inf")

    def added(self, rows: int) -> None:
        """A batch was written."""
        self.fragments += 1
        self.rows += rows

    def close(self) -> None:
        """The segment takes no more new rows."""
        self.closed = True
        self.not_before = float("-inf")

    def due(self, now: float, *, idle: bool = False) -> bool:
        """Whether to compact now; ``idle``: nothing was written for ``IDLE_S``."""
        if now < self.retry_at:
            return False
        if self.fragments <= 1 and self.sweep_at is not None and now >= self.sweep_at and (idle or self.closed):
            return True
        if self.fragments >= MANY or self.rows >= ROWS:
            return True
        pressing = self.fragments >= (1 if self.closed else 2 if idle else FEW)
        return pressing and now >= self.not_before

    @property
    def waiting(self) -> bool:
        """Whether it may become due without another write."""
        return self.fragments > 1 or (self.closed and self.fragments > 0) or self.sweep_at is not None

    def done(self, fragments: int, rows: int, started: float, now: float, keep_s: float) -> None:
        """Compacted what there was of ``fragments`` and ``rows`` when it ``started``; batches may have come since."""
        self.fragments -= fragments
        self.rows -= rows
        self.not_before = now + SHARE * (now - started)
        self.sweep_at = now + keep_s if fragments else None

    def failed(self, now: float) -> None:
        """It could not be compacted; not again at once."""
        self.retry_at = now + RETRY_S
