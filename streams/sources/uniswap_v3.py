"""Uniswap v3 pool events as tool executions.

Each line is one event of one pool, in log order, amounts as the pool's deltas (positive = into the pool) and
``sqrtPriceX96``, ``liquidity``, ``tick`` as they were *after* the event. So the price before a swap is the one after the
previous swap, and only swaps move it. The reader therefore carries the pool's state along, and drops it whenever the next
event might not follow on it — at the start, after a line that it could not read, where blocks go backwards. A swap without a
known price before it has no ``mid_before``: its cost is unknown, not zero.

Nothing is believed that can be checked. The tick must agree with the price; ``gasTotal`` must be gas times price; the tokens
behind a MINT or BURN follow from liquidity, range and price, to the last digit. Files exist in which the ``amount0`` of every
BURN repeats its liquidity: there the amount that follows from the price is used when ``amount1`` confirms that price, with
``amounts_from`` saying so and ``reported_amount0`` keeping what the file said; where nothing confirms it, the line is rejected.

Gas is the transaction's: two events of one transaction both carry the whole of it, and nothing in the file tells them apart
from two transactions in one block.

The file has no transaction hashes, so an event's identity is its content, with the number of its occurrence among identical
ones: overlapping files count once, two genuine identical events twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Context
from typing import Any

from pydantic import Field, ValidationError

from schemas.base import Part
from schemas.codec import ContractError, parse
from schemas.events import Action, Leg, PoolState, Provenance, Status, Token, ToolExecution
from schemas.identity import content_id
from schemas.types import Address, ChainId
from streams.sources.base import Item, Rejected, SourceError, numbered, why
from streams.sources.v3_liquidity import tokens_of_liquidity
from workers.uniswap_math import MAX_TICK, MIN_TICK, price, sqrt_ratio_at_tick

_WIRE = Context(prec=28)
"""Digits of a price that survive a contract's text form."""

GAS_TOLERANCE = 1e-9
"""How far the displayed ``gasTotal``, a float, may lie from gas times price, as a share."""
_GAS_REACH = 1e200
"""What no gas times price comes near, and a float holds."""


class Pool(Part):
    """The pool that a file's events belong to. ``fee_pips`` is in millionths."""

    chain_id: ChainId
    pool: Address
    fee_pips: int = Field(ge=0, lt=1_000_000)
    token0: Token
    token1: Token


class BadEvent(ValueError):
    """A line that is no event of this pool; ``reason`` is a stable code."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(slots=True)
class _State:
    """The pool as the previous event left it. ``sqrt_price`` None: not known."""

    sqrt_price: int | None = None
    tick: int = 0
    liquidity: int = 0
    block: int = 0
    seen: Counter[int] = field(default_factory=Counter)

    def forget(self) -> None:
        self.sqrt_price = None


def read_described(lines: Iterable[bytes], described: bytes | None) -> Iterator[Item]:
    """The items of a file of events, the pool given as the bytes of its ``pool.json``.

    Raises:
        SourceError: the bytes do not describe a pool.
    """
    try:
        pool = Pool.model_validate(parse(described))
    except ContractError as error:
        raise SourceError(f"the pool description is no JSON object ({error.reason}): {error.detail}") from None
    except ValidationError as error:
        raise SourceError(f"the pool description does not fit: {why(error)[1]}") from None
    return read(lines, pool)


def read(lines: Iterable[bytes], pool: Pool) -> Iterator[Item]:
    """One item a line, in the file's order."""
    state = _State()
    for line_no, raw in numbered(lines):
        try:
            event = _event(parse(raw), pool, state)
        except ContractError as error:
            state.forget()
            yield Rejected(line_no, raw, error.reason, error.detail)
        except ValidationError as error:
            state.forget()
            yield Rejected(line_no, raw, *why(error))
        except BadEvent as error:
            state.forget()
            yield Rejected(line_no, raw, error.reason, str(error))
        else:
            yield event


