"""What a search gives: an episode as it is shown, with its score."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stores.episodes.rows import SHOWN


@dataclass(frozen=True, slots=True)
class Hit:
    """An episode found, without its numbers; ``score`` is greater for better and comparable within one result only."""

    score: float
    id: str
    key: str
    tool: str
    chain: str
    pair: str
    label: str
    ts: datetime
    action: str
    status: str
    failed: bool
    importance: float
    regime: str | None
    simulated: bool
    retracted: bool
    reflection: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An episode that was found by words, by meaning or by both. ``cosine`` is exact, None where no vector was asked for;
    ``lexical`` is its BM25, None where its words were not among the best."""

    hit: Hit
    cosine: float | None
    lexical: float | None


def to_hit(score: float, row: dict[str, Any]) -> Hit:
    """A row with the columns ``SHOWN`` as a hit."""
    return Hit(score=score, **{name: row[name] for name in SHOWN} | {"ts": row["ts"].astimezone(UTC)})


def rescored(hit: Hit, score: float) -> Hit:
    """The same episode with another score."""
    return Hit(score=score, **{name: getattr(hit, name) for name in SHOWN})
