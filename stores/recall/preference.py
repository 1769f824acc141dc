"""What experience says of a memory beside the question: a port, so that recall knows no ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stores.recall.memories import Memory


@dataclass(frozen=True, slots=True)
class Preferred:
    """A score with experience mixed in, how likely the memory is used (0 … 1), and what that rests on, by name."""

    score: float
    chance: float
    features: Mapping[str, float]


class Preference(Protocol):
    """Something that has learned which memories get used."""

    def prefer(self, scored: Sequence[tuple[Memory, float]], now: datetime) -> Mapping[str, Preferred] | None:
        """New scores by id; None where it has no say at present."""
        ...
