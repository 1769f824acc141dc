"""What was known before the decision: the only things that may become a claim's conditions.

Nothing here may follow from how it ended. So sizes come from the request and the price before the trade, never from the amount that
came out; the pool's depth is the one before the trade; a failed trade has the same features as a successful one. What the
producer states under a name wins over what is derived under it.

``size`` is in whole units of the pair's *first* token in the canonical order (by address), whichever way the trade goes, and
``side`` is seen from that token too: "sell WBTC" and "buy WBTC" of one size then stand beside each other in one record key.
"""

from __future__ import annotations

from decimal import Decimal

from schemas.events import Token, ToolExecution
from workers.costs import mid_before, whole
from workers.metrics import rounded, settled
from workers.uniswap_math import BPS, EXACT, virtual_reserves

Feature = bool | float | str


def features_of(event: ToolExecution) -> dict[str, Feature]:
    """Every feature of an event: derived ones first, then the producer's; numbers to six significant digits.

    ``hour`` is the UTC hour with its fraction, ``weekday`` counts from Monday = 0. ``size_share`` is the share of the pool's
    virtual reserve (or of its depth in USD) that the trade asks for; ``tolerance_bps`` how far below the quote it may end.
    """
    decided = event.ts_decision or event.ts_executed
    seconds = decided.hour * 3600 + decided.minute * 60 + decided.second
    found: dict[str, Feature] = {"hour": rounded(seconds / 3600), "weekday": float(decided.weekday())}
    side = side_of(event)
    for name, label in (("router", event.router), ("pool", event.pool), ("strategy", event.strategy), ("side", side)):
        if label is not None:
            found[name] = label
    if event.fee_pips is not None:
        found["fee_pips"] = float(event.fee_pips)
    found |= settled(_sizes(event))
    for name in sorted(event.features):
        cell = event.features[name]
        found[name] = cell if isinstance(cell, (bool, str)) else rounded(cell)
    return found


def side_of(event: ToolExecution) -> str | None:
    """``sell X`` or ``buy X`` of the pair's first token; None where it is no trade of two tokens."""
    if event.token_in is None or event.token_out is None:
        return None
    if event.token_in.identity < event.token_out.identity:
        return f"sell {event.token_in.label}"
    return f"buy {event.token_out.label}"


def requested_in(event: ToolExecution) -> int | None:
    """The raw amount that was to go in: the quote's, which every attempt has, else the executed one."""
    if event.quote is not None and event.quote.amount_in_raw:
        return event.quote.amount_in_raw
    return event.amount_in_raw


def _sizes(event: ToolExecution) -> dict[str, Decimal | None]:
    amount = requested_in(event)
    if event.token_in is None or event.token_out is None or not amount:
        return {"size": _first_leg(event)}
    given = whole(amount, event.token_in)
    worth = EXACT.multiply(given, event.in_usd.value) if event.in_usd is not None else None
    return {
        "size": _in_first_token(event, event.token_in, given),
        "size_usd": worth,
        "size_share": _share(event, amount, worth),
        "tolerance_bps": _tolerance(event),
    }


def _in_first_token(event: ToolExecution, token_in: Token, given: Decimal) -> Decimal | None:
    if event.token_out is None or token_in.identity < event.token_out.identity:
        return given
    mid = mid_before(event)
    return EXACT.multiply(given, mid) if mid is not None else None


def _first_leg(event: ToolExecution) -> Decimal | None:
    """The first token's amount in a deposit, withdrawal or rebalance."""
    first = event.tokens[0].identity if event.tokens else None
    legs = [whole(leg.amount_raw, leg.token) for leg in event.legs if leg.token.identity == first]
    return sum(legs, Decimal(0)) if legs else None


def _share(event: ToolExecution, amount: int, worth: Decimal | None) -> Decimal | None:
    """Of the virtual reserve on the side of the token that goes in; the pool's liquidity must be the one before the trade."""
    liquidity, depth, pool = _level(event, "pool_liquidity"), _level(event, "pool_depth_usd"), event.pool_state
    if pool is not None and pool.sqrt_price_x96_before and liquidity:
        reserves = virtual_reserves(int(liquidity), pool.sqrt_price_x96_before)
        reserve = reserves[0 if pool.zero_for_one else 1]
        return EXACT.divide(Decimal(amount), Decimal(reserve)) if reserve else None
    if worth is not None and depth:
        return EXACT.divide(worth, Decimal(str(depth)))
    return None


def _level(event: ToolExecution, name: str) -> float:
    """A feature that is a positive number, else 0."""
    value = event.features.get(name)
    return value if isinstance(value, float) and value > 0.0 else 0.0


def _tolerance(event: ToolExecution) -> Decimal | None:
    quote = event.quote
    if quote is None or quote.min_out_raw is None or not quote.amount_out_raw:
        return None
    return EXACT.multiply(BPS, 1 - EXACT.divide(Decimal(quote.min_out_raw), Decimal(quote.amount_out_raw)))
