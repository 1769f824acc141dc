"""The organiser: keywords, links and context notes for what is new in the memory, after the write and beside it.

Like upkeep it looks at the store and publishes operations; the writer keeps them, and a rebuild finds them in the log and measures
nothing. A write waits for none of this. Whoever organises, and however often: an operation's id follows from the insights' words,
claims and evidence, so it applies once, and what has been organised in its present state is passed over.

For one insight: the eight nearest of cosine 0.45 or more are looked at, labelled (``workers/links.py``) and linked where something
follows; links that it has already are looked at again; then its keywords and note are written, and the notes of those that it is
newly linked with. Directives are the operator's word and are not organised.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from gateway.composition import open_insights
from schemas.errors import BrainError
from schemas.insights import Insight, InsightStatus
from schemas.operations import LinkInsights, OrganiseInsight
from schemas.settings import Settings
from schemas.topics import OPERATIONS
from stores.sqlite import InsightStore, Link
from stores.sqlite.following import Standing, Vector
from streams.log import LogAppender
from streams.publisher import Publisher
from workers.links import (
    CANDIDATES,
    SIMILAR_FROM,
    Found,
    basis,
    link_operation,
    organise_operation,
    relate,
    unlink_operation,
)

LOGGER = logging.getLogger(__name__)
EVERY_S = 1.0
_AT_ONCE = 200
Organising = LinkInsights | OrganiseInsight


@dataclass(slots=True)
class _Web:
    """The links of the store as this round leaves them, by both ends; ``gone`` are those that it takes away, which the store still
    has."""

    store: InsightStore
    links: dict[tuple[str, str], Found] = field(default_factory=dict)
    gone: set[tuple[str, str]] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    known: dict[str, Standing] = field(default_factory=dict)

    def of(self, insight_id: str) -> list[Found]:
        """Every link of an insight."""
        if insight_id not in self.read:
            self.read.add(insight_id)
            for one in self.store.links([insight_id]):
                if (one.source, one.target) not in self.gone:
                    self.links.setdefault((one.source, one.target), _found(one))
        return [found for ends, found in self.links.items() if insight_id in ends]

    def drop(self, found: Found) -> None:
        """Take a link away."""
        del self.links[found.source, found.target]
        self.gone.add((found.source, found.target))

    def standing(self, insight_id: str) -> Standing | None:
        """An insight with its vector, where it is active."""
        if insight_id not in self.known:
            self.known |= {one.insight.id: one for one in self.store.standing([insight_id])}
        found = self.known.get(insight_id)
        return found if found is not None and found.vector is not None else None


def organise(store: InsightStore, wanted: Iterable[Standing], web: _Web | None = None) -> list[Organising]:
    """The operations that organise these insights, of one state of the store. ``web`` goes on from an earlier call."""
    bases = store.organised_bases()
    web = web or _Web(store)
    made: list[Organising] = []
    for standing in wanted:
        insight, vector = standing.insight, standing.vector
        if insight.status is not InsightStatus.ACTIVE or insight.directive is not None or vector is None:
            continue
        before, now = bases.get(insight.id), basis(insight)
        if before == now:
            continue
        web.known[insight.id] = standing
        touched = _link(web, insight, vector, made)
        if before is not None:  # it said something else: who quotes it quotes it anew
            touched |= {_other(found, insight.id) for found in web.of(insight.id)}
        made.append(organise_operation(insight, _ends(web, insight.id)))
        for one in sorted(touched):
            other = web.standing(one)
            if other is not None and bases.get(one) == basis(other.insight):  # what is not organised yet has its own turn
                made.append(organise_operation(other.insight, _ends(web, one)))
        bases[insight.id] = now
    return _last_words(made)


class Organiser:
    """Organises what changes, as it changes: each round looks at one offset, and reads on where that has moved."""

    def __init__(self, store: InsightStore, log: LogAppender | None) -> None:
        self._store = store
        self._log = log
        self._offset: int | None = None
        self._sent = -1

    def round(self) -> int:
        """Organise what changed since the last round; the first one looks at everything. How many operations that took.

        Nothing is done until the writer has applied what the last round sent.
        """
        offset = self._store.next_offset(OPERATIONS.name, 0)
        if offset == self._offset or offset <= self._sent:
            return 0
        with self._store.snapshot():
            offset = self._store.next_offset(OPERATIONS.name, 0)
            before = self._offset
            wanted = list(self._store.whole()) if before is None else self._store.changed_since(OPERATIONS.name, 0, before)
        count, web = 0, _Web(self._store)
        ordered = sorted(wanted, key=lambda one: (one.insight.created_ts, one.insight.id))
        for start in range(0, len(ordered), _AT_ONCE):
            with self._store.snapshot():
                made = organise(self._store, ordered[start : start + _AT_ONCE], web)
            count += len(made)
            self._publish(made)
        self._offset = offset
        return count

    def _publish(self, made: Sequence[Organising]) -> None:
        if self._log is not None and made:
            places = Publisher(self._log, source="organiser").publish_many(made)
            self._sent = max(self._sent, *(place.offset for place in places))


@contextmanager
def organiser_beside(settings: Settings, log: LogAppender, *, every_s: float = EVERY_S) -> Iterator[None]:
    """Rounds in a thread of its own, while the pipeline runs."""
    end = threading.Event()
    work = functools.partial(_work, settings, log, end, every_s)
    thread = threading.Thread(target=work, name="organiser", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def organise_once(settings: Settings, log: LogAppender | None) -> int:
    """Open the insights, organise what is not organised, and close them; how many operations that took.

    Raises:
        BrainError: there are no insights yet.
    """
    with open_insights(settings) as store:
        return Organiser(store, log).round()


def _work(settings: Settings, log: LogAppender, end: threading.Event, every_s: float) -> None:
    while not end.wait(every_s):
        try:
            with open_insights(settings) as store:
                _rounds(Organiser(store, log), end.wait, every_s)
        except BrainError as error:  # a store that is busy or not made yet is there at the next turn
            LOGGER.warning("nothing was organised this time: %s", error)
        except Exception:  # a fault of ours; without this thread nothing would be linked any more, and nobody would know
            LOGGER.exception("organising failed; it is tried again in %g s", every_s)


def _rounds(organiser: Organiser, pause: Callable[[float], bool], every_s: float) -> None:
    organiser.round()
    while not pause(every_s):
        organiser.round()


def _link(web: _Web, insight: Insight, vector: Vector, made: list[Organising]) -> set[str]:
    """Link an insight with what is near, and look at its links again; whose links have changed besides its own."""
    near = {hit.insight.id: hit.score for hit in web.store.knn(vector, CANDIDATES + 1) if hit.insight.id != insight.id}
    chosen = {one: score for one, score in list(near.items())[:CANDIDATES] if score >= SIMILAR_FROM}
    before = {_other(found, insight.id): found for found in web.of(insight.id)}
    touched: set[str] = set()
    for one in dict.fromkeys([*chosen, *before]):
        other = web.standing(one)
        if other is None or other.insight.directive is not None or other.vector is None:
            continue
        cosine = round(float(np.vecdot(vector.astype(np.float64), other.vector.astype(np.float64))), 6)
        found, had = relate(insight, other.insight, cosine), before.get(one)
        if found == had or (found and had and _same(found, had)):
            continue
        if had is not None and (found is None or (found.source, found.target) != (had.source, had.target)):
            made.append(unlink_operation(had.source, had.target, insight, other.insight))
            web.drop(had)
        if found is not None:
            made.append(link_operation(found, insight, other.insight))
            web.links[found.source, found.target] = found
        touched.add(one)
    return touched


def _ends(web: _Web, insight_id: str) -> list[tuple[Found, Insight]]:
    """The links of an insight whose other ends are in use."""
    ends = ((found, web.standing(_other(found, insight_id))) for found in web.of(insight_id))
    return [(found, other.insight) for found, other in ends if other is not None]


def _last_words(made: list[Organising]) -> list[Organising]:
    """Without what a later operation on the same insight says anew."""
    last = {one.insight_id: place for place, one in enumerate(made) if isinstance(one, OrganiseInsight)}
    return [one for place, one in enumerate(made) if not isinstance(one, OrganiseInsight) or last[one.insight_id] == place]


def _same(one: Found, other: Found) -> bool:
    return (one.source, one.target, one.relation, one.strength) == (other.source, other.target, other.relation, other.strength)


def _other(found: Found, end: str) -> str:
    return found.target if found.source == end else found.source


def _found(link: Link) -> Found:
    return Found(link.source, link.target, link.relation, link.strength, link.reason)
