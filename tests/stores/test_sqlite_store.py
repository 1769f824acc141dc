"""Reading and writing insights: filters, pages, history, signals, the embedder's identity, and fingerprints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.claims import Category
from schemas.insights import InsightStatus
from stores.sqlite import BadQuery, HistoryEntry, InsightFilter, InsightStore, Order, SignalFilter, StoreError, WritableInsightStore
from tests.support.sqlite import KEY, MODEL, HashEmbedder, at, claim, evidence, fill, insight, signal, writing

COUNT = 90


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WritableInsightStore]:
    with writing(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def filled(store: WritableInsightStore) -> WritableInsightStore:
    fill(store, [insight(number) for number in range(COUNT)])
    return store


def numbers(store: InsightStore, where: InsightFilter) -> set[int]:
    return {int(one.id[1:]) for one in store.list(where, limit=1000).items}


def test_what_goes_in_comes_out(store: WritableInsightStore) -> None:
    about = claim()
    whole = insight(
        1, id=about.insight_id, claim=about, evidence=evidence(), importance=0.3, simulated=True, upvotes=3, note={"n": 2**70}
    )
    fill(store, [whole])
    assert store.get(whole.id) == whole
    assert store.get("nobody") is None


def test_find_takes_a_prefix_if_it_is_enough(filled: WritableInsightStore) -> None:
    found = filled.find("i0042")
    assert found is not None
    assert found.id == "i0042"
    assert filled.find("i004") is None
    assert filled.find("%") is None
    fill(filled, [insight(1, id="i00420")])
    longer = filled.find("i0042")
    assert longer is not None
    assert longer.id == "i0042"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (InsightFilter(), set(range(COUNT))),
        (InsightFilter(categories=(Category.GAS_TIMING,)), {n for n in range(COUNT) if n % 3 == 1}),
        (InsightFilter(min_confidence=Decimal("0.3")), {n for n in range(COUNT) if n % 21 >= 6}),
        (InsightFilter(min_confidence=Decimal("0.3000001")), {n for n in range(COUNT) if n % 21 >= 7}),
        (InsightFilter(min_confidence=Decimal(1)), {20, 41, 62, 83}),
        (InsightFilter(validated_from=at(48)), {48, 49}),
        (InsightFilter(validated_until=at(1)), {0, 50}),
        (InsightFilter(tool="swap", chain="1", key=KEY), set(range(COUNT))),
        (InsightFilter(chain="10"), set()),
        (InsightFilter(metric="cost_bps"), set()),
        (InsightFilter(status=InsightStatus.ARCHIVED), set()),
        (InsightFilter(key="x' OR 1=1 --"), set()),
    ],
)
def test_filters(filled: WritableInsightStore, where: InsightFilter, expected: set[int]) -> None:
    assert numbers(filled, where) == expected


def test_filters_by_what_the_key_and_the_claim_say(store: WritableInsightStore) -> None:
    fill(
        store,
        [
            insight(1, key="swap:10:a/b", claim=claim("swap:10:a/b")),
            insight(2, key="call:offchain:x", simulated=True),
            insight(3, key="swap"),
            insight(4, status=InsightStatus.ARCHIVED),
        ],
    )
    assert numbers(store, InsightFilter(tool="swap")) == {1, 3}
    assert numbers(store, InsightFilter(chain="10", pair="a/b")) == {1}
    assert numbers(store, InsightFilter(metric="cost_bps")) == {1}
    assert numbers(store, InsightFilter(include_simulated=False)) == {1, 3}
    assert numbers(store, InsightFilter(status=InsightStatus.ARCHIVED)) == {4}
    assert numbers(store, InsightFilter(status=None)) == {1, 2, 3, 4}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, COUNT + 1), order=st.sampled_from(Order), category=st.sampled_from((None, Category.SLIPPAGE)))
def test_pages_put_together_are_the_list(filled: WritableInsightStore, limit: int, order: Order, category: Category | None) -> None:
    where = InsightFilter(categories=(category,) if category else ())
    whole = list(filled.list(where, order=order, limit=1000).items)
    if order is Order.CONFIDENCE:
        assert whole == sorted(whole, key=lambda one: (-one.confidence, -one.validated_ts.timestamp(), one.id))
    else:
        assert whole == sorted(whole, key=lambda one: (-one.validated_ts.timestamp(), one.id))
    pages, cursor = [], None
    while True:
        page = filled.list(where, order=order, limit=limit, cursor=cursor)
        pages += page.items
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.items) == limit
    assert pages == whole


@pytest.mark.parametrize("cursor", ["x", "é", "AAAA", "WzFd", "eyJhIjoxfQ", "bnVsbA", "a" * 10_000])
def test_a_cursor_that_is_not_ours_is_refused(filled: WritableInsightStore, cursor: str) -> None:
    with pytest.raises(BadQuery, match="cursor"):
        filled.list(cursor=cursor)


def test_a_cursor_of_another_order_is_refused(filled: WritableInsightStore) -> None:
    recent = filled.list(order=Order.RECENT, limit=1).cursor
    with pytest.raises(BadQuery, match="cursor"):
        filled.list(order=Order.CONFIDENCE, cursor=recent)


@pytest.mark.parametrize("limit", [0, -1, 1001, 10**30, True])
def test_limits_are_checked(filled: WritableInsightStore, limit: int) -> None:
    with pytest.raises(BadQuery, match="limit"):
        filled.list(limit=limit)
    with pytest.raises(BadQuery, match="limit"):
        filled.signals(limit=limit)


def test_filters_that_make_no_sense_are_refused(filled: WritableInsightStore) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 (that is the point)
    with pytest.raises(BadQuery, match="zone"):
        filled.list(InsightFilter(validated_from=naive))
    for confidence in (Decimal("NaN"), Decimal("1.1"), Decimal(-1)):
        with pytest.raises(BadQuery, match="confidence"):
            filled.list(InsightFilter(min_confidence=confidence))
    with pytest.raises(BadQuery, match="no database"):
        filled.list(InsightFilter(key="\ud800"))


def test_history_comes_back_in_order_with_its_evidence(store: WritableInsightStore) -> None:
    fill(store, [insight(1)])
    entries = (
        HistoryEntry("i0001", 1, "a", "ADD", at(0), "distil", "first", None, Decimal("0.60"), evidence(0.5)),
        HistoryEntry("i0001", 2, "b", "UPVOTE", at(4), "operator", "agrees", Decimal("0.6"), Decimal("0.7"), None),
    )
    with store.transaction() as transaction:
        transaction.record(list(reversed(entries)))
    assert store.history("i0001") == entries
    assert store.history("nobody") == ()


def test_signals_are_listed_latest_first_and_once(store: WritableInsightStore) -> None:
    made = [signal(number, metric=("cost_bps", "gas_native")[number % 2]) for number in range(25)]
    places = [(one, ("topic", 0, place)) for place, one in enumerate(made)]
    for _ in range(2):
        with store.transaction() as transaction:
            transaction.add_signals(places)
    first = store.signals(limit=20)
    assert list(first.items) == list(reversed(made))[:20]
    rest = store.signals(limit=20, cursor=first.cursor)
    assert (list(rest.items), rest.cursor) == (list(reversed(made))[20:], None)
    assert len(store.signals(SignalFilter(metric="cost_bps", since=at(10), until=at(20))).items) == 5
    assert store.signals(SignalFilter(level="tool")).items == ()
    assert store.counts() == (0, 25)


def test_stats_count_everything(filled: WritableInsightStore) -> None:
    with filled.transaction() as transaction:
        transaction.put(insight(0, status=InsightStatus.ARCHIVED), None)
        transaction.record([HistoryEntry("i0001", 1, "a", "ADD", at(0), "d", "r", None, Decimal("0.6"), None)])
        transaction.send([("t", "k", "m", 0, b"{}", None)])
    stats = filled.stats()
    assert (stats.active, stats.archived, stats.vectors, stats.outbox) == (COUNT - 1, 1, COUNT - 1, 1)
    assert stats.by_category == {"gas_timing": 30, "route_selection": 30, "slippage": 30}
    assert (stats.operations, stats.refused, stats.signals) == ({"ADD": 1}, 0, 0)
    assert (stats.model_id, stats.dimension, stats.epoch, stats.log_id) == (*MODEL, 1, None)


@pytest.mark.parametrize("other", [("another-model", MODEL[1]), (MODEL[0], MODEL[1] * 2)])
def test_a_store_of_another_model_or_dimension_is_refused(tmp_path: Path, other: tuple[str, int]) -> None:
    path = tmp_path / "store.db"
    with writing(path):
        pass
    for kind in (InsightStore, WritableInsightStore):
        with pytest.raises(StoreError, match=f"made with hash-vectors .16 dimensions., not {other[0]}") as caught:
            kind.open(path, other)
        assert "rebuild" in (caught.value.hint or "")
    with InsightStore.open(path) as reader:
        assert (reader.model_id, reader.dimension) == MODEL
    with WritableInsightStore.open(path) as writer:
        assert writer.epoch == 2


def test_a_new_store_needs_a_model_and_a_reader_needs_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no insight store"):
        InsightStore.open(tmp_path / "nothing.db")
    with pytest.raises(StoreError, match="which model"):
        WritableInsightStore.open(tmp_path / "new.db")


def test_a_reader_cannot_write(tmp_path: Path, filled: WritableInsightStore) -> None:
    with InsightStore.open(tmp_path / "store.db") as reader:
        with pytest.raises(StoreError):
            reader._connection.execute("DELETE FROM insights")
        assert reader.counts() == (COUNT, 0)


def test_a_snapshot_is_one_state(tmp_path: Path, filled: WritableInsightStore) -> None:
    with InsightStore.open(tmp_path / "store.db") as reader:
        with reader.snapshot():
            before = reader.counts()
            fill(filled, [insight(500)])
            assert reader.counts() == before
        assert reader.counts() == (COUNT + 1, 0)


def test_fingerprint_is_the_same_whatever_the_order_and_batches(tmp_path: Path) -> None:
    made = [insight(number) for number in range(20)]
    alarms = [(signal(number), ("topic", number % 4, number)) for number in range(20)]
    prints = []
    for name, step in (("a", 1), ("b", -1)):
        with writing(tmp_path / name) as store:
            for one in made[::step]:
                fill(store, [one])
            with store.transaction() as transaction:
                transaction.add_signals(alarms[::step])
            prints.append(list(store.fingerprint_parts()))
    assert prints[0] == prints[1]
    assert len(prints[0]) == 40
    assert [json.loads(line).popitem()[1]["id"] for line in prints[0]] == [f"{kind}{n:04}" for kind in "is" for n in range(20)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "Other."),
        ("category", Category.GENERAL),
        ("confidence", Decimal("0.61")),
        ("status", InsightStatus.ARCHIVED),
        ("claim", claim(threshold=0.02)),
        ("evidence", evidence(0.4)),
        ("upvotes", 1),
        ("downvotes", 1),
        ("edits", 1),
        ("revision", 2),
    ],
)
def test_fingerprint_sees_every_change_that_matters(store: WritableInsightStore, field: str, value: object) -> None:
    base = insight(1, confidence=Decimal("0.60"), claim=claim(), evidence=evidence())
    fill(store, [base])
    before = list(store.fingerprint_parts())
    fill(store, [base.model_copy(update={"confidence": Decimal("0.6"), "author": "someone else"})])
    assert list(store.fingerprint_parts()) == before
    fill(store, [base.model_copy(update={field: value})])
    assert list(store.fingerprint_parts()) != before


def test_fingerprint_pages_through_any_number(store: WritableInsightStore) -> None:
    embedder = HashEmbedder()
    fill(store, [insight(number) for number in range(1201)], embedder)
    assert len(set(store.fingerprint_parts())) == 1201
