"""A request's query as typed questions: what is absent or empty does not count, what cannot be is refused with a reason."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import TypeVar

from gateway.errors import RequestProblem
from schemas.claims import Category
from schemas.events import Action, Status
from schemas.insights import InsightStatus
from schemas.types import iso, moment
from stores.episodes import EpisodeFilter, Place
from stores.sqlite import InsightFilter, Order, SignalFilter

Query = Mapping[str, str]
E = TypeVar("E", bound=Enum)
MOST_TEXT = 8_000


def text(query: Query, name: str, most: int = 256) -> str | None:
    """A value, None where it is absent or empty.

    Raises:
        RequestProblem: it is too long.
    """
    value = query.get(name, "").strip()
    if len(value) > most:
        raise RequestProblem(f"{name} has at most {most} characters")
    return value or None


def choice(query: Query, name: str, kind: type[E]) -> E | None:
    """One of an enumeration's values.

    Raises:
        RequestProblem: it is none of them.
    """
    value = text(query, name)
    if value is None:
        return None
    try:
        return kind(value)
    except ValueError:
        raise RequestProblem(f"{name} is one of {', '.join(str(one.value) for one in kind)}") from None


def number(query: Query, name: str, low: int, high: int, default: int) -> int:
    """A whole number.

    Raises:
        RequestProblem: it is none, or out of bounds.
    """
    value = text(query, name)
    if value is None:
        return default
    if not value.isascii() or not value.isdigit() or len(value) > 9 or not low <= int(value) <= high:
        raise RequestProblem(f"{name} is a whole number from {low} to {high}")
    return int(value)


def share(query: Query, name: str) -> Decimal | None:
    """A number from 0 to 1.

    Raises:
        RequestProblem: it is none.
    """
    value = text(query, name, 20)
    if value is None:
        return None
    try:
        found = Decimal(value)
    except InvalidOperation:
        found = Decimal(-1)
    if not found.is_finite() or not 0 <= found <= 1:
        raise RequestProblem(f"{name} is a number from 0 to 1")
    return found


def when(query: Query, name: str) -> datetime | None:
    """A moment with its zone; a date alone is its first moment in UTC.

    Raises:
        RequestProblem: it is none.
    """
    value = text(query, name, 40)
    if value is None:
        return None
    try:
        return moment(f"{value}T00:00:00Z" if len(value) == 10 else value)[0]
    except ValueError as error:
        raise RequestProblem(f"{name}: {error}", hint="2026-01-31 or 2026-01-31T12:00:00Z") from None


def insight_filter(query: Query) -> tuple[InsightFilter, Order]:
    """Which insights a list shows, and how it is sorted."""
    category = choice(query, "category", Category)
    status = query.get("status", "")
    where = InsightFilter(
        categories=(category,) if category else (),
        min_confidence=share(query, "min_confidence"),
        status=None if status == "all" else choice(query, "status", InsightStatus) or InsightStatus.ACTIVE,
        key=text(query, "key"),
        tool=text(query, "tool"),
        chain=text(query, "chain"),
        pair=text(query, "pair"),
        metric=text(query, "metric"),
        include_simulated=query.get("simulated") != "no",
    )
    return where, choice(query, "order", Order) or Order.CONFIDENCE


def episode_filter(query: Query) -> EpisodeFilter:
    """Which episodes a list shows."""
    failed = query.get("failed", "")
    if failed not in ("", "yes", "no"):
        raise RequestProblem("failed is yes or no")
    return EpisodeFilter(
        key=text(query, "key"),
        tool=text(query, "tool"),
        chain=text(query, "chain"),
        pair=text(query, "pair"),
        action=choice(query, "action", Action),
        status=choice(query, "status", Status),
        failed=None if failed == "" else failed == "yes",
        since=when(query, "since"),
        until=when(query, "until"),
    )


def signal_filter(query: Query) -> SignalFilter:
    """Which signals a list shows."""
    return SignalFilter(
        kind=text(query, "kind"),
        level=text(query, "level"),
        key=text(query, "key"),
        metric=text(query, "metric"),
        since=when(query, "since"),
        until=when(query, "until"),
    )


def place_of(cursor: str | None) -> Place | None:
    """Where a page of episodes ended.

    Raises:
        RequestProblem: the cursor is not one of this list.
    """
    if cursor is None:
        return None
    try:
        moment_text, _, name = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode().partition("|")
        return Place(moment(moment_text)[0], name)
    except (ValueError, binascii.Error):
        raise RequestProblem("the cursor is not one of this list", hint="start without a cursor") from None


def cursor_of(place: Place) -> str:
    """A place as a cursor."""
    return base64.urlsafe_b64encode(f"{iso(place.ts)}|{place.id}".encode()).decode().rstrip("=")
