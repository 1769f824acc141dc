"""What the door lets in and what it refuses, value by value: each has broken somebody's system."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import orjson
import pytest

from schemas.events import Provenance, ToolExecution
from tests.support.events import USDC, WETH, accepted, refusal, swap, wire

VALUATION = {"value": "3000", "ts": "2025-01-01T11:59:00Z", "source": "oracle"}


@pytest.mark.parametrize(
    ("value", "means"),
    [
        ("10022336803000000", 10022336803000000),
        (9007199254740992, 9007199254740992),
        (float(2**53), 2**53),
        ("9007199254740993", 9007199254740993),
        (9007199254740993, 9007199254740993),
        (str(2**256 - 2), 2**256 - 2),
    ],
)
def test_a_raw_amount_is_exact(value: object, means: int) -> None:
    event = accepted(status="pending", amount_in_raw=value)
    assert event.amount_in_raw == means
    assert orjson.loads(event.to_wire())["amount_in_raw"] == str(means)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (9.007199254740993e15 * 2, "inexact_amount"),
        (0.5, "inexact_amount"),
        (1e-7, "inexact_amount"),
        (1.8560879999999997e-3, "inexact_amount"),
        ("9e-05", "raw_amount"),
        ("1.0", "raw_amount"),
        ("0x10", "raw_amount"),
        ("٣", "raw_amount"),
        (" 1", "raw_amount"),
        ("", "raw_amount"),
        (True, "raw_amount"),
        ([1], "raw_amount"),
        (-1, "amount_out_of_range"),
        (str(2**256), "amount_out_of_range"),
        (str(2**255), "sentinel_amount"),
        (str(2**256 - 1), "sentinel_amount"),
    ],
)
def test_a_raw_amount_that_is_not_one_is_refused(value: object, reason: str) -> None:
    assert refusal(amount_in_raw=value) == reason


def test_integers_beyond_64_bits_come_through_as_json_numbers() -> None:
    assert b'"amount_in_raw": 1606938044258990275541962092341162602522202993782792835301377' in wire(amount_in_raw=2**200 + 1)
    assert accepted(status="pending", amount_in_raw=2**200 + 1).amount_in_raw == 2**200 + 1


@pytest.mark.parametrize("sentinel", [2**255, 2**256 - 1])
def test_a_sentinel_in_a_leg_is_refused_too(sentinel: int) -> None:
    leg = {"token": USDC, "amount_raw": str(sentinel), "into": True}
    assert refusal(tool="deposit", token_in=None, token_out=None, legs=[leg]) == "sentinel_amount"


@pytest.mark.parametrize(
    ("spelling", "unit", "moment"),
    [
        (1651833550758, "ms", datetime(2022, 5, 6, 10, 39, 10, 758000, UTC)),
        (1651833550, "s", datetime(2022, 5, 6, 10, 39, 10, tzinfo=UTC)),
        (1651833550.758, "s", datetime(2022, 5, 6, 10, 39, 10, 758000, UTC)),
        (1651833550758123, "us", datetime(2022, 5, 6, 10, 39, 10, 758123, UTC)),
        ("2022-05-06T03:39:10-07:00", "iso", datetime(2022, 5, 6, 10, 39, 10, tzinfo=UTC)),
        ("2022-05-06 10:39:10Z", "iso", datetime(2022, 5, 6, 10, 39, 10, tzinfo=UTC)),
    ],
)
def test_times_are_utc_and_their_unit_is_recorded(spelling: object, unit: str, moment: datetime) -> None:
    event = accepted(ts_executed=spelling)
    assert (event.ts_executed, event.ts_unit) == (moment, unit)


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        ("2022-05-06T10:39:10", "naive_timestamp"),
        ("2022-05-06", "bad_timestamp"),
        ("2026", "bad_timestamp"),
        ("yesterday", "bad_timestamp"),
        (-1, "bad_timestamp"),
        (10**30, "bad_timestamp"),
        (True, "bad_timestamp"),
        ({}, "bad_timestamp"),
    ],
)
def test_a_moment_that_is_none_is_refused(spelling: object, reason: str) -> None:
    assert refusal(ts_executed=spelling) == reason


def test_an_event_without_a_time_is_refused() -> None:
    assert refusal(ts_executed=None) == "contract_violation"


@pytest.mark.parametrize("spelling", [1337, "1337", "0x539", "eip155:1337"])
def test_a_chain_has_several_spellings_and_one_key(spelling: object) -> None:
    assert accepted(chain_id=spelling).key == accepted(chain_id=1337).key


@pytest.mark.parametrize("spelling", [0, -1, "mainnet", "", 1.5, True, 2**63])
def test_a_chain_that_is_none_is_refused(spelling: object) -> None:
    assert refusal(chain_id=spelling) == "chain_id"


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("WETH" + "\x00" * 28, "WETH"),
        ("MKR\ufffd\ufffd", "MKR"),
        ("  USDC ", "USDC"),
        ("", "?"),
        ("\x00" * 32, "?"),
        ("A:B/C", "ABC"),
        ("x" * 200, "x" * 32),
    ],
)
def test_symbols_are_cleaned_for_display(symbol: str, shown: str) -> None:
    event = accepted(token_in={**WETH, "symbol": symbol})
    assert event.token_in is not None
    assert event.token_in.label == shown


def test_identity_is_the_address_not_the_symbol() -> None:
    impostor = accepted(token_in={**WETH, "address": "0x" + "c" * 40})
    assert impostor.key != accepted().key
    assert accepted(token_in={**WETH, "symbol": "weth"}).key == accepted().key


def test_addresses_are_one_in_any_case() -> None:
    assert accepted(token_in={**WETH, "address": "0x" + "A" * 40}).key == accepted().key


def test_both_directions_share_a_key_and_colons_cannot_forge_one() -> None:
    back = accepted(token_in=USDC, token_out=WETH, amount_in_raw="3000000000", amount_out_raw=str(10**18))
    assert back.key == accepted().key
    named = accepted(tool="call", token_in=None, token_out=None, pair="a:b", amount_in_raw=None, amount_out_raw=None)
    assert named.key == "call:1:a_b"


def test_a_stablecoin_of_18_decimals_and_one_off_its_peg_are_fine() -> None:
    assert refusal(token_out={**USDC, "decimals": 18}, amount_out_raw=str(3_000 * 10**18), mid_before="3001") == "accepted"
    peg = {"value": "1.08", "ts": "2025-01-01T12:00:00Z", "source": "oracle"}
    assert refusal(in_usd=VALUATION, out_usd=peg) == "accepted"


def test_the_wrong_decimals_are_caught_by_the_price() -> None:
    assert refusal(token_out={**USDC, "decimals": 18}, mid_before="3001") == "price_off_reference"
    assert refusal(mid_before="0.000000003001") == "price_off_reference"
    assert (
        refusal(token_out={**USDC, "decimals": 18}, in_usd=VALUATION, out_usd={**VALUATION, "value": "1"}) == "price_off_reference"
    )


@pytest.mark.parametrize("price", ["0", "-1"])
def test_a_price_is_positive(price: str) -> None:
    assert refusal(mid_before=price) == "bad_price"
    assert refusal(native_usd={**VALUATION, "value": price}) == "bad_price"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "sNaN"])
def test_text_cannot_smuggle_in_what_is_not_finite(value: str) -> None:
    assert refusal(mid_before=value) == "not_finite"
    assert refusal(reward=value) == "not_finite"


@pytest.mark.parametrize("value", ["1e101", "1e999999", "1e-101"])
def test_a_decimal_out_of_all_reach_is_refused(value: str) -> None:
    assert refusal(reward=value) == "number"


@pytest.mark.parametrize("value", ["9.84e46", "1e-7", "9e-05", "1.8560879999999997e-3", "0.001188", "0.010022336803"])
def test_decimals_are_kept_digit_by_digit(value: str) -> None:
    event = accepted(reward=value)
    assert event.reward == Decimal(value)
    assert Decimal(orjson.loads(event.to_wire())["reward"]) == Decimal(value)


def test_the_oracles_age_is_held_to_its_heartbeat() -> None:
    at = datetime(2025, 1, 1, 12, tzinfo=UTC)
    fresh, stale = at - timedelta(seconds=3600), at - timedelta(seconds=3601)
    assert refusal(native_usd={**VALUATION, "ts": fresh.isoformat(), "heartbeat_s": 3600}) == "accepted"
    assert refusal(native_usd={**VALUATION, "ts": stale.isoformat(), "heartbeat_s": 3600}) == "stale_oracle"
    later = at + timedelta(seconds=3601)
    assert refusal(in_usd={**VALUATION, "ts": later.isoformat(), "heartbeat_s": 3600}) == "stale_oracle"


@pytest.mark.parametrize("number", [2**63, 10**40])
def test_a_number_that_fits_no_store_is_refused(number: int) -> None:
    pool = {"sqrt_price_x96_after": "8", "liquidity": "9", "tick": 1, "zero_for_one": True}
    assert refusal(pool_state=pool) == "accepted"
    assert refusal(pool_state={**pool, "tick": -number}) == "contract_violation"
    valued = {**VALUATION, "ts": "2025-01-01T00:00:00Z"}
    assert refusal(native_usd={**valued, "heartbeat_s": 10**9}) == "accepted"
    assert refusal(native_usd={**valued, "heartbeat_s": number}) == "contract_violation"


@pytest.mark.parametrize("missing", ["amount_in_raw", "amount_out_raw"])
def test_a_successful_swap_has_both_amounts(missing: str) -> None:
    assert refusal(**{missing: None}) == "success_without_amounts"
    assert refusal(**{missing: "0"}) == "success_without_amounts"


def test_a_revert_used_gas_and_made_nothing() -> None:
    assert refusal(status="reverted") == "revert_without_gas"
    assert refusal(status="reverted", gas_used=21_000, pnl_bps="1") == "failure_with_pnl"
    assert refusal(status="reverted", gas_used=21_000, amount_out_raw=None) == "accepted"


def test_a_status_is_never_truthiness() -> None:
    for status in (0, 1, True, "0x0", "confirmed"):
        assert refusal(status=status) == "contract_violation"


def test_tokens_of_a_swap() -> None:
    assert refusal(token_out=WETH) == "same_token"
    assert refusal(token_out={**WETH, "symbol": "OTHER"}) == "same_token"
    assert refusal(token_out=None, amount_out_raw=None) == "swap_without_tokens"
    assert refusal(token_in={**WETH, "decimals": 256}) == "contract_violation"
    assert refusal(token_in={**WETH, "address": "0x" + "g" * 40}) == "address"
    assert refusal(tx_hash="0x12") == "hash"


@pytest.mark.parametrize("field", ["gas_used", "block_number", "log_index"])
def test_counts_fit_every_store(field: str) -> None:
    assert refusal(**{field: 2**63 - 1}) == "accepted"
    assert refusal(**{field: -1}) == "contract_violation"
    assert refusal(**{field: 2**63}) == "contract_violation"


def test_features_are_finite_numbers_flags_and_text() -> None:
    event = accepted(features={"depth": 9.84e46, "mode": "fast", "hot": True, "count": 3})
    assert event.features == {"depth": 9.84e46, "mode": "fast", "hot": True, "count": 3.0}
    assert event.features["hot"] is True
    assert refusal(features={"Bad Name": 1}) == "contract_violation"
    assert refusal(features={"x": [1]}) == "contract_violation"


def test_one_transaction_log_has_one_identity_and_genuine_twins_have_two() -> None:
    hash_ = "0x" + "1" * 64
    first = accepted(event_id=None, tx_hash=hash_, log_index=1)
    assert accepted(event_id=None, tx_hash="0x" + hash_[2:].upper(), log_index=1, agent_id="other").event_id == first.event_id
    assert accepted(event_id=None, tx_hash=hash_, log_index=2).event_id != first.event_id
    assert accepted(event_id=None, tx_hash=hash_, log_index=1, chain_id=10).event_id != first.event_id


def test_a_late_status_and_a_reorganisation_keep_the_identity() -> None:
    seen = {"event_id": None, "tx_hash": "0x" + "1" * 64, "log_index": 1}
    ids = {
        accepted(**seen, status="pending").event_id,
        accepted(**seen).event_id,
        accepted(**seen, block_hash="0x" + "2" * 64, removed=True).event_id,
    }
    assert len(ids) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {
            "tool": "rebalance",
            "legs": [{"token": WETH, "amount_raw": "5", "into": False}, {"token": USDC, "amount_raw": 7, "into": True}],
        },
        {"tool": "deposit", "legs": [{"token": USDC, "amount_raw": "1000000", "into": True}]},
        {"tool": "withdraw", "legs": [{"token": USDC, "amount_raw": "1000000", "into": False}]},
        {"tool": "collect"},
        {"tool": "simulate", "status": "failed", "error": "too little received"},
        {"tool": "research", "chain_id": None, "pair": "notes", "reward": 0.62},
        {"tool": "cow_trade", "action": "swap", "token_in": WETH, "token_out": USDC, "amount_in_raw": "1", "amount_out_raw": "1"},
    ],
    ids=lambda fields: fields["tool"],
)
def test_not_everything_is_a_swap_on_chain(fields: dict[str, object]) -> None:
    plain = swap(token_in=None, token_out=None, amount_in_raw=None, amount_out_raw=None) | fields
    event = ToolExecution.model_validate({name: value for name, value in plain.items() if value is not None})
    assert event.action.value == fields.get("action", fields["tool"] if fields["tool"] != "research" else "call")


def test_provenance_defaults_to_what_is_merely_reported() -> None:
    assert accepted(amount_provenance=None).amount_provenance is Provenance.REPORTED
