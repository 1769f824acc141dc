"""Bytes to contracts and back, with a named reason for every refusal.

``decode`` never raises anything but :class:`ContractError`, whatever the bytes: the pipeline turns it into a dead letter.
"""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from schemas.base import Contract
from schemas.dead_letters import DeadLetter
from schemas.episodes import Episode
from schemas.events import ToolExecution
from schemas.insights import InsightUpdate
from schemas.model_said import ModelSaid
from schemas.operations import OPERATION
from schemas.portfolio import PortfolioStanding, PortfolioValuation
from schemas.signals import SIGNAL
from schemas.usage import MemoryUsed
from schemas.windows import WindowClosed

MAX_DEPTH = 64
"""Levels of nesting that are read. Episodes wrap events and updates wrap insights, so an event has to leave room."""

MAX_VALUE_BYTES = 1_000_000
"""A value from outside over this is refused: Kafka's own default limit, so a record fits either log."""

MAX_OWN_BYTES = 8_000_000
"""The same for what the pipeline makes of such values. An episode holds its event and the features once more, and JSON may take
four times the room when it is written again (``1e15`` is ``1000000000000000.0``); a window holds two hundred rows of features."""

CONTRACTS: dict[str, TypeAdapter[Any]] = {
    "tool-execution": TypeAdapter(ToolExecution),
    "episode": TypeAdapter(Episode),
    "window-closed": TypeAdapter(WindowClosed),
    "signal": SIGNAL,
    "insight-operation": OPERATION,
    "insight-update": TypeAdapter(InsightUpdate),
    "memory-used": TypeAdapter(MemoryUsed),
    "portfolio-valuation": TypeAdapter(PortfolioValuation),
    "portfolio-standing": TypeAdapter(PortfolioStanding),
    "model-said": TypeAdapter(ModelSaid),
    "dead-letter": TypeAdapter(DeadLetter),
}


FROM_OUTSIDE = frozenset({"tool-execution", "insight-operation", "memory-used", "portfolio-valuation"})
"""What others may publish. The pipeline's own messages were checked when they were made."""

_NOT_FINITE = re.compile(rb"[:\[,]\s*[-+]?(?:NaN|Infinity|inf\b)")


class ContractError(ValueError):
    """Bytes that are not the contract. ``reason`` is a stable code, ``detail`` one line for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def decode(carries: str, value: bytes | None) -> Any:
    """The contract named ``carries`` held by a record's value.

    Raises:
        ContractError: null, too large, framed, not UTF-8, not JSON, not the contract, or of an unknown major version.
    """
    plain = parse(value, MAX_VALUE_BYTES if carries in FROM_OUTSIDE else MAX_OWN_BYTES)
    if carries in FROM_OUTSIDE:
        _check_depth_and_numbers(plain)
    adapter = CONTRACTS[carries]
    try:
        return adapter.validate_python(plain)
    except ValidationError as error:
        raise _refusal(error) from None


def parse(value: bytes | None, limit: int = MAX_VALUE_BYTES) -> dict[str, Any]:
    """A JSON object out of a record's value of up to ``limit`` bytes, integers exact whatever their size.

    Raises:
        ContractError: see :func:`decode`.
    """
    if value is None:
        raise ContractError("null_value", "the record has no value (a tombstone); this topic has no use for one")
    if len(value) > limit:
        raise ContractError("too_large", f"{len(value)} bytes; at most {limit} are read")
    if value[:1] == b"\x00":
        raise ContractError("confluent_framed", "the value starts with a schema-registry frame (byte 0x00); send plain JSON")
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ContractError("not_utf8", f"byte {error.start} is not UTF-8") from None
    try:
        plain = from_json(value, allow_inf_nan=False)
    except ValueError as error:
        reason = "not_finite" if _NOT_FINITE.search(value) else "not_json"
        raise ContractError(reason, str(error)[:300]) from None
    if not isinstance(plain, dict):
        raise ContractError("not_object", f"a JSON object is expected, not {type(plain).__name__}")
    return plain


def _check_depth_and_numbers(plain: Any) -> None:
    """What a parser lets through and a writer does not: numbers over a float's range, nesting that the next message adds to."""
    level: list[Any] = [plain]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is dict:
                deeper += one.values()
            elif kind is list:
                deeper += one
            elif kind is float and not math.isfinite(one):
                raise ContractError("not_finite", "a number is beyond the range of a float")
        if not deeper:
            return
        level = deeper
    raise ContractError("too_deep", f"nested deeper than {MAX_DEPTH} levels")


def _refusal(error: ValidationError) -> ContractError:
    """The first problem as one line, by its own name where it has one."""
    problems = error.errors(include_url=False, include_input=False)
    known = [problem for problem in problems if problem["type"] == "unknown_version"]
    first = (known or problems)[0]
    where = ".".join(str(step) for step in first["loc"])
    reason = first["type"] if first["type"] in NAMED_REASONS else "contract_violation"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ContractError(reason, f"{where + ': ' if where else ''}{first['msg']}{more}"[:1000])


NAMED_REASONS = frozenset(
    {
        "unknown_version", "raw_amount", "inexact_amount", "amount_out_of_range", "naive_timestamp", "bad_timestamp", "chain_id",
        "address", "hash", "number", "not_finite", "nul_in_text", "symbol", "same_token", "swap_without_tokens", "sentinel_amount",
        "success_without_amounts", "revert_without_gas", "failure_with_pnl", "bad_price", "stale_oracle", "price_off_reference",
        "adjustment", "expired", "directive_category", "restart_without_reason", "prices_from_later",
    }
)  # fmt: skip


def encode(message: Contract) -> bytes:
    """A contract as a record's value."""
    return message.to_wire()
