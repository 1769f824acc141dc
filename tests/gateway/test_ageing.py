"""Which episodes are still in context: by the market's time, their importance and use; those of the present regime stay."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.ageing import Ageing
from stores.recall.memories import Kind, Memory
from stores.recall.result import RecallHit, Why
from stores.sqlite import WritableInsightStore
from streams.stages.writer import InsightWriter
from tests.support.sqlite import HashEmbedder, add, at, operations, use, uses, writing

DAY = timedelta(days=1)
NOW = at(24 * 365)
WHY = Why("test", {}, {}, 0.5, None, {}, "passed")


def hit(
    name: str, days_ago: float, importance: float = 0.06, tool: str = "swap", kind: Kind = Kind.EPISODE, **more: Any
) -> RecallHit:
    ts: datetime = NOW - days_ago * DAY
    memory = Memory(name, kind, "It cost 30 bps.", ts, tool, "1", "a/b", "A/B", importance=importance, **more)
    return RecallHit(name, kind, memory.text, 0.5, ts, WHY, memory)


HITS = [
    hit("fresh", 1),
    hit("old", 31),
    hit("medium", 100, importance=0.15),
    hit("high", 300, importance=0.3),
    hit("research", 20, tool="research"),
    hit("same-regime", 300, regime="calm"),
    hit("used", 31),
    hit("insight", 900, kind=Kind.INSIGHT),
]


def left(store: WritableInsightStore, now: datetime, regime: str | None = None) -> list[str]:
    return [one.id for one in Ageing(store, None, lambda: 0.0).in_context(HITS, now, regime)]


def test_those_past_their_time_are_left_out_and_none_is_lost(tmp_path: Path) -> None:
    with writing(tmp_path / "store.db") as store:
        InsightWriter(store, HashEmbedder()).handle([
            *operations(add("a", ts=NOW)), *uses(*(use(f"u{n}", "used") for n in range(4))),
        ])  # fmt: skip
        kept = ["fresh", "medium", "high", "used", "insight"]
        assert left(store, NOW) == kept
        assert left(store, NOW, "calm") == [*kept[:3], "same-regime", *kept[3:]]
        assert left(store, NOW - 12 * DAY) == [one for one in (each.id for each in HITS) if one != "same-regime"]


def test_a_clock_on_the_wall_ages_nothing(tmp_path: Path) -> None:
    """The market stood still since: a replay of an old one is not old."""
    with writing(tmp_path / "store.db") as store:
        InsightWriter(store, HashEmbedder()).handle(operations(add("a", ts=NOW - 25 * DAY)))
        assert "old" in left(store, NOW + 4_000 * DAY)


@pytest.mark.parametrize("kinds", [(), (Kind.INSIGHT,)])
def test_without_episodes_nothing_is_looked_up(kinds: tuple[Kind, ...]) -> None:
    hits = [hit(str(kind), 900, kind=kind) for kind in kinds]
    assert Ageing(None, None, lambda: 0.0).in_context(hits, NOW, None) == hits  # type: ignore[arg-type]
