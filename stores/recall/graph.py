"""Walking the links: Personalized PageRank over memories and the entities they mention, after HippoRAG 2.

What answers a question is sometimes not like it, but like what it leads to: the question names a pool, one memory ties the pool
to a router, another has the router's failures. A walk that starts at what the question names and at what resembles it, and now and
then starts again, visits such second steps often.

The graph is undirected. Memory–entity edges weigh 1; entity–entity edges weigh as many facts as tie them; edges between memories
(an insight and the episodes it rests on) weigh 1, links between insights their strength; edges between entities that mean the same
weigh their similarity. The walk restarts at the entities that the question names, each by one over the number of memories that
mention it — a rare name says more — and at every memory by 0.05 times its own relevance. A place without edges sends the walk back
to the restart.

Weights, seeds and damping are HippoRAG 2's (Gutiérrez et al., "From RAG to Memory", 2025), not fitted here. Unlike it, nothing is
extracted by a model and no name is stripped of its punctuation: entities come with the events, addresses and numbers intact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import sparse

DAMPING = 0.5
PASSAGE_WEIGHT = 0.05
TOLERANCE = 1e-9
MAX_STEPS = 100

Row = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Links:
    """What ties memories together, as names. ``mentions``: the entities of each memory. ``facts``: pairs of entities, repeats
    count. ``synonyms``: pairs of entities with a weight. ``between``: pairs of memories; ``ties``: the same with a weight. Names
    that appear nowhere else are ignored in the last four."""

    mentions: Mapping[str, Iterable[str]]
    facts: Iterable[tuple[str, str]] = ()
    synonyms: Iterable[tuple[str, str, float]] = ()
    between: Iterable[tuple[str, str]] = field(default=())
    ties: Iterable[tuple[str, str, float]] = field(default=())


class LinkGraph:
    """A fixed graph of memories and entities, to walk for any number of questions."""

    def __init__(self, links: Links) -> None:
        self.memories: tuple[str, ...] = tuple(links.mentions)
        self._memory = {name: place for place, name in enumerate(self.memories)}
        mentioned = {name: tuple(dict.fromkeys(entities)) for name, entities in links.mentions.items()}
        self._spread = Counter(entity for entities in mentioned.values() for entity in entities)
        self._entity = {name: place for place, name in enumerate(self._spread, start=len(self.memories))}
        self.adjacency = self._edges(mentioned, links)
        self._transition, self._dangling = _walkable(self.adjacency)

    def _edges(self, mentioned: Mapping[str, Sequence[str]], links: Links) -> sparse.csr_array:
        weights: Counter[tuple[int, int]] = Counter()
        for name, entities in mentioned.items():
            for entity in entities:
                weights[self._memory[name], self._entity[entity]] = 1
        known = self._entity
        for (a, b), count in Counter(links.facts).items():  # of many memories of one market the same
            if a != b and a in known and b in known:
                weights[_pair(known[a], known[b])] += count
        for a, b in links.between:
            if a != b and a in self._memory and b in self._memory:
                weights[_pair(self._memory[a], self._memory[b])] = 1
        rows = [row for row, _ in weights]
        columns = [column for _, column in weights]
        values: list[float] = [float(weight) for weight in weights.values()]
        for a, b, weight in links.synonyms:
            if a != b and a in known and b in known:
                rows.append(known[a])
                columns.append(known[b])
                values.append(weight)
        for a, b, weight in links.ties:
            if a != b and a in self._memory and b in self._memory:
                rows.append(self._memory[a])
                columns.append(self._memory[b])
                values.append(weight)
        size = len(self._memory) + len(known)
        half = sparse.coo_array((values, (rows, columns)), shape=(size, size))
        return sparse.csr_array(half + half.T)

    def rank(
        self,
        relevance: Mapping[str, float],
        seeds: Iterable[str],
        *,
        damping: float = DAMPING,
        passage_weight: float = PASSAGE_WEIGHT,
    ) -> dict[str, float]:
        """How often the walk visits each memory, scaled so that the most visited has 1.

        ``relevance`` is each memory's own, in any unit (absent: the least); ``seeds`` are the entities that the question names, of
        which unknown ones are ignored. Without either every memory is as good a start.
        """
        restart = np.zeros(len(self._memory) + len(self._entity))
        scores = [relevance[name] for name in self.memories if name in relevance]
        low, high = (min(scores), max(scores)) if scores else (0.0, 0.0)
        for name, place in self._memory.items():
            share = (relevance.get(name, low) - low) / (high - low) if high > low else 1.0
            restart[place] = passage_weight * share
        for entity in set(seeds):
            if entity in self._entity:
                restart[self._entity[entity]] += 1.0 / self._spread[entity]
        visits = personalized_pagerank(self._transition, self._dangling, restart, damping)[: len(self.memories)]
        most = float(visits.max(initial=0.0)) or 1.0
        return {name: float(visits[place]) / most for name, place in self._memory.items()}


def personalized_pagerank(
    transition: sparse.csr_array, dangling: npt.NDArray[np.bool_], restart: Row, damping: float = DAMPING
) -> Row:
    """The stationary distribution of a walk that follows an edge with probability ``damping`` and else restarts.

    ``transition[i, j]`` is the probability of stepping from j to i; columns of ``dangling`` nodes are empty, and their mass
    restarts. Power iteration until the change is under ``TOLERANCE`` in sum; sums to 1, or is all zeros where ``restart`` is.
    """
    total = float(restart.sum())
    if total <= 0.0:
        return np.zeros_like(restart)
    start = restart / total
    visits = start
    for _ in range(MAX_STEPS):
        stepped = damping * (transition @ visits + visits[dangling].sum() * start) + (1.0 - damping) * start
        change = float(np.abs(stepped - visits).sum())
        visits = stepped
        if change < TOLERANCE:
            break
    return visits


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _walkable(adjacency: sparse.csr_array) -> tuple[sparse.csr_array, npt.NDArray[np.bool_]]:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    dangling = degree <= 0.0
    inverse = np.where(dangling, 0.0, 1.0 / np.where(dangling, 1.0, degree))
    return sparse.csr_array(sparse.csr_array(adjacency.T) @ sparse.diags_array(inverse)), dangling
