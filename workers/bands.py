"""Named bands: numbers as words, for the sentence that is embedded.

An embedding hardly sees numbers ("0.50 %" against "5.00 %": cosine 0.957), and hardly two trades have the same ones. In bands a
desk's trades repeat, so that each distinct sentence is embedded once. Edges are fixed, never fitted: the same number has the same
name for ever. The exact numbers stay in the episode.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bands:
    """Names for the intervals between ascending edges; an edge belongs to the band above it."""

    edges: tuple[float, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.edges) + 1 or list(self.edges) != sorted(set(self.edges)):
            raise ValueError("bands have ascending edges and one name more than edges")

    def name(self, value: float) -> str:
        """The band's name.

        >>> COST_BPS.name(3.0), COST_BPS.name(5.0), COST_BPS.name(5000.0)
        ('very low', 'low', 'extreme')
        """
        return self.names[self.order(value)]

    def order(self, value: float) -> int:
        """The band's place, from 0: never falls as the value rises."""
        return bisect_right(self.edges, value)


_LEVELS = ("very low", "low", "moderate", "high", "extreme")

COST_BPS = Bands((5.0, 15.0, 40.0, 120.0), _LEVELS)
PNL_BPS = Bands((-100.0, -10.0, 0.0, 10.0, 100.0), ("heavy loss", "loss", "slight loss", "slight gain", "gain", "large gain"))
GAS_GWEI = Bands((40.0, 150.0), ("ordinary gas", "expensive gas", "extreme gas"))
SIZE_USD = Bands((1_000.0, 10_000.0, 50_000.0, 250_000.0), ("tiny", "small", "medium", "large", "very large"))
SIZE_SHARE = Bands((0.0001, 0.001, 0.005, 0.02), ("tiny", "small", "medium", "large", "very large"))
REWARD = Bands((0.0, 0.35, 0.65), ("negative", "low", "middling", "high"))
HOUR = Bands((6.0, 12.0, 18.0), ("night", "morning", "afternoon", "evening"))
"""Quarters of the day in UTC."""
