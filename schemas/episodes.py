"""Episode: one execution with what it taught — metrics, features, a reflection and its vector."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field, FiniteFloat

from schemas.base import Contract
from schemas.events import ToolExecution
from schemas.identity import content_id
from schemas.types import Label, Name

FeatureCell = bool | FiniteFloat | str
Unit = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Episode(Contract):
    """What is remembered of one execution.

    ``metrics`` are outcomes in their units (``cost_bps``, ``gas_native``, ``failed`` as 0/1, …; see ``workers/metrics.py``);
    a metric that is not known is absent, never zero. ``features`` were known before the decision. ``reflection`` has the exact
    numbers and is what BM25 reads; ``sentence`` has them in named bands and is what was embedded. ``vector`` is little-endian
    float32, normalised; ``model`` names the model and dimension that made it.
    """

    wire_name: ClassVar[str] = "episode"

    id: str
    key: str
    label: Label
    event: ToolExecution
    metrics: dict[Name, FiniteFloat] = Field(default_factory=dict)
    features: dict[Name, FeatureCell] = Field(default_factory=dict)
    reflection: str
    sentence: str
    vector: bytes
    model: str
    importance: Unit
    regime: str | None = None

    @property
    def ts(self) -> datetime:
        """Event time."""
        return self.event.ts_executed

    @property
    def learnable(self) -> bool:
        """Whether it may teach: final, not retracted by a reorganisation."""
        return self.event.status != "pending" and not self.event.removed


def episode_id(event: ToolExecution) -> str:
    """An episode's id: one an event, whatever its status becomes."""
    return content_id("episode", event.event_id)
