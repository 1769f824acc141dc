"""Uniswap v3's arithmetic against the contracts' own numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.uniswap_math import (
    MAX_TICK,
    MIN_TICK,
    Q96,
    price,
    sqrt_ratio_at_tick,
    swap_cost,
    virtual_reserves,
)


@pytest.mark.parametrize(
    ("tick", "ratio"),
    [
        (0, 79228162514264337593543950336),
        (-50, 79030349367926598376800521322),
        (50, 79426470787362580746886972461),
        (MIN_TICK, 4295128739),
        (MAX_TICK, 1461446703485210103287273052203988822378723970342),
    ],
)
def test_tick_math_golden_values(tick: int, ratio: int) -> None:
    assert sqrt_ratio_at_tick(tick) == ratio


@given(st.integers(MIN_TICK, MAX_TICK - 1))
def test_a_higher_tick_has_a_higher_price(tick: int) -> None:
    assert sqrt_ratio_at_tick(tick + 1) > sqrt_ratio_at_tick(tick)


@pytest.mark.parametrize("tick", [MIN_TICK - 1, MAX_TICK + 1])
def test_ticks_end(tick: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        sqrt_ratio_at_tick(tick)


def test_a_price_reads_either_way() -> None:
    ratio = 1350174849792634181862360983626536
    usdc_per_weth = price(ratio, 6, 18, zero_for_one=False)
    weth_per_usdc = price(ratio, 6, 18, zero_for_one=True)
    assert round(usdc_per_weth, 4) == Decimal("3443.3339")
    assert abs(usdc_per_weth * weth_per_usdc - 1) < Decimal("1e-25")


def test_a_swap_across_ticks_the_v3_core_snapshot() -> None:
    """v3-core's snapshot: fee 1 %, liquidity 2e18, price 1, 1e18 of token0 in."""
    start, liquidity, gave, got = Q96, 2 * 10**18, 10**18, 662207357859531772
    end = -(-(liquidity << 96) * start // ((liquidity << 96) + gave * 99 // 100 * start))
    assert round(price(end, 18, 18), 5) == Decimal("0.44742")
    assert sqrt_ratio_at_tick(-8043) <= end < sqrt_ratio_at_tick(-8042)
    cost = swap_cost(start, end, gave, got, 10_000, zero_for_one=True)
    assert cost.impact is not None
    assert cost.fee is not None
    assert [round(part) for part in (cost.total, cost.impact, cost.fee)] == [3378, 3311, 100]


liquidity_ = st.integers(10**15, 10**24)
ticks = st.integers(-200_000, 200_000)


@given(liquidity_, ticks, st.integers(10**12, 10**20), st.sampled_from([100, 500, 3_000, 10_000]), st.booleans())
def test_within_one_range_total_is_impact_and_fee_compounded(
    liquidity: int, tick: int, gave: int, fee: int, zero_for_one: bool
) -> None:
    start = sqrt_ratio_at_tick(tick)
    net = gave * (10**6 - fee) // 10**6
    if zero_for_one:
        end = -(-(liquidity << 96) * start // ((liquidity << 96) + net * start))
        got = liquidity * (start - end) // Q96
    else:
        end = start + (net << 96) // liquidity
        got = (liquidity << 96) * (end - start) // end // start
    if not sqrt_ratio_at_tick(MIN_TICK) < end < sqrt_ratio_at_tick(MAX_TICK) or min(got, abs(start - end)) < 10**7:
        return
    cost = swap_cost(start, end, gave, got, fee, zero_for_one=zero_for_one)
    assert cost.impact is not None
    assert cost.fee is not None
    compounded = 1 - (1 - cost.impact / 10_000) * (1 - cost.fee / 10_000)
    assert abs(cost.total / 10_000 - compounded) < Decimal("1e-5")
    assert 0 <= cost.impact < 10_000
    assert cost.fee == Decimal(fee) / 100
    # A tier that is not the pool's is not confirmed, so nothing is split.
    assert swap_cost(start, end, gave, got, fee + 200, zero_for_one=zero_for_one).fee is None


def test_what_crossed_ticks_or_cannot_be_checked_is_not_split() -> None:
    start, end = sqrt_ratio_at_tick(0), sqrt_ratio_at_tick(-100)
    assert swap_cost(start, end, 10**18, 9 * 10**17, 3_000, zero_for_one=True).impact is None
    assert swap_cost(start, end, 10**18, 9 * 10**17, None, zero_for_one=True).fee is None
    assert swap_cost(start, start, 10**18, 997 * 10**15, 3_000, zero_for_one=True).fee is None
    assert swap_cost(start, start - 10**9, 50, 49, 20_000, zero_for_one=True).impact is None


def test_the_total_is_known_even_when_the_parts_are_not() -> None:
    start = sqrt_ratio_at_tick(0)
    cost = swap_cost(start, sqrt_ratio_at_tick(-100), 10**18, 9 * 10**17, 3_000, zero_for_one=True)
    assert cost.total == 1_000


def test_virtual_reserves_multiply_to_liquidity_squared() -> None:
    zero, one = virtual_reserves(10**18, sqrt_ratio_at_tick(1_000))
    assert abs(zero * one - 10**36) < 10**36 // 10**15
    assert one > zero
