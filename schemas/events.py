"""ToolExecution: what a tool did, as its producer saw it.

One contract holds a swap, a rebalance, a deposit, a withdrawal, a failed simulation and a plain tool call with a reward. What
an action must carry depends on it (``_check_*``); what cannot be true is refused at the door with a named reason.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field, FiniteFloat, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Contract, Part
from schemas.identity import event_id_of
from schemas.types import (
    SENTINEL_AMOUNTS,
    Address,
    ChainId,
    Count,
    ExactDecimal,
    Hash32,
    Label,
    Moment,
    Name,
    RawAmount,
    Symbol,
    moment,
)


class Action(StrEnum):
    """What kind of thing a tool does; decides which fields an event must carry."""

    SWAP = "swap"
    REBALANCE = "rebalance"
    DEPOSIT = "deposit"
    WITHDRAW = "withdraw"
    COLLECT = "collect"
    SIMULATE = "simulate"
    CALL = "call"


class Status(StrEnum):
    """How it ended. ``reverted`` was mined and cost gas; ``rejected`` and ``dropped`` never ran; ``failed`` is off chain."""

    PENDING = "pending"
    SUCCESS = "success"
    REVERTED = "reverted"
    DROPPED = "dropped"
    REJECTED = "rejected"
    FAILED = "failed"


class Provenance(StrEnum):
    """Where the amounts come from. ``quote`` is what was promised, not what happened: it never teaches slippage."""

    LOG = "log"
    BALANCE_DELTA = "balance_delta"
    QUOTE = "quote"
    REPORTED = "reported"


class Token(Part):
    """A token: identity is the address (or the symbol, off chain); the symbol is for display."""

    address: Address | None = None
    symbol: Symbol | None = None
    decimals: int = Field(ge=0, le=255)

    @property
    def identity(self) -> str:
        """The address where there is one, else the symbol."""
        return self.address or (self.symbol or "?")

    @property
    def label(self) -> str:
        """What people read."""
        return self.symbol or (f"{self.address[:6]}…{self.address[-4:]}" if self.address else "?")


class Leg(Part):
    """One token moving in a deposit, withdrawal, rebalance or collection; ``into`` is seen from the pool or vault."""

    token: Token
    amount_raw: RawAmount
    into: bool


class Quote(Part):
    """What was promised before the trade."""

    amount_in_raw: RawAmount | None = None
    amount_out_raw: RawAmount
    min_out_raw: RawAmount | None = None
    source: Label | None = None
    ts: Moment | None = None
    block: Count | None = None


class Valuation(Part):
    """A price in USD with its age: refused when older than its heartbeat at the time of the trade."""

    value: ExactDecimal
    ts: Moment
    source: Label
    heartbeat_s: int = Field(default=86_400, gt=0, lt=2**63)


class PoolState(Part):
    """A Uniswap v3 pool around one swap. Square-root prices are Q64.96; ``before`` is the previous log's ``after``."""

    sqrt_price_x96_before: RawAmount | None = None
    sqrt_price_x96_after: RawAmount
    liquidity: RawAmount
    tick: int = Field(ge=-(2**23), lt=2**23)
    zero_for_one: bool


FeatureValue = bool | FiniteFloat | str


