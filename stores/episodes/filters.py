"""Which episodes: typed criteria, and the one function that makes a LanceDB expression of them.

Values only ever become literals of the expression builder, which escapes them; no SQL is put together from text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from schemas.events import Action, Status

_AFTER_HEX = "g"
_MOMENT = timedelta(microseconds=1)
_PREFIX = re.compile(r"[0-9a-f-]{1,36}\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """A record key, real or simulated executions of it, from a time until another (exclusive; None: for ever)."""

    key: str
    simulated: bool
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Criteria that all must hold; None means any. ``since`` is included, ``until`` is not; both must have a zone.

    ``spans`` are when markets were in the wanted ``regime``: an episode passes that lies in one of them, or was recorded with it.
    Retracted and pending episodes are left out unless asked for.
    """

    key: str | None = None
    tool: str | None = None
    chain: str | None = None
    pair: str | None = None
    action: Action | None = None
    status: Status | None = None
    failed: bool | None = None
    regime: str | None = None
    spans: tuple[Span, ...] = ()
    simulated: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    min_importance: float | None = None
    retracted: bool = False
    pending: bool = False


EVERYTHING = EpisodeFilter(retracted=True, pending=True)


def expression(wanted: EpisodeFilter) -> Any:
    """The filter as a LanceDB expression, None where everything is wanted.

    Raises:
        ValueError: a moment without a time zone.
    """
    from lancedb.expr import col, lit

    equal = {name: getattr(wanted, name) for name in ("key", "tool", "chain", "pair", "failed", "simulated")}
    equal |= {name: str(value) for name in ("action", "status") if (value := getattr(wanted, name)) is not None}
    terms = [col(name) == lit(value) for name, value in equal.items() if value is not None]
    if wanted.regime is not None:
        terms.append(_any([col("regime") == lit(wanted.regime), *(_within(span) for span in wanted.spans)]))
    if wanted.since is not None:
        terms.append(col("ts") >= lit(_aware(wanted.since)))
    if wanted.until is not None:
        terms.append(col("ts") < lit(_aware(wanted.until)))
    if wanted.min_importance is not None:
        terms.append(col("importance") >= lit(float(wanted.min_importance)))
    if not wanted.retracted:
        terms.append(col("retracted") == lit(False))
    if not wanted.pending and wanted.status is None:
        terms.append(col("status") != lit(str(Status.PENDING)))
    return reduce(lambda left, right: left & right, terms) if terms else None


def _within(span: Span) -> Any:
    from lancedb.expr import col, lit

    inside = (col("key") == lit(span.key)) & (col("simulated") == lit(span.simulated)) & (col("ts") >= lit(_aware(span.since)))
    return inside if span.until is None else inside & (col("ts") < lit(_aware(span.until)))


def _any(terms: list[Any]) -> Any:
    """One of them, as a balanced tree: hundreds of terms in a row are too deep for the engine's parser."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return _any(terms[:half]) | _any(terms[half:])


def just_after(moment: datetime) -> datetime | None:
    """The next moment, so that an exclusive end takes this one in; None at the end of the calendar, which nothing is after."""
    return moment + _MOMENT if moment <= datetime.max.replace(tzinfo=moment.tzinfo) - _MOMENT else None


def with_ids(ids: list[str]) -> Any:
    """Rows with one of these ids."""
    from lancedb.expr import col

    return col("id").isin(ids)


def with_id_prefix(prefix: str) -> Any:
    """Rows whose id starts like this, None where no id can."""
    from lancedb.expr import col, lit

    return (col("id") >= lit(prefix)) & (col("id") < lit(prefix + _AFTER_HEX)) if _PREFIX.match(prefix) else None


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone is ambiguous")
    return moment
