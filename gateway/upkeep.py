"""Upkeep: what is past its time leaves the context, what has returned comes back, and what is there twice becomes one.

None of this is decided in the fold: it would depend on how uses and operations were interleaved. A process looks at the stores now
and then, and what it decides are operations in the log, as if an operator had asked for them; a rebuild applies them and decides
nothing. Whoever looks, and however often: an operation's id follows from the insight and its revision, so it applies once.

Time is the market's: that of the latest episode, and where there are no episodes that of the latest insight. A market that is
replayed from years ago ages as it did then, and one that stands still does not age at all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gateway.ageing import event_time
from gateway.composition import layout, open_episodes, open_insights
from schemas.errors import BrainError
from schemas.identity import content_id
from schemas.insights import Insight, InsightStatus
from schemas.operations import ArchiveInsight, RestoreInsight
from schemas.settings import Settings
from schemas.signals import RegimeSignal
from schemas.topics import OPERATIONS
from stores.episodes import EpisodeStore
from stores.sqlite import InsightFilter, InsightStore, SignalFilter, through
from streams.log import LogAppender
from streams.publisher import Publisher
from workers import dedup, retention
from workers.ports import Embedder

__all__ = ["Sweep", "event_time", "look", "sweep", "sweep_once", "upkeep_beside"]

LOGGER = logging.getLogger(__name__)
EVERY_S = 60.0
_PAGE = 500
_MOMENT = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC) - _MOMENT


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was decided, as operations, and at which event time (None: there is nothing yet)."""

    now: datetime | None
    expired: tuple[ArchiveInsight, ...] = ()
    returned: tuple[RestoreInsight, ...] = ()
    merged: tuple[ArchiveInsight, ...] = ()

    @property
    def operations(self) -> tuple[ArchiveInsight | RestoreInsight, ...]:
        """All of them."""
        return (*self.expired, *self.returned, *self.merged)


def look(insights: InsightStore, episodes: EpisodeStore | None, embedder: Embedder | None) -> Sweep:
    """What is to be done, of one state of the insights. Writes nothing. Without an embedder nothing is merged."""
    now = event_time(insights, episodes)
    if now is None:
        return Sweep(None)
    with insights.snapshot():
        active = _all(insights, InsightStatus.ACTIVE)
        used = {one: count.used for one, count in insights.use_counts(insight.id for insight in active).items()}
        expired = retention.retired(active, used, now)
        gone = {one.insight_id for one in expired}
        merged = [] if embedder is None else _duplicates(insights, embedder, [one for one in active if one.id not in gone], now)
        out = [one for one in _all(insights, InsightStatus.ARCHIVED) if one.archived and one.archived.cause == "expired"]
        returned = retention.returned(out, *_regimes(insights, out))
    return Sweep(now, tuple(expired), tuple(returned), tuple(merged))


def sweep(
    log: LogAppender | None, insights: InsightStore, episodes: EpisodeStore | None, embedder: Embedder | None = None
) -> Sweep:
    """Look, and publish what is to be done; without a log only look."""
    done = look(insights, episodes, embedder)
    if log is None:
        return done
    publisher = Publisher(log, source="upkeep")
    for operation in done.operations:
        publisher.publish(operation)
    return done


def _all(insights: InsightStore, status: InsightStatus) -> list[Insight]:
    return list(through(lambda cursor: insights.list(InsightFilter(status=status), limit=_PAGE, cursor=cursor)))


def _regimes(insights: InsightStore, out: Sequence[Insight]) -> tuple[dict[str, str], dict[str, tuple[str, datetime]]]:
    """The regime that each insight was last validated in, and each key's present one with its beginning."""
    now_in: dict[str, tuple[str, datetime]] = {}
    for key in sorted({one.key for one in out}):
        signal = _regime(insights, key, None)
        if signal is not None:
            now_in[key] = (signal.regime, signal.ts)
    regime_of = {}
    for one in out:
        then = _regime(insights, one.key, min(one.validated_ts, _LAST) + _MOMENT) if one.key in now_in else None
        if then is not None:
            regime_of[one.id] = then.regime
    return regime_of, now_in


