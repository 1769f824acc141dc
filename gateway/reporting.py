"""What callers report: which memories went into a decision, and what a tool did. Mixed into
:class:`~gateway.service.BrainService`.

An execution's identity is its own (``event_id``, or chain and transaction), so that whoever saw it may report it; without one it
follows from the request id, and then another execution under that id is a conflict. What the episodes would pass over as seen
before is not sent again, and what changes an episode (pending, then final; retracted) is waited for until it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gateway.errors import Conflict, Gone, NotFound, Unprocessable
from gateway.keys import Caller, Tier
from gateway.quoting import has_marks
from gateway.views import WriteView
from gateway.writing import Writing, made, view_of
from schemas.codec import decode
from schemas.episodes import Episode, episode_id
from schemas.events import Status, ToolExecution
from schemas.identity import content_id
from schemas.topics import MEMORY_USED, RECORDS_REJECTED
from schemas.usage import MemoryUsed
from stores.episodes.merge import Effect, Kept, judge
from stores.sqlite import Fate
from workers.stage import Position

_NEXT = Position("", 0, 1)


class Reporting(Writing):
    """Uses and executions."""

    def mark_used(
        self,
        caller: Caller,
        request_id: str,
        used: Sequence[str],
        *,
        recall_id: str | None = None,
        recalled: Sequence[str] = (),
        event_id: str | None = None,
        ended: str = "unknown",
        wait_s: float = 0.0,
    ) -> WriteView:
        """Report which memories went into a decision. ``recall_id`` names the answer that they came with.

        Raises:
            NotFound: there was no such answer to this caller.
            Conflict: another use was reported under this request id.
        """
        caller.need(Tier.FEEDBACK)
        self._op_id(caller, request_id)
        handed = tuple(recalled)
        if recall_id is not None:
            answered = self._handed.of_answer(recall_id, caller.author)
            if answered is None:
                raise NotFound(f"no answer {recall_id!r} was given to you", hint="leave recall_id out and list the recalled ids")
            handed = (*answered, *handed)
        scores = self._handed.scores_of(recall_id, caller.author) if recall_id is not None else ()
        shown = tuple(dict.fromkeys(handed))
        use_id = content_id("use", caller.author, request_id)
        use = made(
            MemoryUsed,
            use_id=use_id,
            agent_id=caller.author,
            ts=self._clock(),
            recalled=shown,
            scores=scores if len(scores) == len(shown) else (),
            used=tuple(dict.fromkeys(used)),
            event_id=event_id,
            ended=ended,
        )
        position = self._publish(use)
        place = (position.topic, position.partition, position.offset)
        fate = self._settled(lambda: self._insights.fate_of_use(use_id, place), wait_s)
        before = fate.place if fate.place not in (None, place) else None
        if before is not None:
            (record,) = self._log.read(before[0], before[1], before[2], 1)
            if _told(decode(MEMORY_USED.carries, record.value)) != _told(use):
                raise self._reused(request_id)
        return view_of(request_id, use_id, fate, duplicate=before is not None)

    def record_execution(self, caller: Caller, request_id: str, execution: dict[str, Any], wait_s: float = 0.0) -> WriteView:
        """Publish what a tool did; the pipeline makes an episode of it. ``insight_id`` of the answer is the episode's id.

        Raises:
            Unprocessable: it is no valid tool execution; the reason is the contract's.
            NotAllowed: it is another agent's, and the key is not an admin key.
            Conflict: it has no identity of its own, and another one was recorded under this request id.
            Gone: its episode was forgotten.
        """
        caller.need(Tier.FEEDBACK)
        self._op_id(caller, request_id)
        fields = {"agent_id": caller.author, **execution}
        if fields["agent_id"] != caller.author:
            caller.need(Tier.ADMIN)
        named = bool(fields.get("event_id") or fields.get("tx_hash"))
        if not named:
            fields["event_id"] = content_id("execution", caller.author, request_id)
        if has_marks(json.dumps(execution, default=str)):
            raise Unprocessable("it holds text that the memory handed out", hint="record what happened only", code="recalled_text")
        event = made(ToolExecution, **{str(name): value for name, value in fields.items()})
        episode = episode_id(event)

        def seen() -> bool | None:
            """Whether the episodes hold what this event says, or would pass it over; None where they still have to take it."""
            kept = self._episodes.get(episode) if self._episodes is not None else None
            if kept is None or not _passes_over(kept, event):
                return None
            if kept.forgotten is not None:
                raise Gone(f"episode {episode} was forgotten")
            if not named and _said(kept.event) != _said(event):
                raise self._reused(request_id)
            return True

        if seen():
            return view_of(request_id, event.event_id, Fate("applied"), insight_id=episode, duplicate=True)
        first = self._log.end_offsets(RECORDS_REJECTED.name)[0]
        position = self._publish(event)
        fate = self._wait(lambda: Fate("applied") if seen() else self._rejected(position, first), wait_s) or Fate("pending")
        return view_of(request_id, event.event_id, fate, insight_id=episode)

    @staticmethod
    def _reused(request_id: str) -> Conflict:
        return Conflict(f"request id {request_id!r} was used for another report of yours", hint="use a new id for a new one")


def _passes_over(kept: Episode, event: ToolExecution) -> bool:
    """Whether a record of this event, coming next, changes nothing of its episode; ``stores/episodes/merge.py`` says what does."""
    before = ((_NEXT.partition, _NEXT.offset - 1),)
    row = Kept(kept.event.status is Status.PENDING, kept.event.removed, kept.event.block_hash, before)
    return kept.forgotten is not None or judge(row, _NEXT, event) is Effect.DUPLICATE


def _said(event: ToolExecution) -> dict[str, Any]:
    return event.model_dump(mode="json", exclude={"ts_unit", "schema_version"})


def _told(use: MemoryUsed) -> dict[str, Any]:
    return use.model_dump(mode="json", exclude={"ts", "scores", "schema_version"})
