"""Reflections: the same every time, no number that the event does not have, nothing known only afterwards among the features."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.claims import Condition
from schemas.episodes import Episode
from schemas.events import Status, ToolExecution
from tests.support.events import USDC, WETH, accepted, executions
from tests.support.market import market_events
from workers import bands
from workers.errors import error_class
from workers.features import features_of
from workers.reflect import FAILURE_FLOOR, Reflection, importance, reflect
from workers.wording import exact, number, quoted

AT = {"ts": "2025-01-01T12:00:00Z", "source": "oracle"}
BACK = {"token_in": USDC, "token_out": WETH, "amount_in_raw": "3000000000", "amount_out_raw": str(10**18)}
POOL = "0x" + "d" * 40
TABLES = [bands.COST_BPS, bands.PNL_BPS, bands.GAS_GWEI, bands.SIZE_USD, bands.SIZE_SHARE, bands.REWARD, bands.HOUR]


def test_a_swap_in_words() -> None:
    event = accepted(
        amount_out_raw="2990400000",
        mid_before="3000",
        pool=POOL,
        router="alpha",
        strategy="twap",
        fee_pips=3000,
        gas_used=150_000,
        gas_price_wei="20000000000",
        in_usd={"value": "3000", **AT},
        features={"pool_depth_usd": 6_000_000, "mode": "fast"},
    )
    reflection = reflect(event)
    assert reflection.text == (
        'swap WETH/USDC on Ethereum (chain 1) by "desk", strategy "twap" at 2025-01-01T12:00:00Z: success. '
        f"Gave 1 WETH ({WETH['address']}) for USDC ({USDC['address']}). "
        "Goal: 3000 USDC at the mid of 3000 before the trade; realised 2990.4 USDC: total cost 32 bps. "
        "Paid 150000 gas at 20 gwei = 0.003 native. "
        'Known before: hour 12, weekday 2, router "alpha", fee_pips 3000, size 1, size_usd 3000, size_share 0.0005, '
        'mode "fast", pool_depth_usd 6000000. '
        f"In pool {POOL}."
    )
    assert reflection.sentence == "swap sell WETH in WETH/USDC on Ethereum, small for the pool, afternoon UTC, moderate cost"
    assert reflection.importance == 0.064


def test_the_goal_is_the_oracles_where_nothing_else_says_one() -> None:
    value = {"ts": "2025-01-01T12:00:00Z", "source": "oracle"}
    event = accepted(
        mid_before=None, quote=None, pool_state=None, in_usd={"value": "3000"} | value, out_usd={"value": "1.0"} | value
    )
    text = reflect(event).text
    asked = event.amount_in_raw / 10**18
    assert f"Goal: {asked * 3000:g} USDC at the oracle price; realised " in text
    assert "shortfall against the oracle price" in text


def test_a_failure_in_words() -> None:
    event = accepted(
        status="reverted", gas_used=90_000, gas_price_wei="1000000000", amount_in_raw=None, amount_out_raw=None, mid_before="3000",
        quote={"amount_in_raw": str(2 * 10**18), "amount_out_raw": "5990000000", "min_out_raw": "5960050000"},
        error="execution reverted:\n Too little received \x00 \"now\"", simulated=True,
    )  # fmt: skip
    reflection = reflect(event)
    assert reflection.text.startswith("[simulated] swap WETH/USDC")
    assert "Was to give 2 WETH" in reflection.text
    assert (
        "Goal: 6000 USDC at the mid of 3000 before the trade and 5990 USDC as quoted, 5960.05 at least; it got nothing."
        in reflection.text
    )
    assert "Error class slippage: \"execution reverted: Too little received 'now'\"." in reflection.text
    assert "reverted, error slippage" in reflection.sentence
    assert reflection.features["tolerance_bps"] == 50.0
    assert reflection.importance == FAILURE_FLOOR


@given(executions())
def test_a_reflection_is_the_same_every_time_and_fits_the_contract(event: ToolExecution) -> None:
    reflection = reflect(event)
    assert reflect(ToolExecution.model_validate_json(event.to_wire())) == reflection
    fields = {"metrics": reflection.metrics, "features": reflection.features, "reflection": reflection.text}
    fields |= {"sentence": reflection.sentence, "vector": b"", "model": "none", "importance": reflection.importance}
    episode = Episode(id="e", key=event.key, label=event.pair_label[:128], event=event, **fields)
    assert Episode.model_validate_json(episode.to_wire()) == episode
    assert ("[simulated]" in reflection.text) == event.simulated or "[simulated]" in event.agent_id
    assert reflection.text.isprintable()
    assert reflection.sentence.isprintable()


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*x)")


def numbers_of(event: ToolExecution, reflection: Reflection) -> set[str]:
    """Every number that an event or its metrics justify, as it would be written."""
    known = [*reflection.metrics.values(), *(cell for cell in reflection.features.values() if isinstance(cell, float))]
    written = {number(value) for value in known}
    written |= {str(event.gas_used), str(event.block_number), str(event.chain_id)}
    written |= {exact(Decimal(leg.amount_raw).scaleb(-leg.token.decimals)) for leg in event.legs}
    if event.token_in is None or event.token_out is None:
        return written
    quote = event.quote
    asked = Decimal((quote and quote.amount_in_raw) or event.amount_in_raw or 0).scaleb(-event.token_in.decimals)
    written |= {exact(asked), exact(Decimal(event.amount_out_raw or 0).scaleb(-event.token_out.decimals))}
    if quote is not None:
        written.add(number(Decimal(quote.amount_out_raw).scaleb(-event.token_out.decimals)))
    if event.mid_before is not None:
        written |= {number(event.mid_before), number(asked * event.mid_before)}
    return written


def test_no_number_is_invented() -> None:
    for event in market_events(3, 1_500):
        reflection = reflect(event)
        justified = numbers_of(event, reflection)
        told = re.sub(r'"[^"]*"|0x[0-9a-f]+|\d{4}-\d\d-\d\dT[\d:.]+Z', " ", reflection.text)
        invented = {found for found in NUMBER.findall(told) if found not in justified}
        assert not invented, (invented, reflection.text)


def test_nothing_known_only_afterwards_is_a_feature() -> None:
    """How it ended must not show in the features: else a claim could "predict" what it was told."""
    asked: dict[str, Any] = {"mid_before": "3000", "gas_used": 100_000, "gas_price_wei": "1000000000", "router": "alpha"}
    asked["quote"] = {"amount_in_raw": str(10**18), "amount_out_raw": "2995000000"}
    asked |= {"in_usd": {"value": "3000", **AT}, "features": {"pool_depth_usd": 1e6}}
    good = features_of(accepted(**asked, amount_out_raw="2990000000"))
    better = features_of(accepted(**asked, amount_out_raw="2999000000"))
    bad = features_of(accepted(**asked, status="reverted", amount_in_raw=None, amount_out_raw=None, error="reverted"))
    assert good == better == bad
    assert good["size"] == 1.0


def test_size_and_side_are_seen_from_the_pairs_first_token() -> None:
    sell, buy = features_of(accepted(mid_before="3001")), features_of(accepted(**BACK, mid_before="0.000333"))
    assert (sell["side"], sell["size"]) == ("sell WETH", 1.0)
    assert (buy["side"], buy["size"]) == ("buy WETH", 0.999)
    assert "size" not in features_of(accepted(**BACK))


def test_size_share_is_of_the_reserve_that_was_there_before() -> None:
    state = {"sqrt_price_x96_before": str(2**96), "sqrt_price_x96_after": str(2**95), "liquidity": "1", "tick": 0}
    state["zero_for_one"] = True
    event = accepted(pool_state=state, features={"pool_liquidity": 1e20}, amount_out_raw=str(9 * 10**17))
    assert features_of(event)["size_share"] == 0.01
    unknown = accepted(pool_state=state, amount_out_raw=str(9 * 10**17))
    assert "size_share" not in features_of(unknown)


def test_what_the_producer_states_wins_over_what_is_derived() -> None:
    assert features_of(accepted(features={"hour": 3, "size_share": 0.5}, mid_before="3000"))["hour"] == 3.0


def test_hours_and_weekdays_are_those_of_the_decision_in_utc() -> None:
    features = features_of(accepted(ts_decision="2025-01-05T01:30:00+02:00"))
    assert (features["hour"], features["weekday"]) == (23.5, 5.0)


def test_features_can_be_conditions() -> None:
    features = features_of(accepted(router="alpha", features={"hot": True, "depth": 4.0}))
    assert Condition(feature="router", op="==", value="alpha").holds(features)
    assert Condition(feature="depth", op=">=", value=4.0).holds(features)
    assert Condition(feature="hot", op="==", value=True).holds(features)


def test_a_desks_trades_repeat_in_bands_but_are_told_apart() -> None:
    sentences = [reflect(event).sentence for event in market_events(3, 5_000)]
    assert len(set(sentences)) < 600
    assert max(len(sentence.split()) for sentence in sentences) <= 30
    told = reflect(accepted(mid_before="3000", amount_out_raw="2999000000")).sentence
    others: list[dict[str, Any]] = [
        {"mid_before": "3000", "amount_out_raw": "2900000000"},
        {"mid_before": "3000", "amount_out_raw": "2999000000", "chain_id": 10},
        {"mid_before": "3000", "amount_out_raw": "2999000000", "ts_executed": "2025-01-01T20:00:00Z"},
        {**BACK, "mid_before": "0.0003334"},
        {"status": "failed", "error": "deadline exceeded"},
    ]
    assert len({told, *(reflect(accepted(**fields)).sentence for fields in others)}) == len(others) + 1


@pytest.mark.parametrize("table", TABLES)
@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_bands_keep_the_order_of_numbers(table: bands.Bands, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert table.order(low) <= table.order(high)
    assert table.names[table.order(low)] == table.name(low)
    assert len(set(table.names)) == len(table.names)


def test_an_edge_belongs_to_the_band_above() -> None:
    assert [bands.COST_BPS.order(edge) for edge in bands.COST_BPS.edges] == [1, 2, 3, 4]


@pytest.mark.parametrize(("edges", "names"), [((2.0, 1.0), ("a", "b", "c")), ((1.0,), ("a",)), ((1.0, 1.0), ("a", "b", "c"))])
def test_bands_that_are_none_are_refused(edges: tuple[float, ...], names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        bands.Bands(edges, names)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"pnl_bps": -250.0, "cost_bps": 5.0}, 0.5),
        ({"cost_bps": 30.0}, 0.06),
        ({"slippage_bps": -50.0}, 0.1),
        ({"pnl_bps": 9_000.0}, 1.0),
        ({"reward": 0.9}, 0.0),
        ({}, 0.0),
    ],
)
def test_importance_is_the_specifications(metrics: dict[str, float], expected: float) -> None:
    assert importance(Status.SUCCESS, metrics, {}) == expected


def test_a_failure_weighs_what_it_lost_and_never_nothing() -> None:
    assert importance(Status.REVERTED, {"gas_usd": 6.0}, {"size_usd": 300.0}) == 0.4
    assert importance(Status.REVERTED, {"gas_usd": 600.0}, {"size_usd": 300.0}) == 1.0
    assert importance(Status.REJECTED, {}, {"size_usd": 300.0}) == FAILURE_FLOOR


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UniswapV2Router: INSUFFICIENT_OUTPUT_AMOUNT", "slippage"),
        ("Return amount is not enough", "slippage"),
        ("Transaction too old", "deadline"),
        ("TransferHelper: TRANSFER_FROM_FAILED", "allowance"),
        ("insufficient funds for gas * price + value", "funds"),
        ("ERC20: transfer amount exceeds balance", "funds"),
        ("out of gas", "gas"),
        ("nonce too low", "nonce"),
        ("Pausable: paused", "paused"),
        ("HTTPSConnectionPool: timed out", "transport"),
        ("0x08c379a0", "unknown"),
        (None, "unknown"),
    ],
)
def test_error_texts_have_classes(text: str | None, expected: str) -> None:
    assert error_class(text) == expected


def test_foreign_text_is_one_short_quoted_line() -> None:
    assert quoted('say "hi"\r\n\x07then\u202eleave') == "\"say 'hi' then leave\""
    assert len(quoted("x" * 4_000)) == 303


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.84e46, "9" + "84" + "0" * 44), (1e-7, "0.0000001"), (-0.0, "0"), (0.1 + 0.2, "0.3"), (-12.5, "-12.5"), (100.0, "100")],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert number(value) == text
    assert number(Decimal(str(value))) == text
