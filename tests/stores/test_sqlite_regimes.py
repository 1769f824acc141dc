"""Timelines: the same in whatever order signals come; looked up by key and time, as of any moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.signals import RegimeSignal
from schemas.topics import SIGNALS_RAISED
from stores.sqlite import InsightStore, SignalFilter, WritableInsightStore
from stores.sqlite.regimes import Timelines, stretches, tally
from streams.stages.writer import InsightWriter
from tests.support.regimes import NAMES, regime_model, regime_signal
from tests.support.sqlite import KEY, HashEmbedder, at, cut, deliveries, writing
from workers.stage import Delivery


def told(count: int = 12) -> list[RegimeSignal]:
    """Two keys, one of them also simulated, an hour between changes; each is sure a quarter of an hour after it began."""
    places = ((KEY, False), (KEY, True), ("swap:1:b", False))
    made = []
    for number in range(count):
        key, simulated = places[number % 3]
        made.append(
            regime_signal(
                number, NAMES[number // 3 % 3], None, key=key, simulated=simulated, stream=f"regime:{key}:volatility",
                ts=at(number) + timedelta(minutes=15), since=at(number), model=regime_model(id=f"m{number // 3}", n=number + 1),
            )
        )  # fmt: skip
    return made


def placed(messages: Sequence[RegimeSignal]) -> list[Delivery]:
    """Over the topic's partitions, by key."""
    ends = [0, 0, 0, 0]
    found = []
    for message in messages:
        partition = len(message.stream) % 4
        found += deliveries([message], SIGNALS_RAISED, ends[partition], partition)
        ends[partition] += 1
    return found


def written(path: Path, records: Sequence[Delivery], size: int) -> tuple[list[bytes], object]:
    with writing(path) as store:
        writer = InsightWriter(store, HashEmbedder())
        for batch in cut(records, size):
            outcome = writer.handle(batch)
            assert writer.handle(batch).counts == outcome.counts  # a redelivery
        return list(store.fingerprint_parts()), store.stretches()


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(12)), st.integers(1, 12))
def test_any_order_cut_and_repeat_give_one_timeline(order: list[int], size: int) -> None:
    messages = told()
    with TemporaryDirectory() as folder:
        first = written(Path(folder) / "a", placed(messages), 12)
        mixed = placed([messages[place] for place in order])
        assert written(Path(folder) / "b", mixed, size) == first
    assert sum(b'"regime":{' in line for line in first[0]) == 12


@pytest.fixture
def store(tmp_path: Path) -> WritableInsightStore:
    with writing(tmp_path / "store.db") as opened:
        InsightWriter(opened, HashEmbedder()).handle(placed(told()))
        yield opened  # type: ignore[misc]


def test_a_stretch_ends_where_the_next_begins(store: WritableInsightStore) -> None:
    line = [one for one in store.stretches(KEY) if not one.simulated]
    assert [(one.regime, one.since, one.until) for one in line] == [
        ("calm", at(0), at(3)), ("normal", at(3), at(6)), ("turbulent", at(6), at(9)), ("calm", at(9), None),
    ]  # fmt: skip
    assert len(store.stretches()) == 12
    assert store.stretches("swap:9:none") == ()
    model = store.regime_model(line[1].model_id)
    assert model == told()[3].model
    assert store.regime_model("none") is None


def test_a_reader_sees_them_and_they_are_signals_too(store: WritableInsightStore, tmp_path: Path) -> None:
    with InsightStore.open(tmp_path / "store.db") as reader:
        assert reader.stretches() == store.stretches()
        assert reader.signals_read() == 12
        page = reader.signals(SignalFilter(kind="regime", key=KEY), limit=3)
        assert [type(one) for one in page.items] == [RegimeSignal] * 3
        assert reader.signals(SignalFilter(kind="drift")).items == ()


def test_counts_for_monitoring(store: WritableInsightStore) -> None:
    found = tally(store._connection)
    assert found.present == {("calm", False): 2, ("calm", True): 1}
    assert sum(found.changes.values()) == 12
    assert found.changes[("calm", False)] == 4


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.sampled_from(NAMES)), max_size=8, unique_by=lambda one: one[0]),
    st.integers(-2, 25),
    st.none() | st.integers(-2, 30),
)
def test_looking_up_is_what_reading_the_list_gives(changes: list[tuple[int, int, str]], when: int, known: int | None) -> None:
    messages = [
        regime_signal(number, regime, None, since=at(since), ts=at(since + late))
        for number, (since, late, regime) in enumerate(changes)
    ]
    with TemporaryDirectory() as folder, writing(Path(folder) / "s.db") as opened:
        with opened.transaction() as transaction:
            transaction.add_signals([(one, ("topic", 0, place)) for place, one in enumerate(messages)])
        lines = Timelines(opened.stretches())
    by = None if known is None else at(known)
    seen = sorted((one for one in messages if by is None or one.ts <= by), key=lambda one: one.since)
    expected = [one.regime for one in seen if one.since <= at(when)]
    found = lines.at(KEY, False, at(when), by)
    assert (found and found.regime) == (expected[-1] if expected else None)
    assert lines.at(KEY, True, at(when), by) is None
    shares = lines.shares(KEY, False, at(when - 3), at(when + 3), by)
    assert sum(shares.values()) == pytest.approx(1.0 if shares else 0.0)
    for name in NAMES:
        inside = any(span.since <= at(when) < (span.until or at(10_000)) for span in lines.spans(name, {"key": KEY}, known_by=by))
        assert inside == (bool(expected) and expected[-1] == name)


def test_shares_are_of_the_time_that_is_known(store: WritableInsightStore) -> None:
    lines = Timelines(store.stretches())
    shares = lines.shares(KEY, False, at(2), at(6) - timedelta(minutes=120))
    assert {name: round(share, 3) for name, share in shares.items()} == {"calm": 0.5, "normal": 0.5}
    assert lines.shares(KEY, False, at(4), at(4)) == {"normal": 1.0}
    assert lines.shares(KEY, False, at(-9), at(-5)) == {}
    assert lines.shares("swap:*:*", False, at(0), at(9)) == {}


def narrow(**given_: str) -> dict[str, str | None]:
    return {"key": None, "tool": None, "chain": None, "pair": None} | given_


def test_spans_are_narrowed_and_the_latest_come_first(store: WritableInsightStore) -> None:
    lines = Timelines(store.stretches())
    since: list[datetime] = [span.since for span in lines.spans("calm", narrow())]
    assert since == sorted(since, reverse=True)
    assert {span.key for span in lines.spans("calm", narrow(tool="swap", chain="1", pair="b"))} == {"swap:1:b"}
    assert {span.simulated for span in lines.spans("calm", narrow(), simulated=False)} == {False}
    assert lines.spans("calm", narrow(tool="vault")) == []
    assert len(stretches(store._connection)) == 12
