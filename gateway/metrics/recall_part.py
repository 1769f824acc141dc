"""What recall tells: how often it was asked, how the answers were graded, what they held and how long they took; and the ranker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from gateway.metrics.distribution import Distribution
from stores.recall.grading import Grade
from stores.recall.memories import Kind

RECALL_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper ends for what one recall takes."""


class RecallPart:
    """Fed by the service, read by a scrape; safe to share between threads. ``ranking`` tells whether the ranker takes part and how
    many uses it has to learn from."""

    name = "recall"

    def __init__(self, ranking: Callable[[], tuple[bool, int]] = lambda: (False, 0)) -> None:
        self.ranking = ranking
        self._lock = threading.Lock()
        self._grades: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._took = Distribution(RECALL_S)

    def note(self, grade: Grade, kinds: Sequence[Kind], seconds: float) -> None:
        """A question was answered."""
        with self._lock:
            self._grades[grade.value] += 1
            self._kinds.update(kind.value for kind in kinds)
            self._took.add([seconds])

    def samples(self) -> Iterator[Sample]:
        """What it is now, zeros included."""
        active, uses = self.ranking()
        with self._lock:
            for grade in Grade:
                yield Sample(catalogue.RECALLS, (grade.value,), self._grades[grade.value])
            for kind in Kind:
                yield Sample(catalogue.RECALLED, (kind.value,), self._kinds[kind.value])
            yield Sample(catalogue.RECALL_SECONDS, (), self._took.shape())
        yield Sample(catalogue.RANKER_ACTIVE, (), int(active))
        yield Sample(catalogue.RANKER_USES, (), uses)