def _regime(insights: InsightStore, key: str, until: datetime | None) -> RegimeSignal | None:
    found = insights.signals(SignalFilter(kind="regime", key=key, until=until, include_simulated=True), limit=1).items
    return found[0] if found and isinstance(found[0], RegimeSignal) else None


def _duplicates(insights: InsightStore, embedder: Embedder, active: Sequence[Insight], now: datetime) -> list[ArchiveInsight]:
    """Merges of what was learned with what had been noted about the same key. Notes among themselves were compared when written."""
    learned = [one for one in active if one.note is None and one.directive is None]
    shared = {one.key for one in active if one.note is not None} | _twice(learned)
    merges: list[ArchiveInsight] = []
    taken: set[str] = set()
    wanted = [one for one in sorted(learned, key=lambda insight: insight.id) if one.key in shared]
    vectors = embedder.embed([one.text for one in wanted]) if wanted else ()
    for one, vector in zip(wanted, vectors, strict=True):
        hits = insights.knn(vector, dedup.NEAREST + 1, InsightFilter(key=one.key))
        near = [
            dedup.Candidate(hit.insight, round(hit.score, 6))
            for hit in hits
            if hit.insight.id not in taken | {one.id} and hit.insight.directive is None
        ]
        verdict = dedup.judge(one.text, one.key, near, one.claim, simulated=one.simulated)
        if verdict.duplicate is None or one.id in taken:
            continue
        stays, goes = dedup.survivor(one, verdict.duplicate)
        taken |= {stays.id, goes.id}
        merges.append(_merge(stays, goes, verdict.why, now))
    return merges


def _twice(learned: Sequence[Insight]) -> set[str]:
    seen: set[str] = set()
    return {one.key for one in learned if one.key in seen or seen.add(one.key)}  # type: ignore[func-returns-value]


def _merge(stays: Insight, goes: Insight, why: str, now: datetime) -> ArchiveInsight:
    return ArchiveInsight(
        op_id=content_id("operation", "MERGE", goes.id, goes.revision, stays.id),
        insight_id=goes.id,
        ts=max(now, goes.validated_ts),
        author="dedup",
        reason=f"the same as {stays.id}: {why}"[:2000],
        cause="merged",
        by=stays.id,
        of_revision=goes.revision,
    )


@contextmanager
def upkeep_beside(settings: Settings, log: LogAppender, embedder: Embedder, *, every_s: float = EVERY_S) -> Iterator[None]:
    """Sweeps in a thread of its own, while the pipeline runs; none while nothing has changed."""
    end = threading.Event()
    thread = threading.Thread(target=_run, args=(settings, log, embedder, end.wait, every_s), name="upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _run(settings: Settings, log: LogAppender, embedder: Embedder, pause: Callable[[float], bool], every_s: float) -> None:
    seen: object = None
    while not pause(every_s):
        try:
            with _stores(settings) as (insights, episodes):
                now = _mark(insights, episodes)
                if now != seen:
                    sweep(log, insights, episodes, embedder)
                seen = now
        except BrainError as error:  # a store that is busy or not made yet is there at the next turn
            LOGGER.warning("no upkeep this time: %s", error)
        except Exception:  # a fault of ours; without this thread nothing would leave the context any more, and nobody would know
            LOGGER.exception("upkeep failed; it is tried again in %g s", every_s)


def _mark(insights: InsightStore, episodes: EpisodeStore | None) -> tuple[object, ...]:
    """What a sweep's outcome depends on: the hour of the market, and how far operations and signals are in the store."""
    now = event_time(insights, episodes)
    hour = None if now is None else int(now.timestamp() // 3600)
    return (hour, insights.next_offset(OPERATIONS.name, 0), insights.counts()[1])


def sweep_once(settings: Settings, log: LogAppender | None, embedder: Embedder | None = None) -> Sweep:
    """Open the stores for reading, sweep once, and close them.

    Raises:
        BrainError: there are no insights yet.
    """
    with _stores(settings) as (insights, episodes):
        return sweep(log, insights, episodes, embedder)


@contextmanager
def _stores(settings: Settings) -> Iterator[tuple[InsightStore, EpisodeStore | None]]:
    with ExitStack() as stack:
        insights = stack.enter_context(open_insights(settings))
        there = layout(settings).episodes.is_dir()
        yield insights, stack.enter_context(open_episodes(settings)) if there else None
