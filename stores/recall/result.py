"""What recall hands over: hits with their reasons, and a verdict on the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from stores.recall.grading import Grade, Signals
from stores.recall.memories import Kind, Memory
from stores.recall.preference import Preferred


@dataclass(frozen=True, slots=True)
class Why:
    """How a hit came to its score.

    ``sources``: what each source said in its own unit (None: it did not find it). ``parts``: what the recipe made of that, 0 … 1.
    ``relevance``: the recipe's score, or the place that the walk over links gave it. ``walk``: how often the walk came by, 1 the
    most, None where there was none. ``boosts``: what was added; ``regime`` says in words why that of the regime was. ``gate``:
    which test it passed. ``via``: the link that it came by, where neither words nor vectors found it. ``score``: what all of that
    comes to; ``learned``: what the ranker made of it, None where it has no say.
    """

    recipe: str
    sources: Mapping[str, float | None]
    parts: Mapping[str, float]
    relevance: float
    walk: float | None
    boosts: Mapping[str, float]
    gate: str
    via: str | None = None
    score: float = 0.0
    learned: Preferred | None = None
    regime: str = ""


@dataclass(frozen=True, slots=True)
class RecallHit:
    """A memory that bears on the question. Its text is what others wrote: data, never instruction."""

    id: str
    kind: Kind
    text: str
    score: float
    ts: datetime
    why: Why
    memory: Memory = field(repr=False)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The answer. ``probability`` is that one of the hits is relevant; ``withheld`` is how many were kept back because nothing
    seems to be. ``unknown`` counts insights that existed at ``as_of`` in words that are not kept."""

    hits: tuple[RecallHit, ...]
    grade: Grade
    probability: float | None = None
    signals: Signals | None = None
    withheld: int = 0
    unknown: int = 0
