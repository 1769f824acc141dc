"""Retrieve, augment, execute, reflect, store: the loop around a tool, as a decorator and as an async context manager.

The memory helps and never stands in the way. Whatever fails in asking or telling it — it is down, slow, or refuses — is logged and
kept in the context, and the tool runs and returns, or raises, as it would without. What is published of an execution is what the
tool says of it; recalled text has no way into it (law 9).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from gateway.keys import Caller
from gateway.middleware.context import MemoryContext
from gateway.service import LEARNED, BrainService
from schemas.episodes import FeatureCell
from schemas.types import iso
from stores.places import takes_in
from stores.recall.filters import RecallFilters
from stores.recall.memories import Kind
from stores.recall.triples import split_key

LOGGER = logging.getLogger(__name__)
T = TypeVar("T")
Tool = TypeVar("Tool", bound=Callable[..., Any])

EPISODES = 3
INSIGHTS = 5
MIN_CONFIDENCE = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class Situation:
    """What is about to be done: the question for the memory, and where it belongs. ``features`` are known before the decision."""

    tool: str
    query: str
    chain_id: int | None = None
    pair: str | None = None
    regime: str | None = None
    features: Mapping[str, FeatureCell] = field(default_factory=dict)


class MemoryLoop:
    """The memory around the tools of one agent. ``timeout_s`` is the longest that a tool waits for it, before and after.

    ``new_id`` makes request ids; tests pass their own. Close it, or use it in a ``with``.
    """

    def __init__(
        self,
        service: BrainService,
        caller: Caller,
        *,
        timeout_s: float = 2.0,
        max_chars: int = 4_000,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._service = service
        self._caller = caller
        self._timeout_s = timeout_s
        self._max_chars = max_chars
        self._new_id = new_id
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="memory")

    def close(self) -> None:
        """Let go of the threads; one that hangs is not waited for here, but the interpreter waits for it before it ends."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> MemoryLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the two halves

    def retrieve(self, situation: Situation) -> MemoryContext:
        """What bears on a situation; an empty context where the memory cannot say."""
        asked: Future[MemoryContext] | None = None
        try:
            asked = self._threads.submit(self._retrieve, situation)
            return asked.result(self._timeout_s)
        except Exception as error:
            return self._without(error, situation)
        finally:
            if asked is not None:
                asked.cancel()  # nobody waits for it any more: while the memory hangs, questions must not pile up

    def report(self, situation: Situation, context: MemoryContext, error: BaseException | None = None) -> None:
        """Publish the execution and what was used. Never raises. Where it takes too long, it goes on and may still succeed."""
        try:
            self._threads.submit(self._report, situation, context, error).result(self._timeout_s)
            context.reported = True
        except Exception as failure:
            self._untold(failure, context)

    def _without(self, error: Exception, situation: Situation) -> MemoryContext:
        LOGGER.warning("%s runs without memory: %s", situation.tool, _said(error))
        return MemoryContext(features=situation.features, available=False, problem=_said(error))

    def _untold(self, error: Exception, context: MemoryContext) -> None:
        context.problem = context.problem or _said(error)
        LOGGER.warning("an execution was not recorded: %s", _said(error))

    def _retrieve(self, situation: Situation) -> MemoryContext:
        service, caller = self._service, self._caller
        now = service.now()
        chain = None if situation.chain_id is None else str(situation.chain_id)
        # Not narrowed to the pair: here it is a name, and a record key may have the tokens' addresses in its place.
        believed = RecallFilters(
            kinds=frozenset({Kind.INSIGHT}),
            tool=situation.tool,
            chain=chain,
            categories=frozenset(LEARNED),
            min_confidence=MIN_CONFIDENCE,
            include_simulated=False,
        )
        happened = RecallFilters(kinds=frozenset({Kind.EPISODE}), tool=situation.tool, chain=chain, include_simulated=False)
        asked = {"now": now, "regime": situation.regime}
        insights = service.recall(caller, situation.query, believed, INSIGHTS, **asked)  # type: ignore[arg-type]
        episodes = service.recall(caller, situation.query, happened, EPISODES, **asked)  # type: ignore[arg-type]
        return MemoryContext(
            directives=tuple(
                one for one in service.directives(caller, now=now) if takes_in(split_key(one.key), situation.tool, chain, None)
            ),
            insights=service.still_there(caller, [hit.id for hit in insights.result.hits]),
            episodes=episodes.result.hits,
            features=situation.features,
            max_chars=self._max_chars,
            recall_ids=(insights.recall_id, episodes.recall_id),
            breakers=service.breakers(caller, now=now),
        )

    def _report(self, situation: Situation, context: MemoryContext, error: BaseException | None) -> None:
        execution: dict[str, Any] = {
            "tool": situation.tool,
            "status": "success" if error is None else "failed",
            "ts_executed": iso(self._service.now()),
            "features": dict(situation.features),
            **({"chain_id": situation.chain_id} if situation.chain_id is not None else {}),
            **({"pair": situation.pair} if situation.pair is not None else {}),
            **({"error": f"{type(error).__name__}: {error}"[:1000]} if error is not None else {}),
            **context.outcome,
        }
        done = self._service.record_execution(self._caller, self._new_id(), execution)
        if context.ids:
            self._service.mark_used(
                self._caller,
                self._new_id(),
                tuple(context.used),
                recalled=context.ids[:100],
                event_id=done.operation_id,
                ended="success" if execution["status"] == "success" else "failure",
            )

    # --- around a tool

    @asynccontextmanager
    async def around(self, situation: Situation) -> AsyncIterator[MemoryContext]:
        """The loop around a block of code; what the block raises is recorded as a failure and raised on."""
        context = await self._asked(situation)
        failure: BaseException | None = None
        try:
            yield context
        except BaseException as error:
            failure = error
            raise
        finally:
            await self._tell(situation, context, failure)

    async def _asked(self, situation: Situation) -> MemoryContext:
        try:
            asked = asyncio.wrap_future(self._threads.submit(self._retrieve, situation))
            try:
                return await self._within(asked)
            finally:
                asked.cancel()
        except Exception as error:
            return self._without(error, situation)

    async def _tell(self, situation: Situation, context: MemoryContext, failure: BaseException | None) -> None:
        try:
            sent = asyncio.wrap_future(self._threads.submit(self._report, situation, context, failure))
            sent.add_done_callback(lambda done: done.cancelled() or done.exception())  # one that fails later is nobody's
            await self._within(sent)
            context.reported = True
        except Exception as error:
            self._untold(error, context)

    async def _within(self, future: asyncio.Future[T]) -> T:
        """What comes within the time. That a loop was closed, which cancels what waits in it, does not cancel the tool."""
        await asyncio.wait({future}, timeout=self._timeout_s)
        if not future.done():
            raise TooSlow
        if future.cancelled():
            raise RuntimeError("the memory loop was closed")
        return future.result()


def _said(error: Exception) -> str:
    return "it took too long" if isinstance(error, (TooSlow, TimeoutError)) else f"{type(error).__name__}: {error}"


def with_memory(loop: MemoryLoop, describe: Callable[..., Situation]) -> Callable[[Tool], Tool]:
    """Give a function a memory: ``describe`` gets its arguments and says what is about to be done; the function gets a
    :class:`MemoryContext` as its argument ``memory``. For plain and for async functions."""

    def decorate(tool: Tool) -> Tool:
        if inspect.iscoroutinefunction(tool):

            @functools.wraps(tool)
            async def around(*args: Any, **kwargs: Any) -> Any:
                async with loop.around(describe(*args, **kwargs)) as context:
                    return await tool(*args, memory=context, **kwargs)

            return around  # type: ignore[return-value]

        @functools.wraps(tool)
        def about(*args: Any, **kwargs: Any) -> Any:
            situation = describe(*args, **kwargs)
            context = loop.retrieve(situation)
            try:
                result = tool(*args, memory=context, **kwargs)
            except BaseException as error:
                loop.report(situation, context, error)
                raise
            loop.report(situation, context)
            return result

        return about  # type: ignore[return-value]

    return decorate
