"""Writes: every one becomes a record in the log with its author, is idempotent by the caller's request id, and can be waited for.

The id of an operation follows from its author and request id, so a retry is the same operation, and nobody can take another's id.
What was sent before under an id is compared: the same request gets the same answer, another one is a conflict. Before it is
applied, two different requests under one id may both reach the log; the first in order wins and the second is told so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from gateway.errors import Conflict, NotFound, RequestProblem, Unprocessable
from gateway.handed import Handed
from gateway.keys import Caller, Tier
from gateway.quoting import has_marks
from gateway.views import WriteView
from schemas.claims import Category
from schemas.codec import ContractError, decode
from schemas.dead_letters import DeadLetter
from schemas.events import ToolExecution
from schemas.identity import content_id
from schemas.operations import (
    AdjustInsight,
    ArchiveInsight,
    DownvoteInsight,
    ForgetInsight,
    RememberNote,
    Similar,
    SubmitDirective,
)
from schemas.portfolio import PortfolioValuation
from schemas.topics import OPERATIONS, RECORDS_REJECTED
from schemas.usage import MemoryUsed
from stores.episodes import EpisodeStore
from stores.recall.sources import Embedder
from stores.sqlite import Fate, InsightFilter, InsightStore
from streams.log import Change, LogAppender, LogReader
from streams.publisher import Publisher
from workers.ledger import Operation
from workers.stage import Position

T = TypeVar("T")

MAX_WAIT_S = 30.0
_LOOK_AGAIN_S = 0.25
"""What a store commits in another process wakes nobody here by itself."""
_REST = 9.0
"""A look is followed by a rest so many times as long, at most the above: on a busy log every record wakes whoever waits, and a look
for an episode costs milliseconds, so a few who wait would take a processor for themselves."""
NEAREST = 8


class Log(LogAppender, LogReader, Protocol):
    """What writes need of a log."""


class Writing:
    """The writing half of the service. Safe to share between threads."""

    def __init__(
        self,
        log: Log,
        insights: InsightStore,
        episodes: EpisodeStore | None,
        embedder: Embedder,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._insights = insights
        self._episodes = episodes
        self._embedder = embedder
        self._clock = clock
        self._monotonic = monotonic
        self._handed = Handed()

    # --- operations

    def downvote(self, caller: Caller, request_id: str, insight_id: str, reason: str, wait_s: float = 0.0) -> WriteView:
        """Disagree with an insight: −0.15.

        Raises:
            NotAllowed, NotFound, Conflict, Unprocessable: see :meth:`_send`.
        """
        self._existing(caller, Tier.FEEDBACK, insight_id)
        return self._send(DownvoteInsight(**self._said(caller, request_id, insight_id, reason)), caller, request_id, wait_s)

    def archive(self, caller: Caller, request_id: str, insight_id: str, reason: str, wait_s: float = 0.0) -> WriteView:
        """Take an insight, note or directive out of context; it is kept."""
        self._existing(caller, Tier.FEEDBACK, insight_id)
        return self._send(ArchiveInsight(**self._said(caller, request_id, insight_id, reason)), caller, request_id, wait_s)

    def adjust(
        self,
        caller: Caller,
        request_id: str,
        insight_id: str,
        reason: str,
        *,
        confidence: Decimal | None = None,
        delta: Decimal | None = None,
        wait_s: float = 0.0,
    ) -> WriteView:
        """Set an insight's confidence, or move it by ``delta``."""
        self._existing(caller, Tier.FEEDBACK, insight_id)
        said = self._said(caller, request_id, insight_id, reason)
        return self._send(made(AdjustInsight, **said, confidence=confidence, delta=delta), caller, request_id, wait_s)

    def forget(self, caller: Caller, request_id: str, insight_id: str, reason: str, wait_s: float = 0.0) -> WriteView:
        """Delete an insight from the stores for good. Needs an admin key."""
        self._existing(caller, Tier.ADMIN, insight_id)
        return self._send(ForgetInsight(**self._said(caller, request_id, insight_id, reason)), caller, request_id, wait_s)

    def direct(
        self,
        caller: Caller,
        request_id: str,
        text: str,
        *,
        feedback_type: str,
        priority: str = "medium",
        expires_at: datetime | None = None,
        reason: str = "",
        wait_s: float = 0.0,
    ) -> WriteView:
        """Submit an operator's directive."""
        caller.need(Tier.FEEDBACK)
        said = self._said(caller, request_id, self._own_id("directive", caller, request_id), reason)
        directive = made(SubmitDirective, **said, text=text, feedback_type=feedback_type, priority=priority, expires_at=expires_at)
        return self._send(directive, caller, request_id, wait_s)

    def remember(
        self,
        caller: Caller,
        request_id: str,
        text: str,
        *,
        category: Category = Category.GENERAL,
        key: str = "*",
        importance: float = 0.0,
        corrects: str | None = None,
        reason: str = "",
        wait_s: float = 0.0,
    ) -> WriteView:
        """Write a note down. What stands near it is measured now and goes into the record; the writer decides what it does."""
        caller.need(Tier.FEEDBACK)
        if has_marks(text):
            raise Unprocessable(
                "this is text that the memory handed out, not something learned",
                hint="say it in your own words",
                code="recalled_text",
            )
        said = self._said(caller, request_id, self._own_id("note", caller, request_id), reason)
        fields = {"text": text, "category": category, "key": key, "importance": importance, "corrects": corrects}
        checked = made(RememberNote, **said, **fields)
        similar = self._near(checked)
        ids = [one.insight_id for one in similar]
        recalled = sorted(self._handed.to(caller.author, ids) | self._insights.handed_to(caller.author, ids))
        note = made(RememberNote, **said, **fields, similar=similar, recalled=tuple(recalled))
        return self._send(note, caller, request_id, wait_s)

    def _near(self, note: RememberNote) -> tuple[Similar, ...]:
        vector = self._embedder.embed([note.text])[0]
        hits = self._insights.knn(vector, NEAREST, InsightFilter(key=note.key))
        return tuple(Similar(insight_id=hit.insight.id, similarity=round(max(-1.0, min(1.0, hit.score)), 6)) for hit in hits)

    def operation(self, caller: Caller, request_id: str, wait_s: float = 0.0) -> WriteView:
        """What became of one of the caller's own operations.

        Raises:
            NotFound: the writer has seen none under this request id (yet).
        """
        op_id = self._op_id(caller, request_id)
        place = self._wait(lambda: self._insights.applied_place(op_id), wait_s)
        if place is None:
            raise NotFound(
                f"nothing of yours under request id {request_id!r} has been applied",
                hint="it is pending or was refused: send it again under the same id to hear which",
            )
        return self._told(request_id, op_id, Fate("applied", place=place), duplicate=True)

    # --- sending and waiting

    def _existing(self, caller: Caller, tier: Tier, insight_id: str) -> None:
        caller.need(tier)
        if self._insights.get(insight_id) is None:
            raise NotFound(f"there is no insight {insight_id!r}", hint="search or list to get ids")

    def _said(self, caller: Caller, request_id: str, insight_id: str, reason: str) -> dict[str, Any]:
        if "\x00" in reason or len(reason) > 2000:
            raise Unprocessable("a reason has at most 2,000 characters and no NUL", code="contract_violation")
        return {
            "op_id": self._op_id(caller, request_id),
            "insight_id": insight_id,
            "ts": self._clock(),
            "author": caller.author,
            "reason": reason,
        }

    def _op_id(self, caller: Caller, request_id: str) -> str:
        if not 1 <= len(request_id) <= 128 or not request_id.isprintable():
            raise RequestProblem("a request id is 1 to 128 printable characters", hint="one UUID an intention, kept on retry")
        return content_id("client-operation", caller.author, request_id)

    def _own_id(self, kind: str, caller: Caller, request_id: str) -> str:
        return content_id(kind, self._op_id(caller, request_id))

    def _send(self, operation: Operation, caller: Caller, request_id: str, wait_s: float) -> WriteView:
        """Append an operation, unless it is there already, and say what became of it."""
        before = self._insights.applied_place(operation.op_id)
        if before is not None:
            self._same(operation, before, request_id)
            return self._told(request_id, operation.op_id, Fate("applied", place=before), duplicate=True)
        position = self._publish(operation)
        place = (position.topic, position.partition, position.offset)
        fate = self._settled(lambda: self._insights.fate(operation.op_id, place), wait_s)
        if fate.state == "applied" and fate.place is not None and fate.place != place:
            self._same(operation, fate.place, request_id)
            return self._told(request_id, operation.op_id, fate, duplicate=True)
        return self._told(request_id, operation.op_id, fate, insight_id=operation.insight_id)

    def _same(self, operation: Operation, place: tuple[str, int, int], request_id: str) -> None:
        """Whether what was applied under this id is what is asked for now.

        Raises:
            Conflict: it is not.
        """
        (record,) = self._log.read(place[0], place[1], place[2], 1)
        applied: Operation = decode(OPERATIONS.carries, record.value)
        if _essence(applied) != _essence(operation):
            raise Conflict(
                f"request id {request_id!r} was used for another write of yours", hint="use a new id for a new intention"
            )

    def _publish(self, message: Operation | MemoryUsed | ToolExecution | PortfolioValuation) -> Position:
        try:
            return Publisher(self._log, source="gateway").publish(message)
        except ContractError as error:
            raise Unprocessable(error.detail, code=error.reason) from None
        except UnicodeError:
            raise Unprocessable("it holds text that is no valid Unicode", code="not_utf8") from None
        except ValueError:  # what cannot be written down at all: pydantic stops at some 250 levels
            raise Unprocessable("it is nested deeper than can be written", code="too_deep") from None

    def _rejected(self, position: Position, first: int) -> Fate | None:
        """The dead letter of a record, among those from an offset on."""
        offset = first
        while records := self._log.read(RECORDS_REJECTED.name, 0, offset, 200):
            offset = records[-1].offset + 1
            for record in records:
                try:
                    letter: DeadLetter = decode(RECORDS_REJECTED.carries, record.value)
                except ContractError:
                    continue
                if (letter.topic, letter.partition, letter.offset) == (position.topic, position.partition, position.offset):
                    return Fate("refused", letter.reason, letter.detail)
        return None

    def _told(
        self, request_id: str, op_id: str, fate: Fate, *, duplicate: bool = False, insight_id: str | None = None
    ) -> WriteView:
        if fate.state != "applied":
            return view_of(request_id, op_id, fate, insight_id=insight_id)
        changed = self._insights.changed_by(op_id)
        verdict = self._insights.note_verdict(op_id)
        held = verdict.insight_id if verdict else changed[0].insight_id if changed else insight_id
        after = next((entry.confidence_after for entry in changed if entry.insight_id == held), None)
        return WriteView(
            request_id=request_id,
            operation_id=op_id,
            state="applied",
            duplicate=duplicate,
            insight_id=held,
            event=verdict.event if verdict else None,
            confidence=None if after is None else float(after),
            detail=verdict.why if verdict else None,
        )

    def _settled(self, look: Callable[[], Fate], wait_s: float) -> Fate:
        def settled() -> Fate | None:
            fate = look()
            return fate if fate.state != "pending" else None

        return self._wait(settled, wait_s) or Fate("pending")

    def _wait(self, look: Callable[[], T | None], wait_s: float) -> T | None:
        """What ``look`` finds, now or within the time."""
        deadline = self._monotonic() + min(wait_s, MAX_WAIT_S)
        while True:
            seen: Change = self._log.changes()
            began = self._monotonic()
            found = look()
            now = self._monotonic()
            if found is not None or now >= deadline:
                return found
            time.sleep(min(_REST * (now - began), _LOOK_AGAIN_S, deadline - now))
            self._log.wait(seen, max(0.0, min(deadline - self._monotonic(), _LOOK_AGAIN_S)))


def made(contract: type[T], /, **fields: Any) -> T:
    """A contract from outside values.

    Raises:
        Unprocessable: they do not fit it.
    """
    try:
        return contract(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise Unprocessable(f"{where + ': ' if where else ''}{first['msg']}"[:500], code=first["type"]) from None


def _essence(operation: Operation) -> dict[str, Any]:
    """What makes two requests the same one: not when they came, nor what was measured then."""
    return operation.model_dump(mode="json", exclude={"ts", "similar", "recalled", "schema_version"})


def view_of(request_id: str, op_id: str, fate: Fate, *, insight_id: str | None = None, duplicate: bool = False) -> WriteView:
    """A write for its caller."""
    return WriteView(
        request_id=request_id,
        operation_id=op_id,
        state=fate.state,
        duplicate=duplicate,
        insight_id=insight_id,
        reason=fate.reason or None,
        detail=fate.detail or None,
    )
