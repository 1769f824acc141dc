"""What a process holds of each of its stages on the cluster: written by the stage's event loop, read by those who watch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from streams.log import Partition


@dataclass(slots=True)
class Standing:
    """A stage's partitions, None while it has not been given any: before it has joined its group, and during a rebalance.

    ``since_s`` is when that changed last (Unix seconds); ``rebalances`` how often the group gave out its partitions; ``in_hand``
    records taken and not committed yet. A stage that owns its store has all its partitions from the start and is never rebalanced.
    """

    since_s: float
    partitions: frozenset[Partition] | None = None
    rebalances: int = 0
    in_hand: int = 0

    def give(self, partitions: Collection[Partition], now_s: float, *, rebalanced: bool = True) -> None:
        """These partitions are the stage's now; none at all is an answer, too: there are more workers than partitions."""
        self.partitions = frozenset(partitions)
        self.since_s = now_s
        self.rebalances += rebalanced

    def take(self, now_s: float) -> None:
        """They are being given out anew."""
        if self.partitions is not None:
            self.partitions = None
            self.since_s = now_s
