"""What was believed at a moment: the insights as they stood then, from their present state and their history.

The history keeps what each operation changed (``stores/sqlite/rows.py``), so the state after any of them is exact: words, claim,
evidence, votes, status. What an earlier version of the store wrote has no such changes: times, kinds and confidences, but no
words. An insight of that kind that was edited since is known to have existed, and how sure it was, but not what it said: it is
counted, not shown in words of a later day.

Operations apply in the order of revisions. One whose event time is after the moment was not known then, nor was any after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.insights import Insight, InsightStatus
from stores.sqlite import HistoryEntry, InsightFilter, InsightStore, Order, through
from stores.sqlite.rows import insight_after

_PAGE = 500
_KEEPS_WORDS = frozenset({"UPVOTE", "DOWNVOTE", "ARCHIVE", "RESTORE", "ADJUST"})
"""Operations that leave an insight's words as they are; of any other kind it is not assumed."""

_SHOWN = frozenset({InsightStatus.ACTIVE, InsightStatus.ARCHIVED})
"""What may be looked back at. What was forgotten is not, at whatever moment."""


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Insights that were active at a moment, and how many more there were in words that are not kept."""

    insights: tuple[Insight, ...]
    unknown: int


class WordsUnknown(Exception):
    """The insight was edited since, and an earlier version of the store did not keep what it said before."""


def believed_at(insight: Insight, history: Sequence[HistoryEntry], moment: datetime) -> Insight | None:
    """The insight as it stood at ``moment``; None where it did not exist yet.

    Raises:
        WordsUnknown: it existed, and said something else.
    """
    known = []
    for entry in history:
        if entry.ts > moment:
            break
        known.append(entry)
    if not known:
        return None
    if len(known) == len(history):
        return insight
    exact = insight_after(known)
    if exact is not None:
        return exact
    if any(entry.kind not in _KEEPS_WORDS for entry in history[len(known) :]):
        raise WordsUnknown
    kinds = [entry.kind for entry in known]
    out = next((kind == "ARCHIVE" for kind in reversed(kinds) if kind in ("ARCHIVE", "RESTORE")), False)
    said = [entry.evidence for entry in known if entry.evidence is not None and entry.kind in ("ADD", "EDIT")]
    latest = [entry.evidence for entry in known if entry.evidence is not None and entry.kind != "ADD"]
    return insight.model_copy(
        update={
            "revision": known[-1].revision,
            "confidence": known[-1].confidence_after,
            "status": InsightStatus.ARCHIVED if out else InsightStatus.ACTIVE,
            "archived": insight.archived if out else None,
            "evidence": said[-1] if said else None,
            "latest": latest[-1] if latest else None,
            "upvotes": kinds.count("UPVOTE"),
            "downvotes": kinds.count("DOWNVOTE"),
            "edits": kinds.count("EDIT"),
            "validated_ts": max(entry.ts for entry in known if entry.kind != "ARCHIVE"),
        }
    )


def beliefs_at(store: InsightStore, moment: datetime) -> Beliefs:
    """All insights that were active at ``moment``, of one state of the store. Reads every insight: for looking back, not for the
    hot path."""
    insights: list[Insight] = []
    unknown = 0
    with store.snapshot():
        every = InsightFilter(status=None)
        for present in through(lambda cursor: store.list(every, order=Order.RECENT, limit=_PAGE, cursor=cursor)):
            if present.created_ts > moment or present.status not in _SHOWN:
                continue
            try:
                then = believed_at(present, store.history(present.id), moment)
            except WordsUnknown:
                unknown += 1
                continue
            if then is not None and then.status is InsightStatus.ACTIVE:
                insights.append(then)
    return Beliefs(tuple(insights), unknown)
