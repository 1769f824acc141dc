"""Sums beside an ADWIN window: where the change is, and what the two sides are worth in the metric's own unit.

ADWIN says that its window is not of one piece, not where it breaks: it drops its oldest buckets only until the rest no longer
differs, and what is left can be mostly from before the change. It also knows only what it was fed. So the same exponential
histogram (five buckets a size; a sixth merges the two oldest) is kept here of what was fed and of the raw values, and the change is
placed at the bucket boundary where the two sides differ most for their sizes. Memory grows with the logarithm of the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

from workers.adwin import MAX_BUCKETS, MIN_WINDOW


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a change: the mean of what was fed, the mean raw value, and how many raw values that is over."""

    fed: float
    raw: float
    n: int


class BlockSums:
    """Sums over blocks of equally many raw values, in a window that can be started anew without forgetting the raw total.

    >>> sums = BlockSums()
    >>> for i in range(40): sums.add(float(i >= 32), 10.0 + 5.0 * (i >= 32), values=1)
    >>> before, after = sums.split()
    >>> before.raw, before.n, after.raw, after.n
    (10.0, 32, 15.0, 8)
    """

    __slots__ = ("_earlier", "_rows", "_values")

    def __init__(self) -> None:
        self._rows: list[list[tuple[float, float]]] = [[]]
        """Row i holds (fed, raw) sums over buckets of 2**i blocks, oldest first; larger buckets are older."""
        self._values = 1
        """Raw values a block."""
        self._earlier: tuple[float, int] = (0.0, 0)
        """(sum, number) of raw values from before the window."""

    @property
    def width(self) -> int:
        """Blocks in the window."""
        return sum(len(row) << size for size, row in enumerate(self._rows))

    def add(self, fed: float, raw: float, values: int) -> None:
        """Take one block: the mean that was fed, the sum of its raw values, how many they are (the same all through a window)."""
        self._values = values
        self._rows[0].append((fed, raw))
        size = 0
        while len(self._rows[size]) > MAX_BUCKETS:
            if size + 1 == len(self._rows):
                self._rows.append([])
            (fed_1, raw_1), (fed_2, raw_2) = self._rows[size][:2]
            del self._rows[size][:2]
            self._rows[size + 1].append((fed_1 + fed_2, raw_1 + raw_2))
            size += 1

    def restart(self) -> None:
        """An empty window; what it held counts as from before it."""
        _, raw = self._totals()
        self._earlier = (self._earlier[0] + raw, self._earlier[1] + self.width * self._values)
        self._rows = [[]]

    def split(self) -> tuple[Side, Side]:
        """The sides of the change. Raw values of the first go back to the beginning, what was fed only to the window's.

        The boundary maximises ``|μ0 − μ1| / √(1/n0 + 1/n1)`` over those that leave ``MIN_WINDOW`` blocks on either side. Raises
        ValueError when the window is too short to have one.
        """
        width = self.width
        all_fed, all_raw = self._totals()
        best: tuple[float, float, float, int] | None = None
        fed, raw, blocks = 0.0, 0.0, 0
        for size, row in enumerate(self._rows):
            for bucket_fed, bucket_raw in reversed(row):
                fed, raw, blocks = fed + bucket_fed, raw + bucket_raw, blocks + (1 << size)
                older = width - blocks
                if blocks < MIN_WINDOW or older < MIN_WINDOW:
                    continue
                score = abs(fed / blocks - (all_fed - fed) / older) / sqrt(1.0 / blocks + 1.0 / older)
                if best is None or score > best[0]:
                    best = (score, fed, raw, blocks)
        if best is None:
            raise ValueError(f"{width} blocks have no place for a change")
        _, fed, raw, blocks = best
        older = width - blocks
        before_n = self._earlier[1] + older * self._values
        before = Side((all_fed - fed) / older, (self._earlier[0] + all_raw - raw) / before_n, before_n)
        return before, Side(fed / blocks, raw / (blocks * self._values), blocks * self._values)

    def _totals(self) -> tuple[float, float]:
        return sum(fed for row in self._rows for fed, _ in row), sum(raw for row in self._rows for _, raw in row)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        rows = [[list(bucket) for bucket in row] for row in self._rows]
        return {"rows": rows, "values": self._values, "earlier": list(self._earlier)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> BlockSums:
        """The sums that gave ``plain``. Raises ValueError when they are not ours."""
        sums = cls()
        try:
            sums._rows = [[(float(fed), float(raw)) for fed, raw in row] for row in plain["rows"]]
            sums._values = int(plain["values"])
            total, number = plain["earlier"]
            sums._earlier = (float(total), int(number))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not block sums: {error}") from None
        if not sums._rows:
            raise ValueError("not block sums: no rows")
        return sums
