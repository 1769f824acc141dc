"""A stop-loss on advice: what does not pay is no longer followed.

What advice is worth cannot be read off the trades that followed it, because nobody knows what the default would have cost. So
in a small random share of the decisions it is not followed, and what these cost is compared with the ones around them. That needs
no model of the market and cannot be talked round by a wrong insight.

Each control is compared with the decisions that followed since the one before, dearer by d on average. It speaks for as many as
lie between two controls on average, so the estimated loss grows by (d − slack) / control, never under zero (Page's CUSUM). Where
it passes the budget, advice is off for a while: first for ``pause`` decisions, each time twice as long. Outcomes are clipped, so
that one freak trade neither trips it nor hides a loss.

What that bounds: from the last time the estimate was zero until it trips, following cost at most ``budget`` and one step of the
estimate, plus ``slack`` for each decision. A pause that doubles leaves room for log2(decisions / pause) trips. ``worst_case``
adds it up. The estimate is unbiased, so with noisy outcomes the bound holds for the expected loss, not for each run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Limits:
    """What advice may cost, in the unit of the outcomes (basis points).

    ``control`` is the share of decisions that ignore advice. ``budget`` is the estimated loss, summed over decisions, at which it
    is no longer followed; ``slack`` a loss a decision that is let pass; ``clip`` the farthest that an outcome counts from zero.

    Raises:
        ValueError: a share outside 0 … 1, or a limit that is not positive.
    """

    control: float = 0.15
    budget: float = 600.0
    slack: float = 0.25
    clip: float = 30.0
    pause: int = 200

    def __post_init__(self) -> None:
        """See the class."""
        if not 0.0 < self.control < 1.0:
            raise ValueError("the share of controls lies between 0 and 1")
        if min(self.budget, self.clip, self.pause) <= 0 or self.slack < 0:
            raise ValueError("budget, clip and pause are positive, slack is not negative")

    @property
    def step(self) -> float:
        """The most that one control can add to the estimate."""
        return 2.0 * self.clip / self.control

    def trips(self, decisions: int) -> int:
        """The most trips in so many decisions: pauses of p, 2p, 4p … leave no room for more."""
        return 1 + int(math.log2(1 + max(0, decisions) / self.pause))

    def worst_case(self, decisions: int) -> float:
        """The bound on the loss of following, a decision: what each trip may cost, and the slack."""
        return self.slack + self.trips(decisions) * (self.budget + self.step) / decisions


class Guard:
    """The stop-loss of one soft parameter. Ask ``follow`` before a decision that advice would change, tell ``outcome`` after it.

    >>> from random import Random
    >>> guard = Guard(Limits(control=0.5, budget=100.0, pause=50), Random(1))
    >>> followed = 0
    >>> for _ in range(60):
    ...     takes = guard.follow()
    ...     followed += takes
    ...     guard.outcome(takes, 30.0 if takes else 10.0)  # what is advised costs 20 bps more than the default
    >>> followed < 15, guard.trips, guard.on
    (True, 1, False)
    """

    __slots__ = ("_followed", "_off", "_random", "estimate", "limits", "trips")

    def __init__(self, limits: Limits, random: Random) -> None:
        self.limits = limits
        self.estimate = 0.0
        """Estimated loss, in bps times decisions, since it was last known to pay."""
        self.trips = 0
        self._random = random
        self._followed: list[float] = []
        self._off = 0

    @property
    def on(self) -> bool:
        """Whether advice is followed at all."""
        return self._off == 0

    def follow(self) -> bool:
        """Whether to take advice that there is, this time. Each call is one decision."""
        if self._off:
            self._off -= 1
            return False
        return self._random.random() >= self.limits.control

    def outcome(self, followed: bool, cost: float) -> None:
        """What a decision that was asked about has cost, once that is known; in any order.

        While advice is off nothing counts, and a cost that is no number never does.
        """
        limits = self.limits
        if self._off or not math.isfinite(cost):
            return
        cost = min(limits.clip, max(-limits.clip, cost))
        if followed:
            self._followed.append(cost)
            return
        followed_since, self._followed = self._followed, []
        if not followed_since:
            return
        difference = sum(followed_since) / len(followed_since) - cost
        self.estimate = max(0.0, self.estimate + (difference - limits.slack) / limits.control)
        if self.estimate > limits.budget:
            self._off = limits.pause * 2**self.trips
            self.trips += 1
            self.estimate = 0.0