def _event(plain: dict[str, Any], pool: Pool, state: _State) -> ToolExecution:
    method = plain.get("method")
    make = _MAKERS.get(method) if isinstance(method, str) else None
    if make is None:
        raise BadEvent("unknown_method", f"method is SWAP, MINT or BURN, not {str(method)[:40]!r}")
    block = _integer(plain, "blockNo", low=0)
    if block < state.block:
        state.forget()
    common = {
        "chain_id": pool.chain_id,
        "pool": pool.pool,
        "fee_pips": pool.fee_pips,
        "status": Status.SUCCESS,
        "amount_provenance": Provenance.LOG,
        "block_number": block,
        "ts_executed": _integer(plain, "timestamp", low=0),
        **_gas(plain),
    }
    event = make(plain, pool, state, common)
    state.block = block
    return event


def _swap(plain: dict[str, Any], pool: Pool, state: _State, common: dict[str, Any]) -> ToolExecution:
    amount0, amount1 = _integer(plain, "amount0"), _integer(plain, "amount1")
    if amount0 * amount1 >= 0:
        raise BadEvent("amount_signs", f"a swap pays one token in and one out, not {amount0} and {amount1}")
    after, liquidity = _integer(plain, "sqrtPriceX96", low=1), _integer(plain, "liquidity", low=0)
    tick = _tick(plain, "tick")
    if not sqrt_ratio_at_tick(max(tick - 1, MIN_TICK)) <= after <= sqrt_ratio_at_tick(min(tick + 2, MAX_TICK)):
        raise BadEvent("tick_off_price", f"tick {tick} does not hold the price {after}")
    zero_for_one = amount0 > 0
    token_in, token_out = (pool.token0, pool.token1) if zero_for_one else (pool.token1, pool.token0)
    before = state.sqrt_price
    features: dict[str, float] = {}
    mid = None
    if before is not None:
        mid = _WIRE.plus(price(before, pool.token0.decimals, pool.token1.decimals, zero_for_one=zero_for_one))
        features["pool_liquidity"] = float(state.liquidity)
    actor = _actor(plain, "sender")
    event = ToolExecution(
        **common,
        event_id=_event_id(pool, state, plain, "SWAP", amount0, amount1, after, liquidity, tick, actor, plain.get("recipient")),
        tool="swap",
        action=Action.SWAP,
        agent_id=actor,
        router=actor,
        recipient=str(plain.get("recipient", ""))[:128],
        token_in=token_in,
        token_out=token_out,
        amount_in_raw=max(amount0, amount1),
        amount_out_raw=-min(amount0, amount1),
        mid_before=mid,
        pool_state=PoolState(
            sqrt_price_x96_before=before,
            sqrt_price_x96_after=after,
            liquidity=liquidity,
            tick=tick,
            zero_for_one=zero_for_one,
        ),
        features=features,
    )
    state.sqrt_price, state.tick, state.liquidity = after, tick, liquidity
    return event


def _mint(plain: dict[str, Any], pool: Pool, state: _State, common: dict[str, Any]) -> ToolExecution:
    actor = _actor(plain, "sender")
    liquidity, lower, upper = _range(plain)
    amount0, amount1 = _integer(plain, "amount0", low=0), _integer(plain, "amount1", low=0)
    event = ToolExecution(
        **common,
        event_id=_event_id(pool, state, plain, "MINT", liquidity, amount0, amount1, lower, upper, actor, plain.get("owner")),
        tool="deposit",
        action=Action.DEPOSIT,
        agent_id=actor,
        legs=_legs(pool, amount0, amount1, into=True),
        tick_lower=lower,
        tick_upper=upper,
    )
    _move_liquidity(state, liquidity, lower, upper)
    return event


def _burn(plain: dict[str, Any], pool: Pool, state: _State, common: dict[str, Any]) -> ToolExecution:
    actor = _actor(plain, "owner")
    liquidity, lower, upper = _range(plain)
    amount0, amount1 = _integer(plain, "amount0", low=0), _integer(plain, "amount1", low=0)
    described: dict[str, Any] = {
        "event_id": _event_id(pool, state, plain, "BURN", liquidity, amount0, amount1, lower, upper, actor),
        "agent_id": actor,
        "tick_lower": lower,
        "tick_upper": upper,
    }
    if liquidity == 0:
        # A burn of nothing makes the pool credit the fees earned. It moves nothing; what is then collected is not in this file.
        legs = _legs(pool, amount0, amount1, into=False)
        return ToolExecution(**common, **described, tool="collect", action=Action.COLLECT, legs=legs)
    checked = _burnt(state, liquidity, lower, upper, amount0, amount1)
    if checked != amount0:
        described |= {"amounts_from": "liquidity, range and price", "reported_amount0": str(amount0)}
    legs = _legs(pool, checked, amount1, into=False)
    event = ToolExecution(**common, **described, tool="withdraw", action=Action.WITHDRAW, legs=legs)
    _move_liquidity(state, -liquidity, lower, upper)
    return event


