"""Sums beside an ADWIN window: where the change is, and what the two sides are worth in the metric's own unit.

ADWIN keeps its window as an exponential histogram of what it was *fed*. When it finds a cut it drops its oldest buckets one by
one, only until the rest no longer differs: what is left is not "after the change", most of it can be from before. So the place of
the change is found here, at the bucket boundary where the two sides differ most for their sizes.

The histogram follows ADWIN's rule (five buckets a size; a sixth merges the two oldest), so its buckets end where ADWIN's do, and
dropping down to ADWIN's width drops exactly what ADWIN dropped. Memory grows with the logarithm of the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from workers.adwin import MAX_BUCKETS, MIN_WINDOW

Bucket = tuple[float, float]
"""(sum of what was fed, sum of raw values)."""


@dataclass(frozen=True, slots=True)
class Part:
    """The mean of what was fed a block, the mean raw value, and how many raw values."""

    fed: float
    raw: float
    n: int


class BlockSums:
    """Sums over blocks of raw values: everything since the start, and what is still in the window.

    >>> sums = BlockSums()
    >>> for i in range(40): sums.add(float(i >= 32), 10.0 + 5.0 * (i >= 32))
    >>> before, after = sums.split(values_a_block=1)
    >>> before.raw, before.n, after.raw, after.n
    (10.0, 32, 15.0, 8)
    """

    __slots__ = ("_all", "_count", "_rows")

    def __init__(self) -> None:
        self._rows: list[list[Bucket]] = [[]]
        """Row i holds buckets of 2**i blocks, oldest first; larger buckets are older."""
        self._all: Bucket = (0.0, 0.0)
        self._count = 0

    @property
    def width(self) -> int:
        """Blocks in the window."""
        return sum(len(row) << size for size, row in enumerate(self._rows))

    def add(self, fed: float, raw: float) -> None:
        """Take one block."""
        self._all = (self._all[0] + fed, self._all[1] + raw)
        self._count += 1
        self._rows[0].append((fed, raw))
        size = 0
        while len(self._rows[size]) > MAX_BUCKETS:
            if size + 1 == len(self._rows):
                self._rows.append([])
            (fed_1, raw_1), (fed_2, raw_2) = self._rows[size][:2]
            del self._rows[size][:2]
            self._rows[size + 1].append((fed_1 + fed_2, raw_1 + raw_2))
            size += 1

    def keep(self, width: int) -> None:
        """Drop the oldest buckets until ``width`` blocks are left. Raises ValueError when no bucket ends there."""
        left = self.width
        while left > width:
            self._rows[-1].pop(0)
            left -= 1 << (len(self._rows) - 1)
            while len(self._rows) > 1 and not self._rows[-1]:
                self._rows.pop()
        if left != width:
            raise ValueError(f"no bucket ends {width} blocks back")

    def split(self, values_a_block: int) -> tuple[Part, Part]:
        """Before and after the change: everything since the start up to the boundary, and what follows it.

        The boundary maximises ``|μ0 − μ1| / √(1/n0 + 1/n1)`` over those that leave ``MIN_WINDOW`` blocks on either side of the
        window. Raises ValueError when the window is too short to have one.
        """
        width = self.width
        total = sum(bucket[0] for row in self._rows for bucket in row)
        best, best_after = -1.0, (0.0, 0.0, 0)
        fed = raw = 0.0
        blocks = 0
        for size, row in enumerate(self._rows):
            for bucket in reversed(row):
                fed, raw, blocks = fed + bucket[0], raw + bucket[1], blocks + (1 << size)
                older = width - blocks
                if blocks < MIN_WINDOW or older < MIN_WINDOW:
                    continue
                score = abs(fed / blocks - (total - fed) / older) / sqrt(1.0 / blocks + 1.0 / older)
                if score > best:
                    best, best_after = score, (fed, raw, blocks)
        if best < 0.0:
            raise ValueError(f"{width} blocks have no place for a change")
        fed, raw, blocks = best_after
        after = _part(fed, raw, blocks, values_a_block)
        return _part(self._all[0] - fed, self._all[1] - raw, self._count - blocks, values_a_block), after

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"rows": [[list(bucket) for bucket in row] for row in self._rows], "all": list(self._all), "count": self._count}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> BlockSums:
        """The sums that gave ``plain``. Raises ValueError when they are not ours."""
        sums = cls()
        try:
            sums._rows = [[(float(fed), float(raw)) for fed, raw in row] for row in plain["rows"]]
            sums._all = (float(plain["all"][0]), float(plain["all"][1]))
            sums._count = int(plain["count"])
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"not block sums: {error}") from None
        if not sums._rows:
            raise ValueError("not block sums: no rows")
        return sums


def _part(fed: float, raw: float, blocks: int, values_a_block: int) -> Part:
    return Part(fed / blocks, raw / (blocks * values_a_block), blocks * values_a_block)
