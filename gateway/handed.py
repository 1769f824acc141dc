"""What was handed to whom, so that saying it again does not count as evidence (law 9)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

_ANSWERS = 4_096
_HANDED = 4_096


class Handed:
    """The last few thousand answers, and what each author was shown. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = OrderedDict()
        self._by_author: OrderedDict[tuple[str, str], None] = OrderedDict()

    def answer(self, recall_id: str, author: str, memory_ids: Sequence[str], scores: Sequence[float] = ()) -> None:
        """Take an answer down, with the scores that its memories were found with."""
        self.note(author, memory_ids)
        with self._lock:
            self._answers[recall_id] = (author, tuple(memory_ids), tuple(scores))
            while len(self._answers) > _ANSWERS:
                self._answers.popitem(last=False)

    def note(self, author: str, memory_ids: Iterable[str]) -> None:
        """Take memories down that an author was shown."""
        with self._lock:
            for memory_id in memory_ids:
                self._by_author[author, memory_id] = None
                self._by_author.move_to_end((author, memory_id))
            while len(self._by_author) > _HANDED:
                self._by_author.popitem(last=False)

    def of_answer(self, recall_id: str, author: str) -> tuple[str, ...] | None:
        """What an answer to this author held; None where there is none (any more)."""
        with self._lock:
            found = self._answers.get(recall_id)
        return found[1] if found is not None and found[0] == author else None

    def scores_of(self, recall_id: str, author: str) -> tuple[float, ...]:
        """The scores in an answer to this author, in the order of its memories; none where they are not known."""
        with self._lock:
            found = self._answers.get(recall_id)
        return found[2] if found is not None and found[0] == author else ()

    def to(self, author: str, memory_ids: Iterable[str]) -> set[str]:
        """Those of the memories that this author was shown."""
        with self._lock:
            return {memory_id for memory_id in memory_ids if (author, memory_id) in self._by_author}