_MAKERS: dict[str, Callable[[dict[str, Any], Pool, _State, dict[str, Any]], ToolExecution]] = {
    "SWAP": _swap,
    "MINT": _mint,
    "BURN": _burn,
}


def _burnt(state: _State, liquidity: int, lower: int, upper: int, amount0: int, amount1: int) -> int:
    """The token0 that a burn paid out: the file's, unless that is the liquidity again and the price says otherwise.

    Raises:
        BadEvent: it is the liquidity again, and no known price confirms ``amount1``.
    """
    if amount0 != liquidity:
        return amount0
    if state.sqrt_price is not None:
        expected = tokens_of_liquidity(liquidity, state.sqrt_price, lower, upper, round_up=False)
        if expected[1] == amount1:
            return expected[0]
    raise BadEvent("amount_unknown", "amount0 repeats the liquidity, and no price before it tells the amount")


def _legs(pool: Pool, amount0: int, amount1: int, *, into: bool) -> tuple[Leg, ...]:
    return tuple(
        Leg(token=token, amount_raw=amount, into=into) for token, amount in ((pool.token0, amount0), (pool.token1, amount1))
    )


def _move_liquidity(state: _State, liquidity: int, lower: int, upper: int) -> None:
    if state.sqrt_price is not None and lower <= state.tick < upper:
        state.liquidity = max(0, state.liquidity + liquidity)


def _range(plain: dict[str, Any]) -> tuple[int, int, int]:
    lower, upper = _tick(plain, "tickLower"), _tick(plain, "tickUpper")
    if lower >= upper:
        raise BadEvent("bad_range", f"tickLower {lower} is not below tickUpper {upper}")
    return _integer(plain, "amount", low=0), lower, upper


def _gas(plain: dict[str, Any]) -> dict[str, int]:
    used, price = _integer(plain, "gasUsed", low=0), _integer(plain, "gasPrice", low=0)
    total = plain.get("gasTotal")
    if total is not None:
        exact = used * price / 1e18
        known = isinstance(total, (int, float)) and not isinstance(total, bool) and abs(total) < _GAS_REACH
        if not known or abs(total - exact) > GAS_TOLERANCE * exact:
            raise BadEvent("gas_mismatch", f"gasTotal {str(total)[:40]} is not gasUsed × gasPrice = {exact}")
    return {"gas_used": used, "gas_price_wei": price}


def _actor(plain: dict[str, Any], name: str) -> str:
    actor = plain.get(name)
    if not isinstance(actor, str) or not actor:
        raise BadEvent("missing_actor", f"{name} names no one")
    return actor


def _tick(plain: dict[str, Any], name: str) -> int:
    return _integer(plain, name, low=MIN_TICK, high=MAX_TICK)


def _integer(plain: dict[str, Any], name: str, *, low: int = -(2**255), high: int = 2**256 - 1) -> int:
    """An integer field, as a JSON integer or as text with an optional minus sign."""
    value = plain.get(name)
    if isinstance(value, str) and value.removeprefix("-").isascii() and value.removeprefix("-").isdigit() and len(value) <= 79:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadEvent("not_integer", f"{name} is an integer, in digits or in text, not {str(value)[:40]!r}")
    if not low <= value <= high:
        raise BadEvent("out_of_range", f"{name} lies outside {low} … {high}")
    return value


def _event_id(pool: Pool, state: _State, plain: dict[str, Any], *identity: object) -> str:
    """The event's identity from its content and how often the file had that content before."""
    content = content_id("uniswap-v3", pool.chain_id, pool.pool, plain["blockNo"], *identity)
    mark = int(content[:18].replace("-", ""), 16)
    state.seen[mark] += 1
    return content_id("uniswap-v3", content, state.seen[mark])
