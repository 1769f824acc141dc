"""Which windows are complete, and where a part belongs."""

from __future__ import annotations

import pytest

from workers.levels.frontier import Frontier
from workers.windows import Tumbling


def frontier(sources: int = 2, patience: int = 1000) -> Frontier:
    return Frontier(sources, Tumbling(10), patience)


def test_the_slowest_partition_holds_the_horizon() -> None:
    one = frontier()
    assert one.horizon_ms is None
    one.advance(0, 50)
    assert one.horizon_ms == 50  # the second counts from the first watermark that anybody sent
    one.advance(0, 90)
    assert one.horizon_ms == 50
    one.advance(1, 70)
    assert one.horizon_ms == 70
    one.advance(1, 60)
    assert one.horizon_ms == 70


def test_who_is_too_far_behind_is_not_waited_for_until_it_catches_up() -> None:
    one = frontier(patience=100)
    one.advance(0, 0)
    one.advance(1, 0)
    one.advance(0, 100)
    assert one.horizon_ms == 0
    one.advance(0, 101)
    assert one.horizon_ms == 101
    one.advance(1, 95)
    assert one.horizon_ms == 95


def test_a_part_whose_partition_had_passed_its_window_belongs_where_the_watermark_stood() -> None:
    one = frontier()
    one.advance(0, 50)
    one.advance(1, 20)
    assert one.window_for(30, 25) == (30, False)
    assert one.window_for(0, 25) == (20, False)
    assert one.window_for(0, None) == (20, True)  # it is of a partition that was not waited for


def test_a_state_of_other_partitions_is_refused() -> None:
    one = frontier()
    one.advance(1, 30)
    other = frontier()
    other.restore(one.to_plain())
    assert other.to_plain() == one.to_plain()
    with pytest.raises(ValueError, match="2 partitions, not 3"):
        frontier(3).restore(one.to_plain())
