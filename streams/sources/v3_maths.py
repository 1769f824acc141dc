"""Uniswap v3's integer maths, as far as its logs need it: prices at ticks and the tokens behind a range of liquidity.

Integers throughout, rounding where the contracts round: floats and truncated Decimals are off by one at some ticks.
Reference: Uniswap/v3-core ``TickMath.sol`` and ``SqrtPriceMath.sol``.
"""

from __future__ import annotations

from decimal import Context, Decimal

MAX_TICK = 887_272
Q96 = 2**96

_SQRT_RATIOS = (
    0xFFFCB933BD6FAD37AA2D162D1A594001, 0xFFF97272373D413259A46990580E213A, 0xFFF2E50F5F656932EF12357CF3C7FDCC,
    0xFFE5CACA7E10E4E61C3624EAA0941CD0, 0xFFCB9843D60F6159C9DB58835C926644, 0xFF973B41FA98C081472E6896DFB254C0,
    0xFF2EA16466C96A3843EC78B326B52861, 0xFE5DEE046A99A2A811C461F1969C3053, 0xFCBE86C7900A88AEDCFFC83B479AA3A4,
    0xF987A7253AC413176F2B074CF7815E54, 0xF3392B0822B70005940C7A398E4B70F3, 0xE7159475A2C29B7443B29C7FA6E889D9,
    0xD097F3BDFD2022B8845AD8F792AA5825, 0xA9F746462D870FDF8A65DC1F90E061E5, 0x70D869A156D2A1B890BB3DF62BAF32F7,
    0x31BE135F97D08FD981231505542FCFA6, 0x9AA508B5B7A84E1C677DE54F3E99BC9, 0x5D6AF8DEDB81196699C329225EE604,
    0x2216E584F5FA1EA926041BEDFE98, 0x48A170391F7DC42444E8FA2,
)  # fmt: skip
"""1.0001^(−2^i / 2) in Q128.128, for each bit of a tick."""

_PRICE = Context(prec=28)


def sqrt_price_at(tick: int) -> int:
    """The square-root price at a tick, Q64.96, rounded up as ``TickMath.getSqrtRatioAtTick`` does.

    >>> sqrt_price_at(-50), sqrt_price_at(-887272)
    (79030349367926598376800521322, 4295128739)

    Raises:
        ValueError: the tick lies outside ±887272.
    """
    if abs(tick) > MAX_TICK:
        raise ValueError(f"tick {tick} lies outside ±{MAX_TICK}")
    ratio = 1 << 128
    for bit, factor in enumerate(_SQRT_RATIOS):
        if abs(tick) >> bit & 1:
            ratio = ratio * factor >> 128
    if tick > 0:
        ratio = (2**256 - 1) // ratio
    return -(-ratio >> 32)


def tokens_of_liquidity(liquidity: int, sqrt_price: int, tick_lower: int, tick_upper: int, *, round_up: bool) -> tuple[int, int]:
    """Raw (token0, token1) behind ``liquidity`` in a range at a price; rounded up when paid in, down when paid out.

    >>> tokens_of_liquidity(10**18, 2**96, -60, 60, round_up=False)
    (2995354955910780, 2995354955910780)
    """
    lower, upper = sqrt_price_at(tick_lower), sqrt_price_at(tick_upper)
    price = min(max(sqrt_price, lower), upper)
    return _amount0(liquidity, price, upper, round_up), _amount1(liquidity, lower, price, round_up)


def price_of(sqrt_price: int, decimals0: int, decimals1: int, *, zero_for_one: bool) -> Decimal:
    """Whole tokens out per whole token in at a square-root price, to 28 significant digits.

    >>> price_of(1350174849792634181862360983626536, 6, 18, zero_for_one=False).quantize(Decimal("0.0001"))
    Decimal('3443.3339')
    """
    token1, token0 = sqrt_price * sqrt_price * 10**decimals0, 10**decimals1 * 2**192
    ratio = (token1, token0) if zero_for_one else (token0, token1)
    return _PRICE.divide(Decimal(ratio[0]), Decimal(ratio[1]))


def _amount0(liquidity: int, lower: int, upper: int, round_up: bool) -> int:
    numerator = (liquidity << 96) * (upper - lower)
    return _divide(_divide(numerator, upper, round_up), lower, round_up)


def _amount1(liquidity: int, lower: int, upper: int, round_up: bool) -> int:
    return _divide(liquidity * (upper - lower), Q96, round_up)


def _divide(numerator: int, denominator: int, round_up: bool) -> int:
    return (numerator + denominator - 1) // denominator if round_up else numerator // denominator
