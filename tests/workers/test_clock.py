"""Key clocks and the partition's: one bad date moves nothing, a replay changes nothing, a restart is not noticed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.clock import KeyClock, PartitionClock, Verdict

LATENESS = 100
times = st.integers(0, 1_000)
records = st.lists(st.tuples(st.integers(0, 40).map(str), times), max_size=60)


def verdicts(clock: KeyClock, stream: list[tuple[str, int]]) -> list[Verdict]:
    return [clock.admit(event_id, ts) for event_id, ts in stream]


def restored(clock: KeyClock) -> KeyClock:
    return KeyClock.from_plain(json.loads(json.dumps(clock.to_plain())))


@given(records, st.integers(0, 60), st.integers(2_000, 10**15))
def test_one_record_dated_ahead_makes_no_other_late(stream: list[tuple[str, int]], place: int, ahead: int) -> None:
    clock, largest = KeyClock(LATENESS), 0
    for number, (_, ts) in enumerate(stream):
        if number == place:
            assert clock.admit("ahead", ahead) is Verdict.FRESH
        verdict = clock.admit(str(number), ts)
        # Who is not behind the largest honest time by more than the lateness allowed is heard, whatever else was said.
        assert verdict is Verdict.FRESH or ts < largest - LATENESS
        largest = max(largest, ts)
        assert clock.now_ms is None or clock.now_ms <= largest


@given(records)
def test_a_record_seen_within_the_horizon_is_a_duplicate_and_before_it_late(stream: list[tuple[str, int]]) -> None:
    clock = KeyClock(LATENESS)
    for event_id, ts in stream:
        verdict = clock.admit(event_id, ts)
        horizon = clock.horizon_ms
        again = clock.admit(event_id, ts)
        assert again is (Verdict.LATE if horizon is not None and ts < horizon else Verdict.DUPLICATE)
        assert verdict is not Verdict.LATE or again is Verdict.LATE


@given(records)
def test_playing_a_stream_again_admits_nothing_and_moves_no_clock(stream: list[tuple[str, int]]) -> None:
    clock = KeyClock(LATENESS)
    once = {event_id: (event_id, ts) for event_id, ts in stream}.values()
    verdicts(clock, list(once))
    state = clock.to_plain()
    assert Verdict.FRESH not in verdicts(clock, list(once))
    assert clock.to_plain() == state


@given(records, st.integers(0, 60))
def test_a_restored_clock_goes_on_as_if_it_had_never_stopped(stream: list[tuple[str, int]], place: int) -> None:
    whole, cut = KeyClock(LATENESS), KeyClock(LATENESS)
    expected = verdicts(whole, stream)
    first = verdicts(cut, stream[:place])
    after = restored(cut)
    assert first + verdicts(after, stream[place:]) == expected
    assert after.to_plain() == whole.to_plain()


@given(records)
def test_the_clock_never_goes_back_and_memory_holds_only_what_may_come_again(stream: list[tuple[str, int]]) -> None:
    clock, last = KeyClock(LATENESS), None
    for event_id, ts in stream:
        clock.admit(event_id, ts)
        assert last is None or (clock.now_ms is not None and clock.now_ms >= last)
        last = clock.now_ms
        kept = clock.to_plain()["seen"]
        assert len(kept) == len(clock)
        assert clock.horizon_ms is None or all(ts >= clock.horizon_ms for ts, _ in kept)


@given(records)
def test_the_clock_is_the_second_largest_time_of_distinct_events(stream: list[tuple[str, int]]) -> None:
    clock = KeyClock(lateness_ms=10**9)
    admitted = [ts for event_id, ts in stream if clock.admit(event_id, ts) is Verdict.FRESH]
    largest = sorted(admitted)[-2:]
    assert clock.now_ms == (largest[0] if len(largest) == 2 else None)


def test_a_future_record_delivered_twice_does_not_push() -> None:
    clock = KeyClock(LATENESS)
    assert verdicts(clock, [("a", 10), ("b", 20), ("x", 10**9), ("x", 10**9), ("c", 30)]) == [
        Verdict.FRESH, Verdict.FRESH, Verdict.FRESH, Verdict.DUPLICATE, Verdict.FRESH,
    ]  # fmt: skip
    assert clock.now_ms == 30


def test_several_events_of_one_block_are_not_late() -> None:
    clock = KeyClock(lateness_ms=0)
    assert verdicts(clock, [(str(n), 1_000) for n in range(5)]) == [Verdict.FRESH] * 5


@pytest.mark.parametrize("plain", [{}, {"lateness_ms": "x"}, {"lateness_ms": 1, "first": None, "second": None, "seen": [1]}])
def test_a_state_that_is_not_ours_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a key clock"):
        KeyClock.from_plain(plain)
    with pytest.raises(ValueError, match="not a partition clock"):
        PartitionClock.from_plain(plain)


def test_a_quiet_keys_window_closes_when_others_move_on_by_one_window() -> None:
    clock = PartitionClock()
    clock.observe("quiet", 1_000)
    clock.observe("busy", 1_099)
    assert clock.idle(100) == []
    clock.observe("busy", 1_100)
    assert clock.idle(100) == ["quiet"]
    assert clock.idle(100) == []
    clock.observe("quiet", 1_000)
    clock.observe("busy", 1_250)
    assert clock.idle(100) == ["quiet"]


def test_old_data_filled_in_for_a_new_key_is_not_idle_from_the_start() -> None:
    clock = PartitionClock()
    clock.observe("live", 10**9)
    for hour in range(50):
        clock.observe("backfill", hour * 100)
        assert clock.idle(100) == []
    clock.observe("live", 10**9 + 100)
    assert clock.idle(100) == ["backfill"]


def test_a_key_that_spoke_before_there_was_any_time_counts_from_the_first_reading() -> None:
    clock = PartitionClock()
    clock.observe("first", None)
    clock.observe("second", 5_000)
    assert clock.idle(100) == []
    clock.observe("second", 5_100)
    assert clock.idle(100) == ["first"]


keyed = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), times)), max_size=40)


@given(keyed, st.integers(0, 40))
def test_a_restored_partition_clock_names_the_same_keys(stream: list[tuple[str, int | None]], place: int) -> None:
    def fold(clock: PartitionClock, part: list[tuple[str, int | None]]) -> list[list[str]]:
        named = []
        for key, now in part:
            clock.observe(key, now)
            named.append(clock.idle(100))
        return named

    whole, cut = PartitionClock(), PartitionClock()
    expected = fold(whole, stream)
    first = fold(cut, stream[:place])
    after = PartitionClock.from_plain(json.loads(json.dumps(cut.to_plain())))
    assert first + fold(after, stream[place:]) == expected
    assert after.to_plain() == whole.to_plain()
