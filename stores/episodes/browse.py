"""Leafing through episodes: the latest first, page by page, and how many there are of each tool, chain and outcome.

A page begins after a place, the event time and id of the last one shown, so that new episodes move nothing (keyset paging).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stores.episodes.filters import EpisodeFilter, expression, just_after
from stores.episodes.rows import SHOWN
from stores.episodes.segment import Segment

FACETS = ("tool", "chain", "pair", "action", "status")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ended."""

    ts: datetime
    id: str


def latest(segments: Sequence[Segment], wanted: EpisodeFilter, limit: int, after: Place | None = None) -> list[dict[str, Any]]:
    """Rows (``SHOWN``) of up to ``limit`` episodes, the latest event first and of equal times by id.

    Raises:
        ValueError: a moment without a time zone.
    """
    if after is not None:
        # Those of the very same time that have been shown are dropped below; an id orders them.
        ends = [end for end in (wanted.until, just_after(after.ts)) if end is not None]
        wanted = replace(wanted, until=min(ends, default=None))
    where = expression(wanted)
    rows = (row for segment in segments for row in _later(segment, where, limit, after))
    return heapq.nsmallest(limit, rows, key=lambda row: (-row["ts"].timestamp(), row["id"]))


def _later(segment: Segment, where: Any, limit: int, after: Place | None) -> list[dict[str, Any]]:
    """A segment's part of a page. Asks for more where the place's own time takes up what was found."""
    ask = limit
    while True:
        rows = segment.ordered(where, SHOWN, ask)
        left = [row for row in rows if after is None or row["ts"] < after.ts or row["id"] > after.id]
        if len(left) >= limit or len(rows) < ask:
            return left[:limit]
        ask *= 2


def facets(segments: Sequence[Segment], wanted: EpisodeFilter) -> dict[str, dict[str, int]]:
    """How many of the wanted episodes have each value of ``FACETS``, the most frequent first.

    Raises:
        ValueError: a moment without a time zone.
    """
    where = expression(wanted)
    counts: dict[str, Counter[str]] = {name: Counter() for name in FACETS}
    for segment in segments:
        for name, counted in segment.counted(where, FACETS).items():
            counts[name].update(counted)
    return {name: dict(sorted(one.items(), key=lambda pair: (-pair[1], pair[0]))) for name, one in counts.items()}
