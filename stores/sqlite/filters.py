"""What may be asked of the insights, as values; and the one WHERE clause behind every list and search.

The clause is constant: an absent condition is a parameter that is NULL. No text from outside ever becomes SQL.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Any

import orjson

from schemas.claims import Category
from schemas.insights import InsightStatus
from stores.places import TAKES_IN
from stores.sqlite.errors import BadQuery

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MAX_LIMIT = 1_000


class Order(StrEnum):
    """How a list is sorted: the surest first, or the latest validated first."""

    CONFIDENCE = "confidence"
    RECENT = "recent"


@dataclass(frozen=True, slots=True)
class InsightFilter:
    """Conditions that all must hold; what is empty or None does not count.

    ``status`` None means active and archived; what was forgotten comes only when it is asked for. Times are of the last
    validation, from (inclusive) and until (exclusive). ``tool``, ``chain`` and ``pair`` ask for what holds there, so for what is
    known above the pair as well (``stores/places.py``); ``key`` asks for that key alone.
    ``include_simulated`` False hides what a simulated market taught. ``problematic`` asks for what harmed as often as it helped.
    """

    categories: tuple[Category, ...] = ()
    min_confidence: Decimal | None = None
    status: InsightStatus | None = InsightStatus.ACTIVE
    key: str | None = None
    tool: str | None = None
    chain: str | None = None
    pair: str | None = None
    metric: str | None = None
    include_simulated: bool = True
    problematic: bool = False
    validated_from: datetime | None = None
    validated_until: datetime | None = None

    def params(self) -> dict[str, Any]:
        """The clause's parameters.

        Raises:
            BadQuery: a time without a zone.
        """
        return {
            "categories": orjson.dumps([str(category) for category in self.categories]).decode() if self.categories else None,
            "min_ppm": None if self.min_confidence is None else ppm(self.min_confidence),
            "status": None if self.status is None else str(self.status),
            "key": self.key,
            "tool": self.tool,
            "chain": self.chain,
            "pair": self.pair,
            "metric": self.metric,
            "simulated": None if self.include_simulated else 0,
            "problematic": 1 if self.problematic else None,
            "from_us": None if self.validated_from is None else microseconds(self.validated_from),
            "until_us": None if self.validated_until is None else microseconds(self.validated_until),
        }


TALLIES = """
    SELECT coalesce(into_id, memory_id) AS root, sum(ended = 'success') AS helpful, sum(ended = 'failure') AS harmful
    FROM outcomes LEFT JOIN merged ON insight_id = memory_id
"""
"""How decisions ended that used each memory. What was merged counts for what it was merged into; ``merged`` never chains."""

INSIGHT_WHERE = f"""
    (:categories IS NULL OR category IN (SELECT value FROM json_each(:categories)))
    AND (:min_ppm IS NULL OR confidence_ppm >= :min_ppm)
    AND CASE WHEN :status IS NULL THEN status <> 'forgotten' ELSE status = :status END
    AND (:key IS NULL OR key = :key)
    AND {TAKES_IN}
    AND (:metric IS NULL OR metric = :metric)
    AND (:simulated IS NULL OR simulated = :simulated)
    AND (:problematic IS NULL OR id IN (SELECT root FROM ({TALLIES} GROUP BY root) WHERE harmful >= helpful AND helpful > 0))
    AND (:from_us IS NULL OR validated_us >= :from_us)
    AND (:until_us IS NULL OR validated_us < :until_us)
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class SignalFilter:
    """Conditions on signals that all must hold; times are event times, from (inclusive) and until (exclusive)."""

    kind: str | None = None
    level: str | None = None
    stream: str | None = None
    key: str | None = None
    metric: str | None = None
    include_simulated: bool = True
    since: datetime | None = None
    until: datetime | None = None

    def params(self) -> dict[str, Any]:
        """The clause's parameters.

        Raises:
            BadQuery: a time without a zone.
        """
        return {
            "kind": self.kind,
            "level": self.level,
            "stream": self.stream,
            "key": self.key,
            "metric": self.metric,
            "simulated": None if self.include_simulated else 0,
            "from_us": None if self.since is None else microseconds(self.since),
            "until_us": None if self.until is None else microseconds(self.until),
        }


SIGNAL_WHERE = """
    (:kind IS NULL OR json ->> '$.kind' = :kind)
    AND (:level IS NULL OR level = :level)
    AND (:stream IS NULL OR stream = :stream)
    AND (:key IS NULL OR key = :key)
    AND (:metric IS NULL OR metric = :metric)
    AND (:simulated IS NULL OR simulated = :simulated)
    AND (:from_us IS NULL OR ts_us >= :from_us)
    AND (:until_us IS NULL OR ts_us < :until_us)
"""


def microseconds(when: datetime) -> int:
    """Unix time in whole microseconds, exactly.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC))
    1000005

    Raises:
        BadQuery: no time zone.
    """
    if when.tzinfo is None:
        raise BadQuery("a time without a zone is ambiguous", hint="add Z or +00:00")
    return (when - _EPOCH) // _MICROSECOND


def ppm(confidence: Decimal) -> int:
    """A confidence in millionths, exact for any with six decimals; a finer bound is rounded up, so nothing below it passes.

    >>> ppm(Decimal("0.6")), ppm(Decimal("0.6000001"))
    (600000, 600001)
    """
    if not confidence.is_finite() or not 0 <= confidence <= 1:
        raise BadQuery(f"a confidence lies in 0 … 1, not at {confidence}")
    return int((confidence * 1_000_000).to_integral_value(ROUND_CEILING))


def page_size(limit: int) -> int:
    """A limit that is one.

    Raises:
        BadQuery: not in 1 … 1000.
    """
    if isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise BadQuery(f"limit is {limit}", hint=f"1 to {MAX_LIMIT}; go on with the cursor for more")
    return limit


def to_cursor(order: str, *values: int | str) -> str:
    """Where a page ended, as opaque text."""
    return base64.urlsafe_b64encode(orjson.dumps([order, *values])).decode().rstrip("=")


def from_cursor(cursor: str, order: str, shape: tuple[type, ...]) -> tuple[Any, ...]:
    """What ``to_cursor`` wrote.

    Raises:
        BadQuery: it is not ours, or of another order.
    """
    try:
        values = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        values = None
    if not isinstance(values, list) or tuple(map(type, values)) != (str, *shape) or values[0] != order:
        raise BadQuery("the cursor is not one of this list", hint="start without a cursor")
    return tuple(values[1:])
