"""What was handed to whom, so that saying it again does not count as evidence (law 9).

Kept in memory, so there is a bound for all authors together. Whoever holds most gives way when it is reached: an agent that asks a
thousand times as often as the others forgets its own answers, and not theirs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

_ANSWERS = 4_096
_HANDED = 4_096
Value = TypeVar("Value")


class _Last(Generic[Value]):
    """The last ``most`` things of all authors, by author and name."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[str, OrderedDict[str, Value]] = {}
        self._count = 0

    def put(self, author: str, name: str, value: Value) -> None:
        """Keep a thing; the oldest of the author who has most goes for it."""
        own = self._held.setdefault(author, OrderedDict())
        self._count += name not in own
        own[name] = value
        own.move_to_end(name)
        while self._count > self._most:
            richest = max(self._held, key=lambda one: len(self._held[one]))
            self._held[richest].popitem(last=False)
            self._count -= 1
            if not self._held[richest]:
                del self._held[richest]

    def of(self, author: str) -> OrderedDict[str, Value]:
        """An author's things, the oldest first; to look at."""
        return self._held.get(author, OrderedDict())


class Handed:
    """The last few thousand answers, and what each author was shown. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: _Last[tuple[tuple[str, ...], tuple[float, ...]]] = _Last(_ANSWERS)
        self._shown: _Last[None] = _Last(_HANDED)

    def answer(self, recall_id: str, author: str, memory_ids: Sequence[str], scores: Sequence[float] = ()) -> None:
        """Take an answer down, with the scores that its memories were found with."""
        self.note(author, memory_ids)
        with self._lock:
            self._answers.put(author, recall_id, (tuple(memory_ids), tuple(scores)))

    def note(self, author: str, memory_ids: Iterable[str]) -> None:
        """Take memories down that an author was shown."""
        with self._lock:
            for memory_id in memory_ids:
                self._shown.put(author, memory_id, None)

    def of_answer(self, recall_id: str, author: str) -> tuple[str, ...] | None:
        """What an answer to this author held; None where there is none (any more)."""
        with self._lock:
            found = self._answers.of(author).get(recall_id)
        return found[0] if found is not None else None

    def scores_of(self, recall_id: str, author: str) -> tuple[float, ...]:
        """The scores in an answer to this author, in the order of its memories; none where they are not known."""
        with self._lock:
            found = self._answers.of(author).get(recall_id)
        return found[1] if found is not None else ()

    def to(self, author: str, memory_ids: Iterable[str]) -> set[str]:
        """Those of the memories that this author was shown."""
        with self._lock:
            shown = self._shown.of(author)
            return {memory_id for memory_id in memory_ids if memory_id in shown}
