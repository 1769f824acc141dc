"""Insight updates as server-sent events: in order per insight, resumable, from any point of the log; and briefings beside them.

An event's id is the offset after it in each partition, ``12.0.7.3``; ``Last-Event-ID`` goes on there. A stream ends when its key is
revoked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.security import HTTPAuthorizationCredentials
from fastapi.sse import EventSourceResponse, ServerSentEvent

from gateway.errors import RequestProblem
from gateway.rest.guards import BEARER, Gatekeeper, Reader
from gateway.rest.problems import documented
from gateway.rest.reads import service_of
from gateway.views import insight_view
from gateway.writing import Log
from schemas.codec import ContractError, decode
from schemas.insights import InsightUpdate
from schemas.topics import INSIGHTS_UPDATED

router = APIRouter(prefix="/v1")

READ_RECORDS = 100
LOOK_S = 1.0
"""How long a look at the log takes when nothing comes; so long may a stream outlive its key or its client."""
_SOON_S = 0.02
Ends = dict[int, int]
"""The offset after the last record of each partition."""


class Place:
    """Where a stream stands: the next offset in each partition."""

    def __init__(self, offsets: dict[int, int]) -> None:
        self.offsets = offsets

    @classmethod
    def at_end(cls, log: Log) -> Place:
        """After all that is there."""
        return cls(log.end_offsets(INSIGHTS_UPDATED.name))

    @classmethod
    def at_start(cls, log: Log) -> Place:
        """Before all that is there."""
        return cls(log.start_offsets(INSIGHTS_UPDATED.name))

    @classmethod
    def parsed(cls, text: str, log: Log) -> Place:
        """Where an event's id points.

        Raises:
            RequestProblem: it is no event's id, or one of a longer log: what came since the log was replaced would be passed over.
        """
        ends = log.end_offsets(INSIGHTS_UPDATED.name)
        parts = text.split(".")
        if len(parts) != len(ends) or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
            raise RequestProblem("Last-Event-ID is not the id of one of these events", hint="leave it out to begin anew")
        offsets = {partition: int(part) for partition, part in enumerate(parts)}
        if any(offset > ends[partition] for partition, offset in offsets.items()):
            raise RequestProblem(
                "Last-Event-ID lies beyond the end of this log, which is another one or a restored one",
                hint="leave it out to begin anew, with start=beginning to get all there is",
                code="beyond_the_end",
            )
        return cls(offsets)

    @property
    def text(self) -> str:
        """As an event's id."""
        return ".".join(str(self.offsets[partition]) for partition in sorted(self.offsets))

    def behind(self, ends: Ends) -> bool:
        """Whether there may be something after it, by where the partitions end."""
        return any(end > self.offsets[partition] for partition, end in ends.items())

    def read(self, log: Log) -> list[tuple[str, InsightUpdate]]:
        """The next updates, each with the id of its event; what holds no update is passed over."""
        found: list[tuple[str, InsightUpdate]] = []
        for partition in sorted(self.offsets):
            for record in log.read(INSIGHTS_UPDATED.name, partition, self.offsets[partition], READ_RECORDS):
                self.offsets[partition] = record.offset + 1
                try:
                    update: InsightUpdate = decode(INSIGHTS_UPDATED.carries, record.value)
                except ContractError:
                    continue
                found.append((self.text, update))
        return found


class Lookout:
    """Waits for updates on behalf of every stream of an application: however many there are, one thread waits, and what else comes
    into the log wakes none of them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen: Ends | None = None
        self._wait: asyncio.Future[None] | None = None

    async def ends(self) -> Ends:
        """Where the partitions of the updates end."""
        return await asyncio.to_thread(self._log.end_offsets, INSIGHTS_UPDATED.name)

    async def changed(self, seen: Ends, seconds: float) -> None:
        """Return when the updates do not end where they were ``seen`` to, or after so many seconds; now and then sooner.

        Who comes while others wait for a change of another state looks again at once: its own may have come already.
        """
        loop = asyncio.get_running_loop()
        if self._wait is None or self._wait.done() or self._loop is not loop:
            self._loop, self._seen = loop, seen
            self._wait = asyncio.ensure_future(asyncio.to_thread(self._look, seen))
        waited = self._wait
        await asyncio.wait({waited}, timeout=seconds if self._seen == seen else min(seconds, _SOON_S))
        if waited.done():
            waited.result()

    def _look(self, seen: Ends) -> None:
        until = time.monotonic() + LOOK_S
        while True:
            log = self._log.changes()
            left = until - time.monotonic()
            if left <= 0 or self._log.end_offsets(INSIGHTS_UPDATED.name) != seen:
                return
            self._log.wait(log, left)
            time.sleep(_SOON_S)


def _beginning(
    request: Request,
    caller: Reader,
    start: Annotated[str, Query(pattern="^(now|beginning)$", description="where to begin without Last-Event-ID")] = "now",
    last_event_id: Annotated[str | None, Header(max_length=400)] = None,
) -> Place:
    """Where a stream begins; found before the stream does, so that a refusal is a problem and not a broken stream."""
    log = service_of(request).log
    if last_event_id:
        return Place.parsed(last_event_id, log)
    return Place.at_start(log) if start == "beginning" else Place.at_end(log)


@router.get("/updates", response_class=EventSourceResponse, responses=documented())
async def updates(
    request: Request,
    place: Annotated[Place, Depends(_beginning)],
    caller: Reader,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
    idle_s: Annotated[float | None, Query(ge=0, le=3600, description="end after so long without an update")] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Changes of insights as they are applied, and briefings as they are made; only the former have a place to go on from."""
    service = service_of(request)
    log = service.log
    keeper: Gatekeeper = request.app.state.keeper
    lookout: Lookout = request.app.state.lookout
    last = time.monotonic()
    latest = service.briefed(caller)
    heard = latest.number if latest else 0
    while credentials is not None and keeper.still_valid(credentials.credentials):
        seen = await lookout.ends()
        found = await asyncio.to_thread(place.read, log) if place.behind(seen) else []
        for event_id, update in found:
            plain = {"kind": update.kind, "revision": update.revision, "reason": update.reason, "operation_id": update.operation_id}
            yield ServerSentEvent(
                id=event_id, event="insight", data=plain | {"insight": insight_view(update.insight).model_dump(mode="json")}
            )
        if told := service.briefed(caller, heard):
            heard = told.number
            yield ServerSentEvent(event="briefing", data=told.view.model_dump(mode="json"))
        now = time.monotonic()
        if found:
            last = now
            continue
        if idle_s is not None and now - last >= idle_s:
            return
        left = LOOK_S if idle_s is None else min(LOOK_S, max(0.0, idle_s - (now - last)))
        await lookout.changed(seen, left)
