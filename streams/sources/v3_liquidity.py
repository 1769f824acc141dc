"""The tokens behind a range of Uniswap v3 liquidity, in integers, rounded where the contracts round.

Reference: Uniswap/v3-core ``SqrtPriceMath.sol`` (``getAmount0Delta``, ``getAmount1Delta``).
"""

from __future__ import annotations

from workers.uniswap_math import Q96, sqrt_ratio_at_tick


def tokens_of_liquidity(liquidity: int, sqrt_price: int, tick_lower: int, tick_upper: int, *, round_up: bool) -> tuple[int, int]:
    """Raw (token0, token1) behind ``liquidity`` in a range at a price; rounded up when paid in, down when paid out.

    >>> tokens_of_liquidity(10**18, Q96, -60, 60, round_up=False)
    (2995354955910780, 2995354955910780)
    """
    lower, upper = sqrt_ratio_at_tick(tick_lower), sqrt_ratio_at_tick(tick_upper)
    price = min(max(sqrt_price, lower), upper)
    amount0 = _divide(_divide((liquidity << 96) * (upper - price), upper, round_up), price, round_up)
    return amount0, _divide(liquidity * (price - lower), Q96, round_up)


def _divide(numerator: int, denominator: int, round_up: bool) -> int:
    return (numerator + denominator - 1) // denominator if round_up else numerator // denominator
