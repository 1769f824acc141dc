"""Uniswap v3's arithmetic, exactly: ticks, prices, and what a swap's cost is made of.

Integers and Decimals only. Floats and truncated Decimals are off by one at some ticks.

A swap that stays within one range of liquidity trades at the geometric mean of the prices before and after, less the fee:
``out/in = √(P0·P1)·(1−f)``. So its total cost against the price before splits into impact ``1 − √(P1/P0)`` and fee ``f``, which
compound: ``1 − total = (1 − impact)·(1 − fee)``. A swap that crosses ticks does not keep to that; the fee that the formula then
gives back is not the pool's, which is how it is told, and only the total is known.

Reference: Uniswap/v3-core ``TickMath.sol``; the whitepaper, sections 6.2 and 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal

Q96 = 2**96
Q192 = 2**192
MIN_TICK, MAX_TICK = -887_272, 887_272

EXACT = Context(prec=100)
"""Digits enough for any 256-bit amount over any decimals; what is kept is rounded later, once."""
BPS = Decimal(10_000)
PIPS = Decimal(1_000_000)
COARSEST_CHECK = Decimal("1e-4")
"""Amounts so small that their rounding hides more than a basis point cannot confirm a fee."""

_RATIOS = (
    0xFFFCB933BD6FAD37AA2D162D1A594001, 0xFFF97272373D413259A46990580E213A, 0xFFF2E50F5F656932EF12357CF3C7FDCC,
    0xFFE5CACA7E10E4E61C3624EAA0941CD0, 0xFFCB9843D60F6159C9DB58835C926644, 0xFF973B41FA98C081472E6896DFB254C0,
    0xFF2EA16466C96A3843EC78B326B52861, 0xFE5DEE046A99A2A811C461F1969C3053, 0xFCBE86C7900A88AEDCFFC83B479AA3A4,
    0xF987A7253AC413176F2B074CF7815E54, 0xF3392B0822B70005940C7A398E4B70F3, 0xE7159475A2C29B7443B29C7FA6E889D9,
    0xD097F3BDFD2022B8845AD8F792AA5825, 0xA9F746462D870FDF8A65DC1F90E061E5, 0x70D869A156D2A1B890BB3DF62BAF32F7,
    0x31BE135F97D08FD981231505542FCFA6, 0x9AA508B5B7A84E1C677DE54F3E99BC9, 0x5D6AF8DEDB81196699C329225EE604,
    0x2216E584F5FA1EA926041BEDFE98, 0x48A170391F7DC42444E8FA2,
)  # fmt: skip
"""1.0001^(−2^i/2) in Q128.128 for each bit i of a tick."""


def sqrt_ratio_at_tick(tick: int) -> int:
    """√price at a tick in Q64.96, rounded up as the contract does.

    >>> sqrt_ratio_at_tick(-50), sqrt_ratio_at_tick(MIN_TICK)
    (79030349367926598376800521322, 4295128739)

    Raises:
        ValueError: the tick lies outside ±887272.
    """
    if not MIN_TICK <= tick <= MAX_TICK:
        raise ValueError(f"tick {tick} lies outside ±{MAX_TICK}")
    ratio = 1 << 128
    for bit, factor in enumerate(_RATIOS):
        if abs(tick) >> bit & 1:
            ratio = ratio * factor >> 128
    if tick > 0:
        ratio = (2**256 - 1) // ratio
    return -(-ratio >> 32)


def price(sqrt_price: int, decimals0: int, decimals1: int, *, zero_for_one: bool = True) -> Decimal:
    """Whole tokens out per whole token in at a √price: token1 per token0 when token0 goes in, else the inverse.

    >>> round(price(1350174849792634181862360983626536, 6, 18, zero_for_one=False), 4)
    Decimal('3443.3339')
    """
    one, zero = Decimal(sqrt_price * sqrt_price * 10**decimals0), Decimal(Q192 * 10**decimals1)
    return EXACT.divide(one, zero) if zero_for_one else EXACT.divide(zero, one)


def virtual_reserves(liquidity: int, sqrt_price: int) -> tuple[int, int]:
    """Raw (token0, token1) that a constant-product pool with this depth at this price would hold.

    >>> virtual_reserves(10**18, Q96)
    (1000000000000000000, 1000000000000000000)
    """
    return liquidity * Q96 // sqrt_price, liquidity * sqrt_price // Q96


@dataclass(frozen=True, slots=True)
class SwapCost:
    """A swap's cost in basis points of the fair amount out. ``impact`` and ``fee`` are None where they cannot be told apart."""

    total: Decimal
    impact: Decimal | None
    fee: Decimal | None


def swap_cost(before: int, after: int, amount_in: int, amount_out: int, fee_pips: int | None, *, zero_for_one: bool) -> SwapCost:
    """What a swap cost against the pool's price before it, from raw amounts and the √prices around it.

    >>> cost = swap_cost(Q96, 52995426430946045090309785934, 10**18, 662207357859531772, 10_000, zero_for_one=True)
    >>> [round(part) for part in (cost.total, cost.impact, cost.fee)]
    [3378, 3311, 100]
    """
    start, end = (before, after) if zero_for_one else (after, before)
    # Out per in is worth P0 before the trade and √(P0·P1) at the geometric mean, in units of token1/token0 or its inverse.
    fair = (before * before, Q192) if zero_for_one else (Q192, before * before)
    mean = (before * after, Q192) if zero_for_one else (Q192, before * after)
    total = 1 - EXACT.divide(Decimal(amount_out * fair[1]), Decimal(amount_in * fair[0]))
    split = SwapCost(EXACT.multiply(total, BPS), None, None)
    if fee_pips is None or before == after:
        return split
    tier = EXACT.divide(Decimal(fee_pips), PIPS)
    recovered = 1 - EXACT.divide(Decimal(amount_out * mean[1]), Decimal(amount_in * mean[0]))
    rounding = sum((EXACT.divide(Decimal(2), Decimal(size)) for size in (amount_in, amount_out, abs(before - after))), Decimal(0))
    if rounding > COARSEST_CHECK or abs(recovered - tier) > rounding:
        return split
    impact = 1 - EXACT.divide(Decimal(end), Decimal(start))
    return SwapCost(split.total, EXACT.multiply(impact, BPS), EXACT.multiply(tier, BPS))
