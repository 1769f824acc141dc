"""Tumbling windows: every moment in exactly one, closing when nothing can fall into them any more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.windows import HOUR_MS, Tumbling

lengths = st.integers(1, 10 * HOUR_MS)


@given(st.integers(-(10**13), 10**13), lengths)
def test_a_moment_is_in_exactly_one_window(ts: int, length: int) -> None:
    windows = Tumbling(length)
    start = windows.start_of(ts)
    assert start <= ts < windows.end_of(start)
    assert start % length == 0
    assert windows.start_of(windows.end_of(start)) == windows.end_of(start)


@given(st.lists(st.integers(0, 50), unique=True), st.integers(-10, 600))
def test_closable_are_those_that_end_at_or_before_the_horizon(numbers: list[int], horizon: int) -> None:
    windows = Tumbling(10)
    starts = [10 * number for number in numbers]
    closed = windows.closable(starts, horizon)
    assert closed == sorted(closed)
    for start in starts:
        # Any moment at or after the horizon is admissible: a window may close only if it holds none.
        assert (start in closed) == all(ts < horizon for ts in range(start, windows.end_of(start)))


def test_nothing_closes_while_there_is_no_time() -> None:
    assert Tumbling.of_hours(4).closable([0], None) == []


@pytest.mark.parametrize("hours", [0, -1])
def test_a_window_has_a_length(hours: float) -> None:
    with pytest.raises(ValueError, match="longer than nothing"):
        Tumbling.of_hours(hours)


def test_hours_may_be_fractions() -> None:
    assert Tumbling.of_hours(0.25).length_ms == 900_000
