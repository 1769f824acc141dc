"""Tool executions for tests: a good swap's fields to change, and hypothesis strategies for whole valid events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from schemas.codec import ContractError, decode
from schemas.events import Action, ToolExecution

WETH = {"address": "0x" + "a" * 40, "symbol": "WETH", "decimals": 18}
USDC = {"address": "0x" + "b" * 40, "symbol": "USDC", "decimals": 6}
AT = datetime(2025, 1, 1, 12, tzinfo=UTC)


def swap(**changes: Any) -> dict[str, Any]:
    """One whole WETH into 3,000 USDC, as JSON values; ``None`` takes a field out."""
    fields = {
        "event_id": "swap-1",
        "tool": "swap",
        "agent_id": "desk",
        "status": "success",
        "chain_id": 1,
        "ts_executed": "2025-01-01T12:00:00Z",
        "token_in": WETH,
        "token_out": USDC,
        "amount_in_raw": str(10**18),
        "amount_out_raw": str(3_000 * 10**6),
        "amount_provenance": "log",
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not None}


def wire(**changes: Any) -> bytes:
    """The swap with changes as a record's value; integers of any size."""
    return json.dumps(swap(**changes), ensure_ascii=False).encode()


def accepted(**changes: Any) -> ToolExecution:
    """The swap with changes, decoded from its bytes."""
    event = decode("tool-execution", wire(**changes))
    assert isinstance(event, ToolExecution)
    return event


def refusal(**changes: Any) -> str:
    """The reason for which the swap with changes is refused; ``accepted`` when it is not."""
    try:
        accepted(**changes)
    except ContractError as error:
        return error.reason
    return "accepted"


_text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), min_size=1, max_size=40)
_amount = st.integers(1, 10**27)
_finite = st.floats(allow_nan=False, allow_infinity=False)
_moments = st.integers(0, 4 * 10**9).map(lambda s: AT.replace(year=1970, month=1, day=1, hour=0) + timedelta(seconds=s))
_names = st.from_regex(r"\A[a-z][a-z0-9_]{0,12}\Z")


@st.composite
def executions(draw: st.DrawFn) -> ToolExecution:
    """Any valid execution: every action, every status, with and without quotes, gas, prices and features."""
    status = draw(st.sampled_from(["success", "pending", "reverted", "dropped", "rejected", "failed"]))
    when = draw(_moments)
    fields: dict[str, Any] = {
        "agent_id": draw(_text),
        "status": status,
        "simulated": draw(st.booleans()),
        "ts_executed": when,
        "chain_id": draw(st.sampled_from([None, 1, "0x1", "eip155:8453", 31337])),
        "features": draw(st.dictionaries(_names, st.one_of(st.booleans(), _finite, _text), max_size=4)),
        "gas_used": draw(st.integers(0, 2**63 - 1)),
        "gas_price_wei": draw(st.one_of(st.none(), st.integers(0, 10**14))),
        "error": draw(st.one_of(st.none(), _text)),
        "router": draw(st.one_of(st.none(), _text)),
    }
    action = draw(st.sampled_from(list(Action)))
    fields |= {"tool": action.value, "action": action}
    if action in (Action.SWAP, Action.SIMULATE):
        fields |= draw(_trades(when))
    elif action is not Action.CALL:
        fields["legs"] = [{"token": draw(st.sampled_from([WETH, USDC])), "amount_raw": draw(_amount), "into": draw(st.booleans())}]
    elif status in ("success", "pending"):
        fields |= {"reward": draw(st.decimals(-10, 10, places=4)), "pnl_bps": draw(st.decimals(-900, 900, places=3))}
    return ToolExecution.model_validate(fields)


@st.composite
def _trades(draw: st.DrawFn, when: datetime) -> dict[str, Any]:
    gave, got = draw(_amount), draw(_amount)
    low, high = (WETH, USDC) if draw(st.booleans()) else (USDC, WETH)
    price = (got * 10 ** int(low["decimals"])) / (gave * 10 ** int(high["decimals"]))
    mid = draw(st.floats(0.2, 5.0)) * price
    trade: dict[str, Any] = {"token_in": low, "token_out": high, "amount_in_raw": gave, "amount_out_raw": got}
    if draw(st.booleans()) and mid > 1e-90:
        trade["mid_before"] = mid
    if draw(st.booleans()):
        trade["quote"] = {"amount_in_raw": draw(st.one_of(st.none(), _amount)), "amount_out_raw": draw(_amount)}
    if draw(st.booleans()):
        trade["native_usd"] = {"value": "3000.5", "ts": when, "source": "oracle"}
    if draw(st.booleans()):
        trade["in_usd"] = {"value": draw(st.floats(1e-6, 1e6)), "ts": when, "source": "oracle"}
    trade["amount_provenance"] = draw(st.sampled_from(["log", "balance_delta", "quote", "reported"]))
    return trade
