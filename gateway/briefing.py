"""The briefing: what matters most now, as bullets with the ids of the memories behind them; on demand and on a schedule.

No model is needed, and it never blocks: what is told is a handful of memories, the operator's directives first, each quoted as the
data that it is. The schedule stands in the shell: who asks gets an answer from the stores at any time, and the wall clock only
decides when everybody is told unasked.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.quoting import quoted
from gateway.views import BriefingView
from schemas.insights import Insight
from schemas.types import iso

LOGGER = logging.getLogger(__name__)

FEWEST, MOST = 3, 6
MAX_CHARS = 1_200
INPUTS = 20
PLAIN_BULLETS = 5
"""Without a model the specification takes the top five; a directive may make it six."""
FIRST_S, EVERY_S = 8.0, 3_600.0
NOTHING = "nothing learned yet"


Write = Callable[[Sequence[Insight], Sequence[Insight]], BriefingView]


def briefing(directives: Sequence[Insight], insights: Sequence[Insight]) -> BriefingView:
    """Bullets from directives in force, then from insights, both in the caller's order: at most six in at most 1,200 characters."""
    chosen = [*directives[: MOST - FEWEST], *insights[:PLAIN_BULLETS]][:MOST]
    share = MAX_CHARS // max(1, len(chosen)) - 1
    bullets = tuple(bullet(insight, share) for insight in chosen)
    return BriefingView(text="\n".join(bullets) or NOTHING, bullets=bullets, memory_ids=tuple(one.id for one in chosen))


def bullet(insight: Insight, room: int) -> str:
    """One memory as a bullet of at most ``room`` characters, if its mark leaves room for its words."""
    name = "directive" if insight.directive else "note" if insight.note else "insight"
    weight = f"{insight.directive.priority} priority" if insight.directive else f"confidence {insight.confidence:.2f}"
    head = f"• [{name} {insight.id}, {weight}{', simulated' if insight.simulated else ''}] "
    return head + fitting(insight.text, room - len(head))


def fitting(text: str, room: int) -> str:
    """A text in quotation marks, cut so that it has at most ``room`` characters with what quoting adds (or one character).

    >>> fitting('say "hi" twice', 12)
    '"say \\\\"hi…"'
    """
    limit = max(1, room - 2)
    while len(told := quoted(text, limit)) > room and limit > 1:
        limit = max(1, limit - max(1, (len(told) - room) // 2))
    return told


@dataclass(frozen=True, slots=True)
class Briefed:
    """A briefing that was made on schedule: the how manyeth, and when."""

    number: int
    made: datetime
    told: BriefingView

    @property
    def view(self) -> BriefingView:
        """For callers."""
        return self.told.model_copy(update={"made": iso(self.made)})


class BriefingSchedule:
    """Makes a briefing soon after the start and then again and again, in a thread of its own; keeps the latest.

    Making one must not fail for good: what goes wrong is logged, the latest one stays, and the next turn tries again. ``pause``
    waits so many seconds and says whether to end; tests pass their own.
    """

    def __init__(
        self,
        make: Callable[[], BriefingView],
        clock: Callable[[], datetime],
        *,
        first_s: float = FIRST_S,
        every_s: float = EVERY_S,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        self._make = make
        self._clock = clock
        self._first_s = first_s
        self._every_s = every_s
        self._end = threading.Event()
        self._pause = pause or self._end.wait
        self._latest: Briefed | None = None
        self._thread = threading.Thread(target=self._run, name="briefing", daemon=True)
        self._thread.start()

    def after(self, number: int) -> Briefed | None:
        """The latest briefing, if it is a later one than that; 0 asks for any."""
        latest = self._latest
        return latest if latest is not None and latest.number > number else None

    def stop(self) -> None:
        """End the schedule; the latest briefing stays. One in the making that takes long is not waited for: it holds nothing."""
        self._end.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        wait_s, number = self._first_s, 0
        while not self._pause(wait_s):
            wait_s = self._every_s
            try:
                told = self._make()
            except Exception as error:  # a store that is busy or gone is no reason to end
                LOGGER.warning("no briefing this time: %s: %s", type(error).__name__, error)
                continue
            number += 1
            self._latest = Briefed(number, self._clock(), told)
