"""Episode: one execution with what it taught — metrics, features, a reflection and its vector."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field, FiniteFloat

from schemas.base import Contract, Part
from schemas.events import Status, ToolExecution
from schemas.identity import content_id
from schemas.types import Label, Moment, Name

FeatureCell = bool | FiniteFloat | str
Unit = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class Forgotten(Part):
    """Who had an episode forgotten, why, and when (event time)."""

    by: Label
    reason: str = Field(default="", max_length=2000)
    ts: Moment


class Episode(Contract):
    """What is remembered of one execution.

    ``metrics`` are outcomes in their units (``cost_bps``, ``gas_native``, ``failed`` as 0/1, …; see ``workers/metrics.py``);
    a metric that is not known is absent, never zero. ``features`` were known before the decision. ``reflection`` has the exact
    numbers and is what BM25 reads; ``sentence`` has them in named bands and is what was embedded. ``vector`` is little-endian
    float32, normalised; ``model`` names the model and dimension that made it. ``forgotten``: nothing but id, key and time is left.
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
    forgotten: Forgotten | None = None

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


FORGOTTEN_TEXT = "(forgotten)"


def tombstone(episode: Episode, forgotten: Forgotten) -> Episode:
    """What takes an episode's place when it is forgotten: made anew, with nothing of it but id, key, time and model.

    It stands under the same record key, so it comes after the episode wherever the log is read, and it counts as retracted: nobody
    learns from it. Its vector points nowhere in particular; a store of vectors takes no other.
    """
    first = b"\x00\x00\x80\x3f"  # 1.0, then zeros
    return Episode(
        id=episode.id,
        key=episode.key,
        label="-",
        event=ToolExecution(
            event_id=episode.id,
            tool="forgotten",
            agent_id="-",
            status=Status.FAILED,
            simulated=episode.event.simulated,
            removed=True,
            ts_executed=episode.ts,
            pair="-",
        ),
        reflection=FORGOTTEN_TEXT,
        sentence=FORGOTTEN_TEXT,
        vector=first + bytes(len(episode.vector) - len(first)),
        model=episode.model,
        importance=0.0,
        forgotten=forgotten,
    )
