"""Reflection: what one execution taught, worked out from its own numbers. Deterministic, no model, no clock.

Importance is the specification's retention formula at birth, when nothing has been recalled yet: ``min(1, |P&L bps| / 500)``, with
the producer's P&L where there is one and else the trade's own cost. A failure has neither; what it lost is its gas, in basis points
of the trade where both are known. It never counts for less than ``FAILURE_FLOOR``, the line under which the specification lets
things drop out of context: a desk that forgets its failures repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.events import Status, ToolExecution
from workers.costs import measure
from workers.features import Feature, features_of
from workers.metrics import rounded
from workers.wording import reflection, sentence

FULL_IMPORTANCE_BPS = 500.0
FAILURE_FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Reflection:
    """An episode's own part: outcomes, what was known before, the exact account, the sentence to embed, 0–1 importance."""

    metrics: dict[str, float]
    features: dict[str, Feature]
    text: str
    sentence: str
    importance: float


def reflect(event: ToolExecution) -> Reflection:
    """Work an execution out. The same event always gives the same reflection."""
    label, metrics, features = event.pair_label, measure(event), features_of(event)
    return Reflection(
        metrics=metrics,
        features=features,
        text=reflection(event, label, metrics, features),
        sentence=sentence(event, label, metrics, features),
        importance=importance(event.status, metrics, features),
    )


def importance(status: Status, metrics: Mapping[str, float], features: Mapping[str, Feature]) -> float:
    """How much an execution matters, 0–1, to six significant digits.

    >>> importance(Status.SUCCESS, {"cost_bps": 30.0}, {}), importance(Status.REVERTED, {}, {})
    (0.06, 0.1)
    """
    if status not in (Status.SUCCESS, Status.PENDING):
        gas, size = metrics.get("gas_usd"), features.get("size_usd")
        lost = 10_000.0 * gas / size if gas is not None and isinstance(size, float) and size > 0.0 else 0.0
        return rounded(max(FAILURE_FLOOR, min(1.0, lost / FULL_IMPORTANCE_BPS)))
    known = (metrics[name] for name in ("pnl_bps", "cost_bps", "slippage_bps", "shortfall_bps") if name in metrics)
    return rounded(min(1.0, abs(next(known, 0.0)) / FULL_IMPORTANCE_BPS))
