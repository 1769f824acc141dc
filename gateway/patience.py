"""Waiting beside answering: whoever waits for a write to be applied does not stand in the way of those who only ask.

Requests are worked on in threads, and there are forty for all of them. While the stages stand still or are behind, a write that
waits holds its thread for seconds; forty of those would stop every other answer, also of what an agent must know before it acts.
So they have threads of their own, and when those are all taken a write is told at once that it is pending, which it may be anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")
MOST = 100
"""How many may wait at once. A thread that waits costs little: it looks at the store four times a second, or when the log grows."""


class Patience:
    """Runs writes that wait up to ``wait_s`` seconds, at most ``most`` of them at once. One for each application and event loop."""

    def __init__(self, wait_s: float, most: int = MOST) -> None:
        self._wait_s = wait_s
        self._free = most

    async def write(self, work: Callable[[float], T], *, wait: bool = True) -> T:
        """What ``work`` says, given how many seconds to wait: none, where nobody asked for it or too many wait already."""
        if not wait or not self._free:
            return await to_thread.run_sync(work, 0.0)
        self._free -= 1
        try:
            return await to_thread.run_sync(work, self._wait_s, limiter=CapacityLimiter(1))
        finally:
            self._free += 1
