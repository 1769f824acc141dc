"""Signals: what changed in the market or in our own books. A closed union by ``kind``; more kinds join it as they are built."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, FiniteFloat

from schemas.base import Contract
from schemas.types import Moment, Name


class DriftSignal(Contract):
    """A detector's alarm: the mean of a metric's stream has moved.

    Means are in the metric's unit; ``width`` is how many observations the detector compared; ``delta`` its confidence parameter.
    """

    wire_name: ClassVar[str] = "signal"

    id: str
    kind: Literal["drift"] = "drift"
    level: Literal["pair", "tool", "global"]
    stream: str
    key: str
    metric: Name
    ts: Moment
    episode_id: str
    mean_before: FiniteFloat
    mean_after: FiniteFloat
    width: int = Field(ge=1)
    delta: FiniteFloat
    simulated: bool = False


Signal = DriftSignal
