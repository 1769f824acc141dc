"""The circuit breaker at work: a lock, a clock and a time limit around ``workers/breakers/call.py``, for sync and async callers.

Every call to the outside of this process and its stores goes through one: a model's endpoint, a webhook, a token server. A sync
call runs in a thread of its own so that the time limit holds whatever it does; one that hangs beyond it is left to itself, and by
the fifth the circuit is open, so they do not pile up.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from schemas.errors import BrainError
from workers.breakers.call import Circuit, End, Phase, Rules, Ticket, admit, settle

T = TypeVar("T")


class CircuitOpen(BrainError):
    """The call was not made: too many before it failed. ``retry_in_s`` seconds from now one is let through."""

    def __init__(self, name: str, retry_in_s: float) -> None:
        super().__init__(f"{name} is not called: its circuit is open", hint=f"it is tried again in {retry_in_s:.0f} s")
        self.retry_in_s = retry_in_s


class TookTooLong(BrainError):
    """The call had no answer within its time."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(f"{name} had no answer within {timeout_s:g} s")


@dataclass(frozen=True, slots=True)
class Seen:
    """A breaker's state for those who watch: calls ``counted`` by how they ended (``ok``, ``failed``, ``timeout``, ``refused``)."""

    name: str
    phase: Phase
    retry_in_s: float
    opened: int
    counted: dict[str, int]


class Breaker:
    """One circuit. Safe to share between threads and event loops.

    ``innocent`` are errors that say nothing against the other side (it answered, and it was our request that was wrong): they are
    raised, and count as an answer.
    """

    def __init__(
        self,
        name: str,
        rules: Rules | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        innocent: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.name = name
        self.rules = rules or Rules()
        self._clock = clock
        self._innocent = innocent
        self._lock = threading.Lock()
        self._circuit = Circuit()
        self._opened = 0
        self._counted: Counter[str] = Counter()

    def call(self, work: Callable[[], T], fallback: Callable[[Exception], T] | None = None) -> T:
        """What ``work`` returns, or what ``fallback`` makes of the error.

        Raises:
            CircuitOpen, TookTooLong: and there is no fallback.
        """
        try:
            with self._counting():
                return _within(work, self.rules.timeout_s, self.name)
        except Exception as error:
            if fallback is None:
                raise
            return fallback(error)

    async def acall(self, work: Callable[[], Awaitable[T]], fallback: Callable[[Exception], T] | None = None) -> T:
        """The same for a coroutine.

        Raises:
            CircuitOpen, TookTooLong: and there is no fallback.
        """
        try:
            with self._counting():
                return await self._awaited(work)
        except Exception as error:
            if fallback is None:
                raise
            return fallback(error)

    async def _awaited(self, work: Callable[[], Awaitable[T]]) -> T:
        limit = asyncio.timeout(self.rules.timeout_s)
        try:
            async with limit:
                return await work()
        except TimeoutError:
            if limit.expired():
                raise TookTooLong(self.name, self.rules.timeout_s) from None
            raise

    def seen(self) -> Seen:
        """Its state now."""
        with self._lock:
            wait = self._circuit.reopens_in(self.rules, self._clock())
            return Seen(self.name, self._circuit.phase, wait, self._opened, dict(self._counted))

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """A call that is let through, and how it ended.

        Raises:
            CircuitOpen: it is not let through.
        """
        ticket = self._admitted()
        try:
            yield
        except BaseException as error:
            self._ended(ticket, error)
            raise
        self._ended(ticket, None)

    def _admitted(self) -> Ticket:
        with self._lock:
            now = self._clock()
            self._circuit, ticket = admit(self._circuit, self.rules, now)
            if ticket is None:
                self._counted["refused"] += 1
                raise CircuitOpen(self.name, self._circuit.reopens_in(self.rules, now))
            return ticket

    def _ended(self, ticket: Ticket, error: BaseException | None) -> None:
        if error is None or isinstance(error, self._innocent):
            end = End.OK
        elif isinstance(error, Exception):
            end = End.FAILED
        else:  # cancelled, interrupted: the caller's own affair
            end = End.ABANDONED
        name = "timeout" if isinstance(error, TookTooLong) else end.value
        with self._lock:
            before = self._circuit.phase
            self._circuit = settle(self._circuit, self.rules, ticket, end, self._clock())
            self._opened += int(self._circuit.phase is Phase.OPEN and before is not Phase.OPEN)
            self._counted[name] += 1


def _within(work: Callable[[], T], timeout_s: float, name: str) -> T:
    """What ``work`` returns, in a thread of its own, within the time."""
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            done.put((context.run(work), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=run, name=f"call-{name}", daemon=True).start()
    try:
        found, error = done.get(timeout=timeout_s)
    except queue.Empty:
        raise TookTooLong(name, timeout_s) from None
    if error is not None:
        raise error
    return found  # type: ignore[no-any-return]
