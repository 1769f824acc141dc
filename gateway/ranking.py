"""The ranker over the stores: what was used, as the writer keeps it, taught to ``workers/ranker.py``.

Nothing learned is stored. The weights are a function of what the stores hold (uses, histories of confidence, the operator's marks),
so a brain that is rebuilt from its log has the same ones. They are worked out when the taught part of the uses has grown (every 50
uses, or when an operator asks), on the next question, and kept in memory until then.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from schemas.usage import MemoryUsed
from stores.episodes import EpisodeStore
from stores.recall.memories import Memory
from stores.recall.preference import Preferred
from stores.recall.tuning import recency
from stores.sqlite import InsightStore, Trail, through
from workers.ranker import MOST_USES, Features, Learned, RankerSettings, Shown, Use, blended, frequency, learn, taught

HALF_LIFE_DAYS = 30.0
DEFAULTS = RankerSettings()
_Taught = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RankerState:
    """What is known of the ranker: what it learned, how many uses there are, how many count since the last reset, and how many
    of those it has not been taught yet."""

    learned: Learned
    uses: int
    counted: int
    waiting: int
    settings: RankerSettings


class LearnedRanking:
    """A :class:`~stores.recall.preference.Preference` that learns from the stores. Safe to share between threads."""

    def __init__(self, insights: InsightStore, episodes: EpisodeStore | None, settings: RankerSettings = DEFAULTS) -> None:
        self._insights = insights
        self._episodes = episodes
        self._settings = settings
        self._lock = threading.Lock()
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._taught: _Taught | None = None
        self._state = RankerState(learn(()), 0, 0, 0, settings)

    def standing(self) -> tuple[bool, int]:
        """Whether it takes part in recall, and how many uses it has to learn from."""
        state = self.state()
        return state.learned.active, state.counted

    def state(self) -> RankerState:
        """The present state; learns first where more uses count than before."""
        with self._lock:
            seen = self._insights.progress()
            if seen != self._seen:
                self._look()
                self._seen = seen
            return self._state

    def prefer(self, scored: Sequence[tuple[Memory, float]], now: datetime) -> Mapping[str, Preferred] | None:
        """See :class:`~stores.recall.preference.Preference`."""
        learned = self.state().learned
        if not learned.active:
            return None
        since = now - timedelta(days=self._settings.window_days)
        counts = self._insights.use_counts([memory.id for memory, _ in scored], since)
        told = {}
        for memory, score in scored:
            used = counts[memory.id].used if memory.id in counts else 0
            sure = 1.0 if memory.confidence is None else float(memory.confidence)
            features = Features(memory.importance, recency(memory.ts, now, HALF_LIFE_DAYS), frequency(used), sure)
            chance = learned.chance(features)
            told[memory.id] = Preferred(blended(score, chance, self._settings.blend), chance, features.row())
        return told

    # --- learning

    def _look(self) -> None:
        marks = self._insights.ranker_marks()
        reset = max((mark.ts for mark in marks if mark.action == "reset"), default=None)
        before = 0 if reset is None else self._insights.uses_until(reset)
        forced = [
            self._insights.uses_until(mark.ts) for mark in marks if mark.action == "train" and (reset is None or mark.ts > reset)
        ]
        total = self._insights.uses_until()
        first, last = taught(total, before, forced, self._settings.train_every)
        learned = self._state.learned
        forgotten = self._insights.forgotten()
        if (first, last, forgotten) != self._taught:
            learned = learn(self._uses(first, last), self._settings)
            self._taught = (first, last, forgotten)
        self._state = RankerState(learned, total, total - first, total - last, self._settings)

    def _uses(self, first: int, last: int) -> list[Use]:
        """The taught uses, each shown memory as it was then. What is no longer kept teaches nothing."""
        begin = max(first, last - MOST_USES)
        reports = self._insights.uses_in_order(begin, last - begin)
        ids = {one for report in reports for one in report.all_recalled}
        trails = self._insights.trails(ids)
        episodes = self._episodes.brief(sorted(ids - trails.keys())) if self._episodes is not None else {}
        facts = _Facts(trails, episodes, _times_used(reports), timedelta(days=self._settings.window_days))
        return [Use(one.use_id, one.ts, shown) for one in reports if (shown := facts.shown(one))]


@dataclass(frozen=True, slots=True)
class _Facts:
    trails: Mapping[str, Trail]
    episodes: Mapping[str, tuple[datetime, float]]
    used: Mapping[str, list[datetime]]
    window: timedelta

    def shown(self, report: MemoryUsed) -> tuple[Shown, ...]:
        """The memories of a report, with the scores they had; where those are not known, falling with their place."""
        used = set(report.used)
        recalled = report.all_recalled
        known = len(report.scores) == len(report.recalled) == len(recalled)
        scores = report.scores if known else [1.0 - 0.5 * place / len(recalled) for place in range(len(recalled))]
        told = []
        for one, score in zip(recalled, scores, strict=True):
            features = self._features(one, report.ts)
            if features is not None:
                told.append(Shown(features, score, one in used))
        return tuple(told)

    def _features(self, one: str, moment: datetime) -> Features | None:
        if one in self.trails:
            ts, sure = self.trails[one].at(moment)
            weight = self.trails[one].importance
        elif one in self.episodes:
            (ts, weight), sure = self.episodes[one], 1.0
        else:
            return None
        moments = self.used.get(one, [])
        often = bisect_left(moments, moment) - bisect_left(moments, moment - self.window)
        return Features(weight, recency(ts, moment, HALF_LIFE_DAYS), frequency(often), sure)


def _times_used(reports: Sequence[MemoryUsed]) -> dict[str, list[datetime]]:
    """When each memory was used, in order."""
    times: dict[str, list[datetime]] = {}
    for report in reports:
        for one in dict.fromkeys(report.used):
            times.setdefault(one, []).append(report.ts)
    return times


def most_used(insights: InsightStore, since: datetime, limit: int) -> list[tuple[str, int]]:
    """The memories used most often since a moment, and how often."""
    counted: Counter[str] = Counter()
    latest_first = through(lambda cursor: insights.uses(limit=1000, cursor=cursor))
    for report in takewhile(lambda one: one.ts >= since, latest_first):
        counted.update(set(report.used))
    return sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:limit]
