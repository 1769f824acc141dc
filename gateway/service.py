"""The service: all that may be asked of the memory and told to it, once, behind REST, MCP and Python.

Every method takes the caller first and checks its tier. Reads see the stores' last committed state; writes go to the log.
Everything here is synchronous and safe to share between threads.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from gateway.ageing import Ageing
from gateway.briefing import INPUTS, Briefed, BriefingSchedule, Write, briefing
from gateway.browsing import Browsing
from gateway.errors import Gone, NotFound
from gateway.forgetting import Forgetting
from gateway.keys import Caller, Tier
from gateway.llm.service import Bounds, Proposing
from gateway.operating import Operating
from gateway.protection import Protecting
from gateway.reporting import Reporting
from gateway.standing import Standing, doubtful, standings
from gateway.views import BriefingView, StatsView
from gateway.writing import Log
from schemas.claims import Category
from schemas.episodes import Episode
from schemas.identity import content_id
from schemas.insights import Insight, InsightStatus
from schemas.operations import ArchiveInsight
from schemas.signals import Signal
from schemas.topics import OPERATIONS
from stores.episodes import EpisodeFilter, EpisodeStore
from stores.episodes import Hit as EpisodeHit
from stores.places import takes_in
from stores.recall.filters import RecallFilters
from stores.recall.grading import Grade
from stores.recall.memories import Kind
from stores.recall.recall import EVERYTHING, Recall
from stores.recall.result import RecallResult
from stores.recall.sources import Embedder
from stores.recall.triples import split_key
from stores.sqlite import HistoryEntry, InsightFilter, InsightStore, Order, Page, SignalFilter, through
from streams.publisher import Publisher

LEARNED = tuple(category for category in Category if category is not Category.OPERATOR_DIRECTIVE)
_PRIORITY = {"high": 0, "medium": 1, "low": 2}
_PAGE = 500
_SPARE = 16
"""Episodes past their time are taken out of an answer; a recall asks for so many more, that this leaves enough."""

PipelineState = Literal["here", "elsewhere", "stopped", "failed"]
OnRecall = Callable[[Grade, Sequence[Kind], float], None]
"""Told of each answer: its grade, the kinds of its memories, and the seconds that it took."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """An answer with the id by which its use is reported."""

    recall_id: str
    result: RecallResult


class BrainService(Browsing, Protecting, Proposing, Operating, Reporting, Forgetting):
    """The memory, for callers. ``pipeline`` tells who applies what is written; ``clock`` gives event time for what has none;
    ``bounds`` are what a client's model is held to."""

    def __init__(
        self,
        *,
        log: Log,
        insights: InsightStore,
        episodes: EpisodeStore | None,
        recall: Recall,
        embedder: Embedder,
        clock: Callable[[], datetime],
        bounds: Bounds,
        monotonic: Callable[[], float] = time.monotonic,
        pipeline: Callable[[], PipelineState] = lambda: "elsewhere",
        on_recall: OnRecall | None = None,
    ) -> None:
        super().__init__(log, insights, episodes, embedder, clock, monotonic)
        self._recall = recall
        self._age = Ageing(insights, episodes, monotonic)
        self._pipeline = pipeline
        self._on_recall = on_recall
        self._bounds = bounds
        self._schedule: BriefingSchedule | None = None

    @property
    def log(self) -> Log:
        """The log, for followers of updates."""
        return self._log

    def now(self) -> datetime:
        """The service's time."""
        return self._clock()

    # --- recall

    def recall(
        self,
        caller: Caller,
        query: str,
        filters: RecallFilters = EVERYTHING,
        limit: int | None = None,
        *,
        now: datetime | None = None,
        as_of: datetime | None = None,
        regime: str | None = None,
        retired: bool = False,
    ) -> Recalled:
        """The few memories that bear on a question; directives come by :meth:`directives`, so they are left out here.

        Episodes past their time (``workers/retention.py``) are left out as well, but for those of ``regime``; ``retired`` lets them
        in. Their age is counted to the market's time, or to ``as_of`` or ``now`` where that is earlier.

        Raises:
            BadRecall: a limit under 1, or a time without a zone.
        """
        caller.need(Tier.READ)
        began = self._monotonic()
        moment = now or self._clock()
        tuning = self._tuning()
        count = tuning.limit(limit)
        wide = min(count + _SPARE, tuning.depth)
        if wide > tuning.max_results:
            tuning = tuning.with_changes(max_results=wide)
        wanted = replace(filters, directives=False)
        found = self._recall.recall(query, wanted, wide, now=moment, as_of=as_of, regime=regime, tuning=tuning)
        shown = list(found.hits)
        if not retired:
            shown = self._age.in_context(shown, min(as_of or moment, moment), regime)
        kept = tuple(shown[:count])
        result = RecallResult(kept, found.grade, found.probability, found.signals, min(found.withheld, count), found.unknown)
        asked = query.encode("utf-8", "replace").decode()
        recall_id = content_id("recall", caller.author, moment.isoformat(), asked, *(hit.id for hit in kept))
        self._handed.answer(recall_id, caller.author, [hit.id for hit in kept], [hit.why.score for hit in kept])
        if self._on_recall is not None:
            self._on_recall(result.grade, [hit.kind for hit in kept], self._monotonic() - began)
        return Recalled(recall_id, result)

    # --- insights

    def insights(
        self,
        caller: Caller,
        where: InsightFilter,
        *,
        order: Order = Order.CONFIDENCE,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Insight]:
        """A page of insights, notes and directives.

        Raises:
            BadQuery: a limit not in 1 … 1000, or a cursor of another list.
        """
        caller.need(Tier.READ)
        page = self._insights.list(where, order=order, limit=limit, cursor=cursor)
        self._handed.note(caller.author, [one.id for one in page.items if one.note is not None])
        return page

    def standings(self, caller: Caller, insights: Sequence[Insight]) -> dict[str, Standing]:
        """How each of the insights stands, by id: how decisions ended that used it, whether it is doubted, its channels."""
        caller.need(Tier.READ)
        return standings(self._insights, insights)

    def insight(self, caller: Caller, insight_id: str) -> Insight:
        """One insight.

        Raises:
            NotFound: there is none.
            Gone: it was forgotten.
        """
        caller.need(Tier.READ)
        found = self._insights.get(insight_id)
        if found is None:
            raise NotFound(f"there is no insight {insight_id!r}", hint="search or list to get ids")
        if found.status is InsightStatus.FORGOTTEN:
            raise Gone(f"insight {insight_id} was forgotten")
        self._handed.note(caller.author, [found.id])
        return found

    def still_there(self, caller: Caller, insight_ids: Iterable[str]) -> tuple[Insight, ...]:
        """Those of the insights that are in context, in this order. What was recalled a moment ago may be forgotten by now."""
        caller.need(Tier.READ)
        found = [one for one in map(self._insights.get, insight_ids) if one is not None and one.status is InsightStatus.ACTIVE]
        self._handed.note(caller.author, [one.id for one in found])
        return tuple(found)

    def by_prefix(self, caller: Caller, prefix: str) -> Insight:
        """The one insight whose id is ``prefix`` or begins with it.

        Raises:
            NotFound: there is none, or more than one.
        """
        caller.need(Tier.READ)
        found = self._insights.find(prefix)
        if found is None:
            raise NotFound(
                f"no single insight has an id that starts with {prefix!r}", hint="defi-brain insights list shows the ids"
            )
        return found

    def least_sure(self, caller: Caller, limit: int) -> tuple[Insight, ...]:
        """Active insights of the least confidence, the least sure first."""
        caller.need(Tier.READ)
        surest_first = through(lambda cursor: self._insights.list(limit=_PAGE, cursor=cursor))
        return tuple(reversed(deque(surest_first, limit)))

    def in_doubt(self, caller: Caller, below: Decimal, limit: int) -> tuple[tuple[Insight, ...], int]:
        """Active learned insights and notes that a person should look at (:func:`gateway.standing.doubtful`), the least sure first;
        and how many there are."""
        caller.need(Tier.READ)
        where = InsightFilter(categories=LEARNED)
        least_sure: deque[Insight] = deque(maxlen=limit)
        count, cursor = 0, None
        while True:
            page = self._insights.list(where, limit=_PAGE, cursor=cursor)
            found = doubtful(self._insights, page.items, below)
            least_sure.extend(found)
            count, cursor = count + len(found), page.cursor
            if cursor is None:
                return tuple(reversed(least_sure)), count

    def history(self, caller: Caller, insight_id: str) -> tuple[HistoryEntry, ...]:
        """Every operation on an insight; a forgotten one's has no words.

        Raises:
            NotFound: there is none.
        """
        caller.need(Tier.READ)
        entries = self._insights.history(insight_id)
        if not entries:
            raise NotFound(f"there is no insight {insight_id!r}", hint="search or list to get ids")
        return entries

    def traces(self, caller: Caller, insight_id: str, words: str = "") -> dict[str, int]:
        """Where anything of an insight is left, by place; for a forgotten one all zeros prove that it is gone."""
        caller.need(Tier.ADMIN)
        return self._insights.traces(insight_id, words)

    # --- episodes and signals

    def search_episodes(self, caller: Caller, text: str, wanted: EpisodeFilter, limit: int = 10) -> Sequence[EpisodeHit]:
        """Episodes by words and by meaning.

        Raises:
            ValueError: the limit is not in 1 … 1000, or a time has no zone.
        """
        caller.need(Tier.READ)
        if self._episodes is None:
            return ()
        return self._tagged(self._episodes.search(text, self._embedder, self._narrowed(wanted), limit=limit))

    def episode(self, caller: Caller, episode_id: str) -> Episode:
        """One episode.

        Raises:
            NotFound: there is none.
        """
        caller.need(Tier.READ)
        found = self._episodes.get(episode_id) if self._episodes is not None else None
        if found is None:
            raise NotFound(f"there is no episode {episode_id!r}", hint="search episodes to get ids")
        if found.forgotten is not None:
            raise Gone(f"episode {episode_id} was forgotten")
        return found

    def memory(self, caller: Caller, memory_id: str) -> Insight | Episode:
        """An insight or an episode by its id.

        Raises:
            NotFound, Gone: there is none, or it was forgotten.
        """
        try:
            return self.insight(caller, memory_id)
        except Gone:
            raise
        except NotFound:
            pass
        try:
            return self.episode(caller, memory_id)
        except NotFound:
            raise NotFound(f"there is no memory {memory_id!r}", hint="search or recall to get ids") from None

    def signals(self, caller: Caller, where: SignalFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Signal]:
        """A page of signals, the latest event first."""
        caller.need(Tier.READ)
        return self._insights.signals(where, limit=limit, cursor=cursor)

    # --- directives, briefing, statistics

    def directives(
        self, caller: Caller, *, now: datetime | None = None, key: str | None = None, include_ended: bool = False
    ) -> tuple[Insight, ...]:
        """Directives in force at ``now``: the high priority first, of equal priority the newest first.

        With a key: those for it, for its tool, and for everything (``stores/places.py``). ``include_ended`` adds what was archived
        or has expired.
        """
        caller.need(Tier.READ)
        moment = now or self._clock()
        status = None if include_ended else InsightStatus.ACTIVE
        wanted = InsightFilter(categories=(Category.OPERATOR_DIRECTIVE,), status=status)
        chosen = [
            one
            for one in through(lambda cursor: self._insights.list(wanted, order=Order.RECENT, limit=_PAGE, cursor=cursor))
            if one.directive is not None
            and (include_ended or one.directive.in_force(moment))
            and (key is None or takes_in(split_key(one.key), *split_key(key)))
        ]
        return tuple(sorted(chosen, key=_by_priority))

    def expire_directives(self) -> int:
        """Archive directives whose date has passed, by an operation each; how many were sent. Doing it twice archives once."""
        now = self._clock()
        system = Caller("defi-brain", Tier.ADMIN)
        ended = 0
        for one in self.directives(system, now=now, include_ended=True):
            ends = one.directive.expires_at if one.directive else None
            if one.status is InsightStatus.ACTIVE and ends is not None and ends <= now:
                operation = ArchiveInsight(
                    op_id=content_id("operation", "EXPIRE", one.id),
                    insight_id=one.id,
                    ts=ends,
                    author=system.author,
                    reason="the directive's time is over",
                    cause="expired",
                )
                Publisher(self._log, source="gateway").publish(operation)
                ended += 1
        return ended

    def briefing(self, caller: Caller) -> BriefingView:
        """What matters most now, without a model: directives in force, then what is surest."""
        caller.need(Tier.READ)
        told = briefing(self.directives(caller), self._surest())
        self._handed.note(caller.author, told.memory_ids)
        return told

    def _surest(self) -> tuple[Insight, ...]:
        return self._insights.list(InsightFilter(categories=LEARNED), limit=INPUTS).items

    def keep_briefing(self, *, first_s: float, every_s: float, write: Write | None = None) -> BriefingSchedule:
        """Make a briefing so many seconds from now and then again and again, for :meth:`briefed`; stop it when done.

        ``write`` makes it from directives in force and what is surest; without it no model does.
        """
        system = Caller("defi-brain", Tier.READ)
        made_by = write or briefing  # not as a default: in the class's own scope that name is the method

        def make() -> BriefingView:
            return made_by(self.directives(system), self._surest())

        self._schedule = BriefingSchedule(make, self._clock, first_s=first_s, every_s=every_s)
        return self._schedule

    def briefed(self, caller: Caller, after: int = 0) -> Briefed | None:
        """The latest briefing that was made on schedule, if it is a later one than number ``after``."""
        caller.need(Tier.READ)
        latest = self._schedule.after(after) if self._schedule is not None else None
        if latest is not None:
            self._handed.note(caller.author, latest.told.memory_ids)
        return latest

    def stats(self, caller: Caller) -> StatsView:
        """What the memory holds."""
        caller.need(Tier.READ)
        held = self._insights.stats()
        read = self._insights.next_offset(OPERATIONS.name, 0)
        return StatsView(
            episodes=self._episodes.count() if self._episodes is not None else 0,
            insights=held.active,
            archived=held.archived,
            directives=held.by_category.get(str(Category.OPERATOR_DIRECTIVE), 0),
            notes=held.notes,
            signals=held.signals,
            uses=held.uses,
            by_category=held.by_category,
            operations=held.operations,
            waiting=max(0, self._log.end_offsets(OPERATIONS.name)[0] - read),
            pipeline=self._pipeline(),
        )


def _by_priority(insight: Insight) -> tuple[int, float, str]:
    priority = insight.directive.priority if insight.directive else "low"
    return _PRIORITY[priority], -insight.created_ts.timestamp(), insight.id
