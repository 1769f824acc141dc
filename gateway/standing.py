"""How an insight stands beside what it says: how decisions ended that used it, and whether it is under re-examination.

Both follow from other topics than the operations (uses, signals), so they are no part of the insight itself: they raise no revision
and are not announced, or every use of a memory would announce it again. Whoever asks gets them from the store as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from gateway.quoting import reads_like_an_instruction
from schemas.insights import Insight, InsightStatus
from stores.sqlite import InsightStore, Tally
from workers.channels import Channels, channels
from workers.doubt import alarms_about

_NOTHING = Tally(0, 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """``tally``: how decisions ended that used it. ``reexamined_since``: the first drift alarm about it after its last vote or
    edit, in event time; None where there was none. ``channels``: what its evidence says at the low end, in the middle and at the
    high end."""

    tally: Tally
    reexamined_since: datetime | None
    channels: Channels | None

    def tag(self, insight: Insight) -> str:
        """What changes whenever the insight or its standing does: the revision alone, where there is nothing more."""
        more = (self.tally.helpful, self.tally.harmful, self.reexamined_since)
        since = self.reexamined_since.timestamp() if self.reexamined_since else 0
        return str(insight.revision) if more == (0, 0, None) else f"{insight.revision}.{more[0]}.{more[1]}.{since:.0f}"


def standings(store: InsightStore, insights: Sequence[Insight]) -> dict[str, Standing]:
    """The standing of each insight, by id, of one state of the store."""
    with store.snapshot():
        tallies = store.tallies(one.id for one in insights)
        return {one.id: _standing(store, one, tallies.get(one.id, _NOTHING)) for one in insights}


def doubtful(store: InsightStore, insights: Sequence[Insight], below: Decimal) -> list[Insight]:
    """Those of the insights that a person should look at: little believed, of more harm than help, worded like an order, or under
    re-examination since a drift."""
    with store.snapshot():
        tallies = store.tallies(one.id for one in insights)
        drifts = store.last_drifts()
        return [one for one in insights if _in_doubt(store, one, tallies.get(one.id, _NOTHING), drifts, below)]


def _in_doubt(
    store: InsightStore, insight: Insight, tally: Tally, drifts: Mapping[tuple[str, str], datetime], below: Decimal
) -> bool:
    if insight.confidence < below or tally.harmful >= max(1, tally.helpful) or reads_like_an_instruction(insight.text):
        return True
    claim = insight.claim
    last = drifts.get((claim.key, claim.level)) if claim else None
    return last is not None and last > insight.validated_ts and _reexamined(store, insight) is not None


def _standing(store: InsightStore, insight: Insight, tally: Tally) -> Standing:
    return Standing(tally, _reexamined(store, insight), channels(insight, tally.helpful, tally.harmful))


def _reexamined(store: InsightStore, insight: Insight) -> datetime | None:
    claim = insight.claim
    if claim is None or insight.status is not InsightStatus.ACTIVE:
        return None
    return store.first_drift(claim.key, claim.level, alarms_about(claim), insight.validated_ts, simulated=insight.simulated)
