"""Messages that others publish, as JSON values with every part filled in: for tests that change one value at a time."""

from __future__ import annotations

from typing import Any

from schemas.operations import LinkInsights, OrganiseInsight, TeachRanker, TuneRecall
from tests.support.events import swap
from tests.support.sqlite import add, at, claim, directive, evidence, note, op, use

_TOKEN = {"address": "0x" + "c" * 40, "symbol": "DAI", "decimals": 18}
_VALUED = {"value": "3000", "ts": "2025-01-01T11:59:00Z", "source": "oracle", "heartbeat_s": 3600}
_SPREAD = {"pairs": 3, "pairs_shown": 2, "tools": 1, "tools_shown": 1, "heterogeneity": 0.1}

EXECUTION: dict[str, Any] = swap(
    strategy="s",
    tx_hash="0x" + "d" * 64,
    log_index=3,
    block_number=4,
    block_hash="0x" + "e" * 64,
    removed=False,
    ts_decision="2025-01-01T11:59:59Z",
    legs=[{"token": _TOKEN, "amount_raw": "5", "into": True}],
    quote={"amount_out_raw": "3000000000", "min_out_raw": "1", "source": "q", "ts": "2025-01-01T11:59:00Z", "block": 3},
    mid_before="3000",
    pool="0x" + "f" * 40,
    pool_state={"sqrt_price_x96_before": "7", "sqrt_price_x96_after": "8", "liquidity": "9", "tick": 1, "zero_for_one": True},
    router="r",
    fee_pips=3000,
    gas_used=21_000,
    gas_price_wei="30000000000",
    l1_fee_wei="1",
    native_usd=_VALUED,
    in_usd=_VALUED,
    out_usd={**_VALUED, "value": "1"},
    reward="1.5",
    pnl_bps="-3",
    features={"size": 1.0, "venue": "v", "late": True},
    later={"than": ["this", 1]},
)

VALUATION: dict[str, Any] = {
    "valuation_id": "v", "portfolio": "main", "ts": "2025-01-01T12:00:00Z", "value": "1000", "net_deposits": "900", "unit": "USD",
    "prices_ts": "2025-01-01T11:59:00Z", "heartbeat_s": 600, "missing": ["X"], "source": "s", "restart": True, "reason": "new",
}  # fmt: skip


def operations() -> list[dict[str, Any]]:
    """One of each kind of operation."""
    said: dict[str, Any] = {"op_id": "o", "ts": at(0), "author": "a", "reason": "r"}
    shown = evidence().model_copy(update={"kinds": {"slippage": 2}})
    made = [
        add("i", claim=claim(), evidence=shown, importance=0.5),
        *(op(kind, "i", kind, evidence=shown) for kind in ("UPVOTE", "DOWNVOTE")),
        op("EDIT", "i", "e", text="Words.", claim=claim(), evidence=shown, of_evidence="d"),
        op("ARCHIVE", "i", "a", cause="merged", by="j", of_revision=2),
        op("RESTORE", "i", "r", cause="expired"),
        op("ADJUST", "i", "c", confidence="0.5"),
        op("ADJUST", "i", "d", delta="-0.5"),
        op("FORGET", "i", "f"),
        directive("d", expires_at=at(9)),
        note("n", similar=[("i", 0.5)], recalled=("i",), corrects="i", importance=0.5),
        TuneRecall(**said, changes={"min_score": 0.5, "max_results": 3, "boost_recent": True}),
        LinkInsights(**said, insight_id="i", target_id="j", relation="RELATED", strength=0.5),
        OrganiseInsight(**said, insight_id="i", keywords=("gas",), context_note="c", cites=("j",), basis="b"),
        TeachRanker(**said, action="train"),
    ]
    plain = [one.model_dump(mode="json", exclude_none=True) for one in made]
    plain[0]["evidence"]["spread"] = _SPREAD
    return plain


SAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("tool-execution", EXECUTION),
    ("portfolio-valuation", VALUATION),
    ("memory-used", {**use("u", "i", recalled=("i", "j")).model_dump(mode="json"), "scores": [0.5, 0.25], "event_id": "e"}),
    *(("insight-operation", one) for one in operations()),
]
"""What each topic from outside carries, by the contract's name."""
