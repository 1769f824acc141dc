"""What an execution cost: exact numbers from the event's own amounts, each absent where it is not known.

Three costs are kept apart: against the quote (slippage), against the pool's price before the trade (total, and its impact and fee),
and against the oracle's price (shortfall). Amounts whose provenance is a quote are what was promised: they measure nothing.

Gas is ``(gas_used · gas_price + l1_fee) / 1e18`` in the chain's own coin. OP-stack chains put the L1 part in ``l1_fee``; Arbitrum
has it inside ``gas_used`` and sends no ``l1_fee``.
"""

from __future__ import annotations

from decimal import Decimal

from schemas.events import PoolState, Provenance, Quote, Status, Token, ToolExecution
from workers.metrics import settled
from workers.uniswap_math import BPS, EXACT, price, swap_cost

WEI_EXPONENT = -18
GWEI_EXPONENT = -9

FINAL = {Status.SUCCESS: 0.0, Status.REVERTED: 1.0, Status.DROPPED: 1.0, Status.REJECTED: 1.0, Status.FAILED: 1.0}
"""``failed`` of every final status; pending is neither."""


def measure(event: ToolExecution) -> dict[str, float]:
    """The metrics of ``workers.metrics.METRICS`` that the event settles, to six significant digits, in the table's order."""
    exact: dict[str, Decimal | None] = {**_trade(event), **_gas(event), "reward": event.reward, "pnl_bps": event.pnl_bps}
    metrics = settled(exact)
    if event.status in FINAL:
        metrics["failed"] = FINAL[event.status]
    return metrics


def whole(amount_raw: int, token: Token) -> Decimal:
    """A raw amount in whole tokens, exactly.

    >>> whole(42146203, Token(symbol="WBTC", decimals=8))
    Decimal('0.42146203')
    """
    return EXACT.scaleb(Decimal(amount_raw), -token.decimals)


def mid_before(event: ToolExecution) -> Decimal | None:
    """The price before the trade in whole ``token_out`` per whole ``token_in``: the producer's, else the pool's."""
    if event.mid_before is not None:
        return event.mid_before
    pool = event.pool_state
    if pool is None or not pool.sqrt_price_x96_before or event.token_in is None or event.token_out is None:
        return None
    first, second = (event.token_in, event.token_out) if pool.zero_for_one else (event.token_out, event.token_in)
    return price(pool.sqrt_price_x96_before, first.decimals, second.decimals, zero_for_one=pool.zero_for_one)


def promised(quote: Quote, amount_in_raw: int) -> Decimal:
    """The raw amount out that the quote promises for so much in; scaled when the quote was for another amount."""
    out = Decimal(quote.amount_out_raw)
    if quote.amount_in_raw and quote.amount_in_raw != amount_in_raw:
        return EXACT.divide(EXACT.multiply(out, Decimal(amount_in_raw)), Decimal(quote.amount_in_raw))
    return out


def _trade(event: ToolExecution) -> dict[str, Decimal | None]:
    gave, got = event.amount_in_raw, event.amount_out_raw
    if event.status is not Status.SUCCESS or event.amount_provenance is Provenance.QUOTE or not gave or not got:
        return {}
    if event.token_in is None or event.token_out is None:
        return {}
    spent, received = whole(gave, event.token_in), whole(got, event.token_out)
    costs: dict[str, Decimal | None] = {}
    mid = mid_before(event)
    if mid is not None:
        costs["cost_bps"] = _short(received, EXACT.multiply(spent, mid))
    costs |= _split(event.pool_state, gave, got, event.fee_pips)
    if event.quote is not None and event.quote.amount_out_raw:
        costs["slippage_bps"] = _short(Decimal(got), promised(event.quote, gave))
    if event.in_usd is not None and event.out_usd is not None:
        costs["shortfall_bps"] = _short(EXACT.multiply(received, event.out_usd.value), EXACT.multiply(spent, event.in_usd.value))
    return costs


def _split(pool: PoolState | None, gave: int, got: int, fee_pips: int | None) -> dict[str, Decimal | None]:
    """Impact and fee of a swap that crossed no tick."""
    if pool is None or not pool.sqrt_price_x96_before or not pool.sqrt_price_x96_after:
        return {}
    before, after = pool.sqrt_price_x96_before, pool.sqrt_price_x96_after
    cost = swap_cost(before, after, gave, got, fee_pips, zero_for_one=pool.zero_for_one)
    return {"impact_bps": cost.impact, "fee_bps": cost.fee}


def _gas(event: ToolExecution) -> dict[str, Decimal | None]:
    if event.gas_price_wei is None:
        return {}
    costs: dict[str, Decimal | None] = {}
    if event.gas_used is not None:
        wei = event.gas_used * event.gas_price_wei + (event.l1_fee_wei or 0)
        native = EXACT.scaleb(Decimal(wei), WEI_EXPONENT)
        costs["gas_native"] = native
        if event.native_usd is not None:
            costs["gas_usd"] = EXACT.multiply(native, event.native_usd.value)
    costs["gas_gwei"] = EXACT.scaleb(Decimal(event.gas_price_wei), GWEI_EXPONENT)
    return costs


def _short(actual: Decimal, fair: Decimal) -> Decimal:
    """By how many basis points of what was fair the actual amount falls short; negative when it exceeds it."""
    return EXACT.multiply(BPS, EXACT.subtract(Decimal(1), EXACT.divide(actual, fair)))
