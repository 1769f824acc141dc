"""What an operator does to the memory's own workings: recall's settings, dedup and learned ranking, changed and tried.

Mixed into :class:`~gateway.service.BrainService`, which owns the stores. Changes are operations in the log with their author, like
everything else, and hold for every process on the stores from the moment that they are applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from gateway.errors import NotFound, Unprocessable
from gateway.keys import Caller, Tier
from gateway.ranking import LearnedRanking, RankerState, most_used
from gateway.views import WriteView
from gateway.writing import Writing, made
from schemas.claims import Category
from schemas.insights import Insight, InsightStatus
from schemas.operations import RestoreInsight, TeachRanker, TuneRecall
from stores.recall.errors import BadRecall
from stores.recall.recall import Recall
from stores.recall.result import RecallResult
from stores.recall.tuned import Value, tuned
from stores.recall.tuning import RecallTuning
from stores.sqlite import InsightFilter
from stores.sqlite.links import Link, Organised
from stores.sqlite.tunings import Tuned
from workers import dedup, links
from workers.dedup import Candidate, DedupVerdict
from workers.links import Found as Tie


@dataclass(frozen=True, slots=True)
class Trial:
    """A question under some settings: the answer, and what would be found with nothing cut off."""

    tuning: RecallTuning
    result: RecallResult
    uncut: RecallResult


class Operating(Writing):
    """The operator's part of the service."""

    _recall: Recall

    # --- recall's settings

    def tuning(self, caller: Caller) -> RecallTuning:
        """Recall's settings in force."""
        caller.need(Tier.READ)
        return self._tuning()

    def tuned(self, caller: Caller) -> dict[str, Tuned]:
        """The settings that were changed, with who changed them and why."""
        caller.need(Tier.READ)
        return self._insights.tuned()

    def tune(
        self, caller: Caller, request_id: str, changes: Mapping[str, Value], *, reason: str = "", wait_s: float = 0.0
    ) -> WriteView:
        """Change some of recall's settings for everybody; no changes put all of them back to the defaults.

        Raises:
            Unprocessable: a name that is none, or a value that makes no sense with the others.
        """
        caller.need(Tier.ADMIN)
        try:
            tuned({name: one.value for name, one in self._insights.tuned().items()} | dict(changes))
        except BadRecall as error:
            raise Unprocessable(str(error), hint=error.hint, code="bad_tuning") from None
        said = self._said(caller, request_id, "recall-tuning", reason)
        return self._send(made(TuneRecall, **said, changes=dict(changes), reset=not changes), caller, request_id, wait_s)

    def try_recall(self, caller: Caller, query: str, changes: Mapping[str, Value], limit: int | None = None) -> Trial:
        """Ask under settings that are not in force: the present ones with some changes. Nothing is handed out or counted.

        Raises:
            BadRecall: settings that make no sense, or a limit under 1.
        """
        caller.need(Tier.READ)
        wanted = self._insights.tuned()
        tuning = self._based({name: one.value for name, one in wanted.items()} | dict(changes))
        open_door = replace(tuning, min_score=-1.0, grading=False, max_results=tuning.depth)
        now: datetime = self._clock()
        return Trial(
            tuning,
            self._recall.recall(query, limit=limit, now=now, tuning=tuning),
            self._recall.recall(query, limit=tuning.depth, now=now, tuning=open_door),
        )

    def _tuning(self) -> RecallTuning:
        return self._based({name: one.value for name, one in self._insights.tuned().items()})

    def _based(self, changes: Mapping[str, Value]) -> RecallTuning:
        return replace(self._recall.tuning, **{name: getattr(tuned(changes), name) for name in changes})

    def restore(self, caller: Caller, request_id: str, insight_id: str, reason: str, wait_s: float = 0.0) -> WriteView:
        """Bring what is archived back into context; what was merged does not come back."""
        self._existing(caller, Tier.FEEDBACK, insight_id)
        return self._send(RestoreInsight(**self._said(caller, request_id, insight_id, reason)), caller, request_id, wait_s)

    # --- dedup

    def try_dedup(self, caller: Caller, text: str, other: str | None = None, key: str = "*") -> DedupVerdict:
        """Would this sentence be kept beside the other one, or beside what is kept already? Nothing is written."""
        caller.need(Tier.READ)
        if other is None:
            hits = self._insights.knn(self._embedder.embed([text])[0], dedup.NEAREST, InsightFilter(key=key))
            return dedup.judge(text, key, [Candidate(hit.insight, hit.score) for hit in hits])
        one, second = self._embedder.embed([text, other])
        now = self._clock()
        kept = Insight(
            id="the-other-text", text=other, category=Category.GENERAL, confidence=1, revision=1, key=key, label="text",
            created_ts=now, validated_ts=now, author=caller.author,
        )  # fmt: skip
        return dedup.judge(text, key, [Candidate(kept, float(one @ second))])

    def note_events(self, caller: Caller) -> dict[str, int]:
        """How often each thing became of a note: new, reinforced, updated, …"""
        caller.need(Tier.READ)
        return self._insights.note_verdicts()

    # --- links

    def link_counts(self, caller: Caller) -> dict[str, int]:
        """How many links there are, by relation."""
        caller.need(Tier.READ)
        return self._insights.link_counts()

    def strongest_links(self, caller: Caller, limit: int, relation: str | None = None) -> tuple[Link, ...]:
        """The strongest links, of one relation or of all."""
        caller.need(Tier.READ)
        return self._insights.strongest_links(limit, relation)

    def links_of(self, caller: Caller, insight_id: str) -> tuple[Link, ...]:
        """Every link of an insight, to either side."""
        caller.need(Tier.READ)
        return self._insights.links([insight_id])

    def try_links(self, caller: Caller, insight_id: str, other_id: str | None = None) -> list[tuple[Insight, float, Tie | None]]:
        """How an insight bears on another one, or on those that stand nearest: each with the cosine and the link that follows.

        Raises:
            NotFound: one of them is not there.
        """
        caller.need(Tier.READ)
        one = self._kept(insight_id)
        vector = self._embedder.embed([one.text])[0]
        if other_id is not None:
            other = self._kept(other_id)
            near = [(other, float(vector @ self._embedder.embed([other.text])[0]))]
        else:
            hits = self._insights.knn(vector, links.CANDIDATES + 1)
            near = [(hit.insight, hit.score) for hit in hits if hit.insight.id != one.id][: links.CANDIDATES]
        return [(other, cosine, links.relate(one, other, cosine)) for other, cosine in near]

    def _kept(self, insight_id: str) -> Insight:
        found = self._insights.get(insight_id)
        if found is None or found.status is InsightStatus.FORGOTTEN:
            raise NotFound(f"there is no insight {insight_id!r}", hint="search or list to get ids")
        return found

    def organised(self, caller: Caller, insight_id: str) -> Organised | None:
        """Keywords and context note of an insight; None while nothing was said of it."""
        caller.need(Tier.READ)
        return self._insights.organised(insight_id)

    # --- learned ranking

    def ranker(self, caller: Caller) -> RankerState:
        """What the ranker learned, and whether it takes part in recall."""
        caller.need(Tier.READ)
        known = self._recall.preference
        return (known if isinstance(known, LearnedRanking) else LearnedRanking(self._insights, self._episodes)).state()

    def most_used(self, caller: Caller, since: datetime, limit: int = 10) -> list[tuple[str, int]]:
        """The memories used most often since a moment, and how often."""
        caller.need(Tier.READ)
        return most_used(self._insights, since, limit)

    def teach(
        self, caller: Caller, request_id: str, action: Literal["train", "reset"], *, reason: str = "", wait_s: float = 0.0
    ) -> WriteView:
        """Make the ranker learn from all uses so far, or count no use from before now; the memories stay as they are."""
        caller.need(Tier.ADMIN)
        said = self._said(caller, request_id, "ranker", reason)
        return self._send(made(TeachRanker, **said, action=action), caller, request_id, wait_s)