class ToolExecution(Contract):
    """One execution of one tool.

    Times are UTC. Raw amounts are integers in the token's smallest unit. ``mid_before`` is the price before the trade in whole
    ``token_out`` per whole ``token_in``. ``features`` holds what was known *before* the decision (pool depth, volatility, …):
    only these and what derives from the request may become conditions of a claim.
    """

    wire_name: ClassVar[str] = "tool-execution"

    event_id: str = Field(default="", max_length=128)
    tool: Name
    action: Action = Action.CALL
    agent_id: Label
    strategy: Label | None = None
    status: Status
    error: str | None = Field(default=None, max_length=4000)
    simulated: bool = False

    chain_id: ChainId | None = None
    tx_hash: Hash32 | None = None
    log_index: Count | None = None
    block_number: Count | None = None
    block_hash: Hash32 | None = None
    removed: bool = False

    ts_decision: Moment | None = None
    ts_submitted: Moment | None = None
    ts_executed: Moment
    ts_unit: str | None = Field(default=None, description="unit that ts_executed came in: iso, s, ms or us")

    token_in: Token | None = None
    token_out: Token | None = None
    amount_in_raw: RawAmount | None = None
    amount_out_raw: RawAmount | None = None
    legs: tuple[Leg, ...] = Field(default=(), max_length=16)
    pair: Label | None = Field(default=None, description="market's name where there are no token addresses")
    quote: Quote | None = None
    mid_before: ExactDecimal | None = None
    pool: Address | None = None
    pool_state: PoolState | None = None
    router: Label | None = None
    fee_pips: int | None = Field(default=None, ge=0, le=1_000_000)
    gas_used: Count | None = None
    gas_price_wei: RawAmount | None = None
    l1_fee_wei: RawAmount | None = None
    native_usd: Valuation | None = None
    in_usd: Valuation | None = None
    out_usd: Valuation | None = None
    amount_provenance: Provenance = Provenance.REPORTED
    reward: ExactDecimal | None = None
    pnl_bps: ExactDecimal | None = None
    features: dict[Name, FeatureValue] = Field(default_factory=dict, max_length=32)

    @model_validator(mode="before")
    @classmethod
    def _infer(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        filled = dict(data)
        tool = filled.get("tool")
        if "action" not in filled and isinstance(tool, str) and tool in set(Action):
            filled["action"] = tool
        if filled.get("ts_unit") is None and "ts_executed" in filled:
            filled["ts_unit"] = moment(filled["ts_executed"])[1]
        if not filled.get("event_id"):
            filled["event_id"] = event_id_of(filled)
        return filled

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_tokens()
        self._check_amounts()
        if self.status is Status.REVERTED and self.chain_id is not None and self.gas_used is None:
            raise PydanticCustomError("revert_without_gas", "a reverted transaction was mined, so it used gas: add gas_used")
        if self.status not in (Status.SUCCESS, Status.PENDING) and self.pnl_bps is not None:
            raise PydanticCustomError("failure_with_pnl", "what did not succeed has no P&L besides its gas: drop pnl_bps")
        if self.mid_before is not None and self.mid_before <= 0:
            raise PydanticCustomError("bad_price", "mid_before is a price and so positive")
        self._check_valuations()
        self._check_reference()
        return self

    def _check_tokens(self) -> None:
        if self.token_in and self.token_out and self.token_in.identity == self.token_out.identity:
            raise PydanticCustomError("same_token", "token_in and token_out are the same token")
        if self.action is Action.SWAP and not (self.token_in and self.token_out):
            raise PydanticCustomError("swap_without_tokens", "a swap names token_in and token_out")

    def _check_amounts(self) -> None:
        legs = [leg.amount_raw for leg in self.legs]
        if any(amount in SENTINEL_AMOUNTS for amount in (self.amount_in_raw, self.amount_out_raw, *legs)):
            raise PydanticCustomError("sentinel_amount", "2^255 and 2^256-1 mean 'all' or 'no limit', not an executed amount")
        if self.action is Action.SWAP and self.status is Status.SUCCESS and not (self.amount_in_raw and self.amount_out_raw):
            raise PydanticCustomError("success_without_amounts", "a successful swap has both amounts over zero")

    def _check_valuations(self) -> None:
        for name in ("native_usd", "in_usd", "out_usd"):
            valuation: Valuation | None = getattr(self, name)
            if valuation is None:
                continue
            if valuation.value <= 0:
                raise PydanticCustomError("bad_price", "{name} is a price and so positive", {"name": name})
            if abs(self.ts_executed - valuation.ts).total_seconds() > valuation.heartbeat_s:
                raise PydanticCustomError("stale_oracle", "{name} is older than its heartbeat at the trade", {"name": name})

    def _check_reference(self) -> None:
        """A trade at ten times the reference price is a decimals error far more often than a trade."""
        price = self.executed_price()
        if price is None:
            return
        reference = self.mid_before
        if reference is None and self.in_usd and self.out_usd:
            reference = self.in_usd.value / self.out_usd.value
        if reference is not None and not Decimal("0.1") < price / reference < Decimal(10):
            raise PydanticCustomError(
                "price_off_reference", "executed price is off the reference by ten times or more; check the tokens' decimals"
            )

    def executed_price(self) -> Decimal | None:
        """Whole ``token_out`` received per whole ``token_in`` given; None where it did not trade."""
        if not (self.token_in and self.token_out and self.amount_in_raw and self.amount_out_raw):
            return None
        scale = Decimal(10) ** (self.token_in.decimals - self.token_out.decimals)
        return Decimal(self.amount_out_raw) / Decimal(self.amount_in_raw) * scale

    @property
    def chain(self) -> str:
        """The chain's part of the record key; ``offchain`` where there is none.

        A simulated execution's is marked, so that it never shares a key, and so evidence, with a real one.
        """
        name = str(self.chain_id) if self.chain_id is not None else "offchain"
        return f"{name}-simulated" if self.simulated else name

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Tokens that take part, each once, in the canonical order (by identity)."""
        named = [token for token in (self.token_in, self.token_out) if token] or [leg.token for leg in self.legs]
        return tuple({token.identity: token for token in sorted(named, key=lambda token: token.identity)}.values())

    @property
    def pair_id(self) -> str:
        """The market's identity: token addresses in canonical order; a name, pool or ``-`` where there are none."""
        if self.tokens:
            return "/".join(token.identity for token in self.tokens)
        return self.pair or self.pool or "-"

    @property
    def pair_label(self) -> str:
        """The market's name for people, in the canonical order of ``pair_id``."""
        if self.tokens:
            return "/".join(token.label for token in self.tokens)
        return self.pair or self.pool or "-"

    @property
    def key(self) -> str:
        """The record key ``tool:chain:pair``; colons inside the pair's name are replaced."""
        return f"{self.tool}:{self.chain}:{self.pair_id.replace(':', '_')}"
