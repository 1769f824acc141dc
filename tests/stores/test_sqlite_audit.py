"""The audit and the facets: every change once, the latest first, whatever the page; counts that agree with the lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores.sqlite import BadQuery, InsightFilter, InsightStore, SignalFilter
from streams.stages.writer import InsightWriter
from tests.support.sqlite import HashEmbedder, in_log, workload, writing

WIDE = InsightFilter(status=None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InsightStore]:
    """A store after a few hundred operations of every kind."""
    path: Path = tmp_path_factory.mktemp("audit") / "store.db"
    with writing(path) as opened:
        InsightWriter(opened, HashEmbedder()).handle(in_log(workload(seed=3, count=200, insights=12)))
        yield opened


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pages_give_every_change_once_in_order(store: InsightStore, size: int) -> None:
    seen, cursor = [], None
    while True:
        page = store.changes(limit=size, cursor=cursor)
        seen += page.items
        cursor = page.cursor
        if cursor is None:
            break
    assert len({(one.insight_id, one.revision) for one in seen}) == len(seen) == sum(store.stats().operations.values())
    assert [(-one.ts.timestamp(), one.insight_id, -one.revision) for one in seen] == sorted(
        (-one.ts.timestamp(), one.insight_id, -one.revision) for one in seen
    )


def test_changes_agree_with_the_histories(store: InsightStore) -> None:
    for one in store.changes(limit=1000).items:
        entry = store.history(one.insight_id)[one.revision - 1]
        assert (one.op_id, one.kind, one.ts, one.author, one.reason) == (
            entry.op_id,
            entry.kind,
            entry.ts,
            entry.author,
            entry.reason,
        )
        assert (one.confidence_before, one.confidence_after) == (entry.confidence_before, entry.confidence_after)


def test_changes_are_chosen_by_author_and_kind(store: InsightStore) -> None:
    everything = store.changes(limit=1000).items
    found = store.change_facets()
    assert found["kind"] == Counter(one.kind for one in everything)
    assert found["author"] == Counter(one.author for one in everything)
    for kind, count in found["kind"].items():
        assert {one.kind for one in store.changes(kind=kind, limit=1000).items} == {kind}
        assert len(store.changes(kind=kind, limit=1000).items) == count
    assert store.changes(author="x' OR 1=1 --").items == ()


def test_facets_agree_with_the_list(store: InsightStore) -> None:
    listed = store.list(WIDE, limit=1000).items
    found = store.facets(WIDE)
    assert found["category"] == Counter(str(one.category) for one in listed)
    assert found["status"] == Counter(str(one.status) for one in listed)
    assert all(store.facets(InsightFilter(key="no such key"))[name] == {} for name in found)


def test_signals_are_counted_as_they_are_listed(store: InsightStore) -> None:
    listed = store.signals(limit=1000).items
    assert store.count_signals(SignalFilter()) == len(listed) > 0
    middle = sorted(one.ts for one in listed)[len(listed) // 2]
    for where in (SignalFilter(since=middle), SignalFilter(until=middle), SignalFilter(kind="drift"), SignalFilter(key="nobody")):
        assert store.count_signals(where) == len(store.signals(where, limit=1000).items)


def test_a_cursor_of_another_list_is_refused(store: InsightStore) -> None:
    other = store.list(WIDE, limit=1).cursor
    with pytest.raises(BadQuery, match="cursor"):
        store.changes(cursor=other)
