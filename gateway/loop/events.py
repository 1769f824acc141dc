"""The street's fills as tool executions: exact amounts, marked as simulated, on a development chain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from decimal import Context, Decimal
from functools import cache
from typing import Any

from gateway.loop.market import FEE_BPS, GAS_UNITS, NATIVE_USD, Choice, Execution, Fill, Order, Street
from schemas.events import Action, Provenance, Quote, Status, ToolExecution, Valuation
from streams.sources.market.plan import FLAT_CHAIN, START, USDC, WETH

AGENT = "simulator"
_EXACT = Context(prec=28)
_MID = _EXACT.divide(Decimal(1), Decimal(str(NATIVE_USD)))
"""WETH for one USDC: the street's price stands still, because only what a choice costs is asked about."""


def executions_of(street: Street, order: Order, choice: Choice, done: Execution) -> Iterator[ToolExecution]:
    """One execution for each transaction of an order."""
    for number, fill in enumerate(done.fills):
        yield ToolExecution.model_validate(_fields(street, order, choice, fill, number))


def _fields(street: Street, order: Order, choice: Choice, fill: Fill, number: int) -> dict[str, Any]:
    amount_in = int(fill.size_usd * 10**USDC.decimals)
    fair = _EXACT.multiply(Decimal(amount_in).scaleb(WETH.decimals - USDC.decimals, _EXACT), _MID)
    quoted = _less(fair, FEE_BPS)
    dollar, native = (Valuation(value=Decimal(str(usd)), ts=fill.ts, source="simulated-oracle") for usd in (1.0, NATIVE_USD))
    fields: dict[str, Any] = {
        "tool": "swap",
        "action": Action.SWAP,
        "agent_id": AGENT,
        "simulated": True,
        "chain_id": FLAT_CHAIN,
        "tx_hash": "0x" + hashlib.sha256(f"street:{street.kind}:{street.seed}:{order.number}:{number}".encode()).hexdigest(),
        "log_index": 0,
        "ts_executed": fill.ts,
        "ts_unit": "iso",
        "token_in": USDC,
        "token_out": WETH,
        "mid_before": _MID,
        "in_usd": dollar,
        "native_usd": native,
        "router": choice.router,
        "gas_used": GAS_UNITS,
        "gas_price_wei": int(fill.gas_gwei * 1e9),
        "amount_provenance": Provenance.LOG,
        "quote": Quote(amount_in_raw=amount_in, amount_out_raw=quoted, min_out_raw=_less(Decimal(quoted), fill.bound_bps)),
        "features": {
            "pool_depth_usd": float(f"{order.depth_usd:.6g}"),
            "volatility": float(f"{order.volatility:.6g}"),
            "queue_depth": order.queue,
        },
    }
    if fill.reverted:
        return fields | {"status": Status.REVERTED, "error": "execution reverted: too little received"}
    return fields | {"status": Status.SUCCESS, "amount_in_raw": amount_in, "amount_out_raw": _less(fair, fill.cost_bps)}


def _less(amount: Decimal, bps: float) -> int:
    kept = Decimal(str(round(1.0 - min(9_000.0, max(-9_000.0, bps)) / 10_000.0, 12)))
    return max(1, int(_EXACT.multiply(amount, kept)))


def hour_of(ts: datetime) -> float:
    """The UTC hour with its fraction, as ``workers.features`` has it."""
    return (ts.hour * 3600 + ts.minute * 60 + ts.second) / 3600


@cache
def record_key() -> str:
    """The one record key of the street."""
    return ToolExecution(
        tool="swap", action=Action.SWAP, agent_id=AGENT, simulated=True, status=Status.REJECTED,
        chain_id=FLAT_CHAIN, ts_executed=START, token_in=USDC, token_out=WETH,
    ).key  # fmt: skip
