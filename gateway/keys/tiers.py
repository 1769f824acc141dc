"""The three tiers of the specification, and who a caller is.

========  =====================================================================================
tier      may
========  =====================================================================================
read      search and read: episodes, insights, signals, directives, briefing, statistics
feedback  also write: downvote, archive, adjust, directives, notes, uses, executions
admin     also forget, which cannot be taken back
========  =====================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schemas.errors import BrainError


class Tier(StrEnum):
    """Read < Feedback < Admin; a higher tier may do all that a lower one may."""

    READ = "read"
    FEEDBACK = "feedback"
    ADMIN = "admin"

    def allows(self, needed: Tier) -> bool:
        """Whether this tier is the needed one or above it.

        >>> Tier.FEEDBACK.allows(Tier.READ), Tier.READ.allows(Tier.FEEDBACK)
        (True, False)
        """
        order = list(Tier)
        return order.index(self) >= order.index(needed)


class NotAllowed(BrainError):
    """The caller's key is of too low a tier."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``author`` stands in the log beside everything that the caller writes; ``key_id`` is empty for a local process."""

    author: str
    tier: Tier
    key_id: str = ""

    def need(self, tier: Tier) -> None:
        """Check the tier.

        Raises:
            NotAllowed: it is too low.
        """
        if not self.tier.allows(tier):
            raise NotAllowed(f"this needs a {tier} key; yours is a {self.tier} key", hint="defi-brain keys create makes one")
