"""The sums beside ADWIN's window: the place of a change, and the means on its two sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.adwin import MIN_WINDOW
from workers.blocks import BlockSums


def filled(*parts: tuple[int, float, float], values: int = 1) -> BlockSums:
    """``(blocks, fed, raw value)`` one after the other."""
    sums = BlockSums()
    for count, fed, raw in parts:
        for _ in range(count):
            sums.add(fed, raw * values, values)
    return sums


@given(st.integers(20, 400), st.integers(MIN_WINDOW + 2, 12))
def test_the_change_is_found_where_it_is(before: int, after: int) -> None:
    early, late = filled((before, 0.0, 30.0), (after, 1.0, 50.0)).split()
    # Only bucket boundaries can be named; near the end they are one or two blocks apart.
    assert abs(late.n - after) <= 2
    assert early.n + late.n == before + after
    assert early.raw * early.n + late.raw * late.n == pytest.approx(30.0 * before + 50.0 * after)
    assert early.fed < late.fed


def test_means_are_a_value_and_counts_are_values() -> None:
    early, late = filled((10, 0.0, 2.0), (10, 1.0, 10.0), values=4).split()
    assert (early.raw, early.n, late.raw, late.n) == (2.0, 40, 10.0, 40)


def test_a_window_started_anew_remembers_raw_values_and_not_what_was_fed() -> None:
    sums = filled((40, 9.0, 1.0))
    sums.restart()
    assert sums.width == 0
    for fed, raw in [(0.0, 3.0)] * 10 + [(1.0, 7.0)] * 10:
        sums.add(fed, 2 * raw, 2)
    early, late = sums.split()
    assert (early.fed, early.n, late.fed, late.n) == (0.0, 60, 1.0, 20)
    assert early.raw == pytest.approx((40 * 1.0 + 20 * 3.0) / 60)


@given(st.integers(1, 2_000))
def test_memory_grows_with_the_logarithm(count: int) -> None:
    sums = filled((count, 1.0, 1.0))
    assert sums.width == count
    assert sum(len(row) for row in sums.to_plain()["rows"]) <= 5 * count.bit_length()


@given(st.integers(1, 300))
def test_a_restored_one_is_equal_and_its_own(count: int) -> None:
    sums = filled((count, 1 / 3, 1 / 7))
    after = BlockSums.from_plain(sums.to_plain())
    assert after.to_plain() == sums.to_plain()
    after.add(1.0, 1.0, 1)
    assert (after.width, sums.width) == (count + 1, count)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for a change"):
        filled((2 * MIN_WINDOW - 1, 1.0, 1.0)).split()
    good = filled((3, 1.0, 1.0)).to_plain()
    for change in ({"rows": []}, {"rows": [[1]]}, {"earlier": [1]}, {"values": None}):
        with pytest.raises(ValueError, match="not block sums"):
            BlockSums.from_plain({**good, **change})
    with pytest.raises(ValueError, match="not block sums"):
        BlockSums.from_plain({})
