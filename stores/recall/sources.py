"""Where candidates come from: a store, or memories held in memory.

A source gives what its words and its vectors find, each with both scores where it knows them; choosing among them is not its task.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Protocol

from schemas.claims import Category
from stores.recall.bm25 import Bm25
from stores.recall.filters import RecallFilters
from stores.recall.memories import Kind, Memory
from stores.recall.mirror import Vector, VectorMirror
from stores.recall.regimes import tagged
from stores.sqlite.regimes import Timelines


class Embedder(Protocol):
    """Text to normalised vectors, one row a text; ``embed_query`` for questions."""

    model_id: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> Vector:
        """Vectors of what is kept, one row a text."""
        ...

    def embed_query(self, texts: Sequence[str]) -> Vector:
        """Vectors of questions, one row a text."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. ``vector`` is None where there is nothing to embed. ``depth``: the most that each way of searching gives.

    ``as_of``: only what was known then. ``timelines``: where the regimes of memories are looked up.
    """

    text: str
    vector: Vector | None
    filters: RecallFilters
    depth: int
    as_of: datetime | None = None
    timelines: Timelines | None = None

    def passes(self, memory: Memory) -> bool:
        """Whether a memory passes the filters, its regimes looked up where they are asked for."""
        if self.filters.regime is not None and self.timelines is not None:
            memory = tagged(memory, self.timelines, self.as_of)
        return self.filters.passes(memory)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that was found. ``cosine`` is None where its vector is not at hand: it is then no nearer than the last that has
    one. ``lexical`` is None where no word matched; its unit is the source's."""

    memory: Memory
    cosine: float | None
    lexical: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """A source's answer. ``unknown`` counts memories that existed at ``as_of`` in words that are not kept."""

    candidates: tuple[Candidate, ...] = ()
    unknown: int = 0


class Source(Protocol):
    """Something to find memories in."""

    def find(self, question: Question) -> Found:
        """The candidates, in no order."""
        ...


_Place = tuple[Kind, str, str, str, bool, bool]
"""What decides whether a memory holds where that is asked for."""


class MemorySource:
    """Memories held in memory: exact, filtered before the cut, under a millisecond for ten thousand. Safe to share by threads.

    ``put`` and ``remove`` may come twice or out of order: a memory's ``change`` decides (see ``mirror``).
    """

    def __init__(self, dimension: int) -> None:
        self._lock = threading.RLock()
        self._vectors = VectorMirror(dimension)
        self._words = Bm25()
        self._memories: dict[str, Memory] = {}
        self._places: dict[_Place, set[str]] = {}

    def __len__(self) -> int:
        return len(self._memories)

    def put(self, memory: Memory, vector: Vector) -> bool:
        """Add or replace a memory; whether this was news."""
        with self._lock:
            if not self._vectors.put(memory.id, vector, memory.change):
                return False
            self._words.put(memory.id, memory.indexed)
            self._moved(self._memories.get(memory.id), memory)
            self._memories[memory.id] = memory
            return True

    def remove(self, memory_id: str, change: int) -> bool:
        """Forget a memory: from text, vectors and itself; whether there was one."""
        with self._lock:
            if not self._vectors.remove(memory_id, change):
                return False
            self._words.remove(memory_id)
            self._moved(self._memories.pop(memory_id), None)
            return True

    def _moved(self, old: Memory | None, new: Memory | None) -> None:
        if old is not None and (here := self._places[_place(old)]):
            here.discard(old.id)
            if not here:
                del self._places[_place(old)]
        if new is not None:
            self._places.setdefault(_place(new), set()).add(new.id)

    def get(self, memory_id: str) -> Memory | None:
        """A memory by its id."""
        return self._memories.get(memory_id)

    def held(self) -> list[Memory]:
        """Every memory."""
        with self._lock:
            return list(self._memories.values())

    def cosine(self, memory_id: str, vector: Vector | None) -> float | None:
        """A memory's cosine to a question; None where either has no vector."""
        return None if vector is None else self._vectors.cosines(vector, [memory_id]).get(memory_id)

    def nearest(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        """The nearest memories, by id, with their cosine, best first."""
        return self._vectors.nearest(vector, k)

    def vector(self, memory_id: str) -> Vector | None:
        """A memory's vector."""
        return self._vectors.vector(memory_id)

    def find(self, question: Question) -> Found:
        """The candidates. With ``as_of``: those whose time is not after it."""
        with self._lock:
            allowed, unwanted = self._allowed(question)
            reach = question.depth + len(unwanted)
            lexical = _wanted(self._words.search(question.text, reach, allowed), unwanted, question.depth)
            cosine = self._near(question, allowed, unwanted)
            if question.vector is not None:
                cosine |= self._vectors.cosines(question.vector, lexical)
            keys = dict.fromkeys([*cosine, *lexical])
            return Found(tuple(Candidate(self._memories[key], cosine.get(key), lexical.get(key)) for key in keys))

    def _allowed(self, question: Question) -> tuple[set[str] | None, set[str]]:
        """Which memories may be found (None: every one), but for a few. Naming ten thousand that may costs more than the search, so
        where only directives may not, those few are searched too and dropped."""
        if question.as_of is None and replace(question.filters, directives=True) == RecallFilters():
            return None, set() if question.filters.directives else self._directives()
        there = [here for here in self._places.values() if question.filters.there(self._memories[next(iter(here))])]
        if question.as_of is None and question.filters.only_places:
            return set[str]().union(*there), set()
        return {
            key
            for here in there
            for key in here
            if question.passes(memory := self._memories[key]) and (question.as_of is None or memory.ts <= question.as_of)
        }, set()

    def _directives(self) -> set[str]:
        return set[str]().union(*(here for (*_, directs), here in self._places.items() if directs))

    def _near(self, question: Question, allowed: set[str] | None, unwanted: set[str]) -> dict[str, float]:
        if question.vector is None:
            return {}
        return _wanted(self._vectors.nearest(question.vector, question.depth + len(unwanted), allowed), unwanted, question.depth)


def _wanted(found: Iterable[tuple[str, float]], unwanted: set[str], k: int) -> dict[str, float]:
    """The first ``k`` of what was found, best first, that are wanted."""
    return dict(islice(((key, score) for key, score in found if key not in unwanted), k))


def _place(memory: Memory) -> _Place:
    return memory.kind, memory.tool, memory.chain, memory.pair, memory.simulated, memory.category is Category.OPERATOR_DIRECTIVE


def memory_source(dimension: int, memories: Iterable[tuple[Memory, Vector]]) -> MemorySource:
    """A source of these memories."""
    source = MemorySource(dimension)
    for memory, vector in memories:
        source.put(memory, vector)
    return source
