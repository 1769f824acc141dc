"""Retention: when a memory leaves the context, and when it comes back. The specification's table, as pure functions.

Let i be the impact in basis points of profit and loss, and a how often the memory was used:

    importance = min(1, min(1, |i| / 500) + min(0.3, 0.05·a))
    lives for    base TTL · decay · min(2, 1 + 0.2·a),   decay = 5 over 100 bps, 2 over 50 bps, else 1

==============================================  ========  =====  ==================================
what                                            base TTL  decay  stays whatever its age
==============================================  ========  =====  ==================================
MEV patterns, emergencies                       365 d     5      —
impact over 100 bps                             180 d     5      —
impact over 50 bps                              90 d      2      —
slippage, route selection                       30 d      1      used more than three times
gas                                             7 d       1      —
anything else                                   14 d      1      used at least twice
==============================================  ========  =====  ==================================

The first row that fits counts. Episodes live by the same table; recall leaves out those that are past their time, and looking for
episodes finds them all. Age runs from the last validation, in event time: what fresh evidence keeps confirming never ages,
and no clock on a wall retires what a market has not moved past. (The specification also speaks of an importance under 0.1. With the
table that would be a second rule for the same thing, and one that makes its own decay rates idle: 50 bps are 0.1. The table rules.)

A mined claim's impact is the difference that it found, where its metric is in basis points; a note's is what its author gave it.
Directives do not age; they have an end, if any, and leave at it.

**Out** is archived, never deleted. **Back** is by fresh evidence (``workers/ledger.py``), or when the market regime returns in
which the insight was last validated. Who decides is a process beside the fold (``gateway/upkeep.py``): its decisions are operations
in the log, so a rebuild decides nothing. They hold for the revision that was looked at, and no other: a vote that comes between
keeps the insight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.claims import Category
from schemas.identity import content_id
from schemas.insights import Insight, InsightStatus
from schemas.operations import ArchiveInsight, RestoreInsight

AUTHOR = "retention"
HIGH_BPS, MEDIUM_BPS = 100.0, 50.0
FULL_BPS = 500.0
"""The impact at which importance is 1."""
_LAST = datetime.max.replace(tzinfo=UTC)
_LASTING = frozenset({Category.MEV_PATTERN, Category.EMERGENCY})
_TRADES = frozenset({"swap", "trade", "order", "buy", "sell", "route"})
_WORDS = re.compile(r"[a-z]+")
_PATTERNS = frozenset({Category.SLIPPAGE, Category.ROUTE_SELECTION})


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: ``kept_from`` uses on the memory stays whatever its age; None: it never does for that."""

    days: int
    decay: float
    kept_from: int | None = None


LASTING, HIGH, MEDIUM = Rule(365, 5.0), Rule(180, 5.0), Rule(90, 2.0)
PATTERN, GAS, GENERAL = Rule(30, 1.0, 4), Rule(7, 1.0), Rule(14, 1.0, 2)


def importance(impact_bps: float, accesses: int) -> float:
    """0 … 1.

    >>> importance(250.0, 0), importance(-250.0, 4), importance(5_000.0, 99)
    (0.5, 0.7, 1.0)
    """
    return min(1.0, min(1.0, abs(impact_bps) / FULL_BPS) + min(0.3, 0.05 * accesses))


def rule_for(category: Category, impact_bps: float) -> Rule:
    """The first row of the table that fits.

    >>> rule_for(Category.GAS_TIMING, 0.0).days, rule_for(Category.GAS_TIMING, 60.0).days, rule_for(Category.SLIPPAGE, -120.0).days
    (7, 90, 180)
    """
    impact = abs(impact_bps)
    if category in _LASTING:
        return LASTING
    if impact > HIGH_BPS:
        return HIGH
    if impact > MEDIUM_BPS:
        return MEDIUM
    if category in _PATTERNS:
        return PATTERN
    return GAS if category is Category.GAS_TIMING else GENERAL


