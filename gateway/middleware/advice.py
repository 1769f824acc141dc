"""Advice on soft parameters: numbers from evidence, never from text, and never outside the caller's bounds (law 8).

A soft parameter names the metric that it follows. Of the insights about that metric whose every condition holds for what is known
before the decision, the typical value inside the conditions is taken, weighted by confidence. What does not apply gives no advice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.episodes import FeatureCell
from schemas.insights import Insight


@dataclass(frozen=True, slots=True)
class Soft:
    """A parameter that memory may suggest a value for: the metric that it follows, in its unit, the bounds, and what holds without
    advice. ``margin`` multiplies what was seen: a tolerance has to be wider than the typical value.

    Raises:
        ValueError: bounds that are none, or a default outside them.
    """

    metric: str
    low: float
    high: float
    default: float
    margin: float = 1.0

    def __post_init__(self) -> None:
        """See the class."""
        if not all(map(math.isfinite, (self.low, self.high, self.default, self.margin))) or self.margin <= 0:
            raise ValueError("bounds, default and margin are finite, and the margin is positive")
        if not self.low <= self.default <= self.high:
            raise ValueError(f"the default {self.default} does not lie in {self.low} … {self.high}")


@dataclass(frozen=True, slots=True)
class Advice:
    """A value within the bounds. ``because`` are the insights that it follows; none: it is the default. ``wanted`` is the value
    before clipping."""

    value: float
    wanted: float | None
    because: tuple[str, ...]


def advise(soft: Soft, insights: Iterable[Insight], features: Mapping[str, FeatureCell]) -> Advice:
    """The advice of these insights for what is known before the decision.

    >>> advise(Soft("cost_bps", 5, 50, 20), [], {})
    Advice(value=20, wanted=None, because=())
    """
    known = dict(features)
    weights: list[tuple[float, float, str]] = []
    for insight in insights:
        claim, evidence = insight.claim, insight.evidence
        if claim is None or evidence is None or claim.metric != soft.metric or insight.confidence <= 0:
            continue
        if all(condition.holds(known) for condition in claim.conditions):
            weights.append((float(insight.confidence), evidence.inside, insight.id))
    total = sum(weight for weight, _, _ in weights)
    if not weights:
        return Advice(soft.default, None, ())
    wanted = soft.margin * sum(weight * value for weight, value, _ in weights) / total
    if not math.isfinite(wanted):
        return Advice(soft.default, None, ())
    return Advice(min(soft.high, max(soft.low, wanted)), wanted, tuple(name for _, _, name in weights))
