"""What an execution cost: exact, each against its own reference, absent where it is not known."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from schemas.events import ToolExecution
from streams.sources.uniswap_v3 import read_described
from tests.support.events import USDC, WETH, accepted, executions
from workers.costs import measure
from workers.metrics import CONDITIONS, METRICS, rounded, settled

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "uniswap_v3"
AT = {"ts": "2025-01-01T12:00:00Z", "source": "oracle"}
CALL = {"tool": "call", "token_in": None, "token_out": None, "amount_in_raw": None, "amount_out_raw": None}


def test_the_three_costs_are_kept_apart() -> None:
    metrics = measure(
        accepted(
            amount_out_raw="2991000000",
            mid_before="3000",
            quote={"amount_out_raw": "2994000000"},
            in_usd={"value": "3010", **AT},
            out_usd={"value": "1", **AT},
        )
    )
    assert metrics["cost_bps"] == 30.0
    assert metrics["slippage_bps"] == 10.02
    assert metrics["shortfall_bps"] == 63.1229
    assert "impact_bps" not in metrics


def test_the_sandwich_of_hummingbot_695() -> None:
    """Reported as quoted, 1321.771489 in; the pool took 1323.079017: 9.89 bps that the report hides."""
    took = {"token_in": USDC, "token_out": WETH, "amount_out_raw": str(10**18), "amount_in_raw": "1323079017"}
    quote = {"amount_in_raw": "1321771489", "amount_out_raw": str(10**18)}
    assert measure(accepted(**took, quote=quote))["slippage_bps"] == pytest.approx(9.89, abs=0.01)
    reported = measure(accepted(**{**took, "amount_in_raw": "1321771489"}, quote=quote, amount_provenance="quote"))
    assert "slippage_bps" not in reported


@pytest.mark.parametrize("reference", ["mid_before", "quote", "oracle"])
def test_a_quotes_amounts_measure_nothing(reference: str) -> None:
    references: dict[str, dict[str, Any]] = {
        "mid_before": {"mid_before": "3010"},
        "quote": {"quote": {"amount_out_raw": "3010000000"}},
        "oracle": {"in_usd": {"value": "3010", **AT}, "out_usd": {"value": "1", **AT}},
    }
    assert len(measure(accepted(**references[reference]))) == 2
    assert measure(accepted(**references[reference], amount_provenance="quote")) == {"failed": 0.0}


def test_a_better_price_than_the_mid_is_a_negative_cost() -> None:
    assert measure(accepted(mid_before="2997"))["cost_bps"] == -10.01


def test_gas_golden_values() -> None:
    gas = {"gas_used": 266251, "gas_price_wei": "7729821113"}
    assert measure(accepted(**gas))["gas_native"] == rounded(0.0020580726)
    assert measure(accepted(**gas))["gas_gwei"] == 7.72982
    with_l1 = measure(accepted(**gas, l1_fee_wei=str(10**15), native_usd={"value": "2000", **AT}))
    assert with_l1["gas_native"] == rounded(0.0030580726)
    assert with_l1["gas_usd"] == rounded(6.1161452)


@pytest.mark.parametrize("wei", [66373200000000, 553110000000])
def test_the_cheapest_fees_are_not_zero(wei: int) -> None:
    assert measure(accepted(gas_used=1, gas_price_wei=wei))["gas_native"] == rounded(wei / 1e18)


@pytest.mark.parametrize(
    ("status", "more", "failed"),
    [
        ("success", {}, 0.0),
        ("reverted", {"gas_used": 100_000, "gas_price_wei": "1000000000"}, 1.0),
        ("dropped", {}, 1.0),
        ("rejected", {}, 1.0),
        ("failed", {}, 1.0),
        ("pending", {}, None),
    ],
)
def test_a_failure_has_no_trade_cost_but_may_have_cost_gas(status: str, more: dict[str, Any], failed: float | None) -> None:
    metrics = measure(accepted(status=status, mid_before="3010", **more))
    assert metrics.get("failed") == failed
    assert ("cost_bps" in metrics) == (status == "success")
    assert ("gas_native" in metrics) == (status == "reverted")


def test_reward_and_profit_are_the_producers() -> None:
    assert measure(accepted(**CALL, reward="0.62", pnl_bps="-14.5")) == {"reward": 0.62, "pnl_bps": -14.5, "failed": 0.0}


@given(executions())
def test_every_metric_is_of_the_table_and_finite(event: ToolExecution) -> None:
    metrics = measure(event)
    assert set(metrics) <= set(METRICS)
    assert all(rounded(value) == value for value in metrics.values())
    assert json.dumps(metrics, allow_nan=False)
    assert measure(event) == metrics


def test_the_table_is_sound() -> None:
    for name, metric in {**METRICS, **CONDITIONS}.items():
        assert metric.name == name
        assert metric.floor > 0 or metric.ratio > 0
        assert metric.material(10.0, 10.0) is False


def test_what_no_float_holds_is_left_out() -> None:
    assert settled({"a": Decimal("1e400"), "b": None, "c": Decimal("0.1234567")}) == {"c": 0.123457}


@pytest.mark.skipif(not DATA.exists(), reason="no ../shared/data here: real pool events are not part of the project")
def test_a_real_pools_costs() -> None:
    lines = (DATA / "wbtc_weth_3000_events.jsonl").read_bytes().splitlines()
    items = list(read_described(lines, (DATA / "pool.json").read_bytes()))
    events = [item for item in items if isinstance(item, ToolExecution)]
    costs = [measured["cost_bps"] for measured in map(measure, events) if "cost_bps" in measured]
    assert (len(events), len(costs)) == (903, 724)
    assert np.percentile(costs, [1, 50, 99, 100]) == pytest.approx([30.00, 30.09, 33.5, 39.1], abs=0.05)
    split = [measured for measured in map(measure, events) if "impact_bps" in measured]
    assert len(split) == 712
    for measured in split:
        assert measured["fee_bps"] == 30.0
        assert measured["cost_bps"] == pytest.approx(30.0 + measured["impact_bps"] * 0.997, abs=0.6)