def lifetime(category: Category, impact_bps: float, accesses: int) -> timedelta | None:
    """How long a memory lives without being validated; None: for ever.

    >>> lifetime(Category.SLIPPAGE, 0.0, 3), lifetime(Category.SLIPPAGE, 0.0, 4), lifetime(Category.EMERGENCY, 0.0, 9)
    (datetime.timedelta(days=48), None, datetime.timedelta(days=3650))
    """
    rule = rule_for(category, impact_bps)
    if rule.kept_from is not None and accesses >= rule.kept_from:
        return None
    return timedelta(days=rule.days) * rule.decay * min(2.0, 1.0 + 0.2 * accesses)


def episode_expires_at(tool: str, importance_: float, ts: datetime, accesses: int) -> datetime | None:
    """When an episode leaves the context; None: never. Its importance is its impact's share of 500 bps; what it is about follows
    from its tool: gas observations, trades (slippage and routes), anything else.

    >>> from datetime import UTC
    >>> start = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [episode_expires_at(tool, 0.06, start, 0).date().isoformat() for tool in ("gas_oracle", "swap", "research")]
    ['2026-01-08', '2026-01-31', '2026-01-15']
    """
    name = tool.lower()
    category = (
        Category.GAS_TIMING if "gas" in name else Category.SLIPPAGE if _TRADES & set(_WORDS.findall(name)) else Category.GENERAL
    )
    lives = lifetime(category, importance_ * FULL_BPS, accesses)
    return None if lives is None else _later(ts, lives)


def impact_bps(insight: Insight) -> float:
    """What an insight is worth, in basis points of profit and loss; 0 where it says nothing of that."""
    if insight.evidence is not None:
        return insight.evidence.inside - insight.evidence.outside if insight.evidence.unit == "bps" else 0.0
    return insight.importance * FULL_BPS


def expires_at(insight: Insight, accesses: int) -> datetime | None:
    """When an active insight leaves the context; None: never, as things stand."""
    if insight.directive is not None:
        return insight.directive.expires_at
    lives = lifetime(insight.category, impact_bps(insight), accesses)
    return None if lives is None else _later(insight.validated_ts, lives)


def _later(ts: datetime, lives: timedelta) -> datetime | None:
    """Nothing ends beyond the year 9999, where an operation may be dated."""
    return ts + lives if lives <= _LAST - ts else None


def retired(insights: Iterable[Insight], accesses: Mapping[str, int], now: datetime) -> list[ArchiveInsight]:
    """The operations that take what has had its time out of the context. ``now`` is the market's event time."""
    operations = []
    for insight in insights:
        end = expires_at(insight, accesses.get(insight.id, 0))
        if insight.status is not InsightStatus.ACTIVE or end is None or end > now:
            continue
        said = _said("ARCHIVE", insight, end, _reason(insight, accesses.get(insight.id, 0)))
        operations.append(ArchiveInsight(**said, cause="expired", of_revision=insight.revision))
    return operations


def returned(
    insights: Iterable[Insight], regime_of: Mapping[str, str], now_in: Mapping[str, tuple[str, datetime]]
) -> list[RestoreInsight]:
    """The operations that bring back what belongs to a regime that has returned since it left.

    ``regime_of`` has the regime in which each insight was last validated, ``now_in`` each key's present one and since when.
    """
    operations = []
    for insight in insights:
        archived = insight.archived
        if archived is None or archived.cause != "expired" or insight.directive is not None or insight.key not in now_in:
            continue
        regime, since = now_in[insight.key]
        if regime_of.get(insight.id) == regime and since > archived.ts:
            reason = f"the regime {regime} has returned, in which it was last validated"
            operations.append(RestoreInsight(**_said("RESTORE", insight, since, reason), cause="expired"))
    return operations


def _said(kind: str, insight: Insight, ts: datetime, reason: str) -> dict[str, Any]:
    """Once for each state of an insight, whoever looks and however often."""
    return {
        "op_id": content_id("operation", kind, AUTHOR, insight.id, insight.revision),
        "insight_id": insight.id,
        "ts": ts,
        "author": AUTHOR,
        "reason": reason,
    }


def _reason(insight: Insight, accesses: int) -> str:
    if insight.directive is not None:
        return "the directive's time is over"
    lives = lifetime(insight.category, impact_bps(insight), accesses)
    days = f"{lives.days} days" if lives else "its time"
    worth = importance(impact_bps(insight), accesses)
    return f"not validated for {days}; importance {worth:.2f}, used {accesses} times; kept, out of context"
