"""The reader of Uniswap v3 pool events: on real logs where they are at hand, and on small ones made here."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from schemas.events import ToolExecution
from streams.sources import FORMATS, Rejected, SourceError, read_file
from streams.sources.uniswap_v3 import Pool, read
from streams.sources.v3_liquidity import tokens_of_liquidity
from workers.reflect import reflect
from workers.uniswap_math import sqrt_ratio_at_tick

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "uniswap_v3"
EVENTS, POOL_FILE = DATA / "wbtc_weth_3000_events.jsonl", DATA / "pool.json"
real_file = pytest.mark.skipif(not EVENTS.exists(), reason=f"real pool events are not at {DATA}")

POOL = Pool.model_validate(
    {
        "chain_id": 1,
        "pool": "0x" + "aa" * 20,
        "fee_pips": 3000,
        "token0": {"address": "0x" + "01" * 20, "symbol": "AAA", "decimals": 8},
        "token1": {"address": "0x" + "02" * 20, "symbol": "BBB", "decimals": 18},
    }
)
LIQUIDITY = 2 * 10**18


def at(tick: int) -> int:
    return sqrt_ratio_at_tick(tick) + 1


def line(method: str, block: int, **fields: Any) -> dict[str, Any]:
    common = {"blockNo": block, "timestamp": 1_700_000_000 + 12 * block, "gasPrice": 20_000_000_000, "gasUsed": 150_000}
    return {**common, "gasTotal": 0.003, "method": method, **fields}


def swap(block: int, tick: int, amount0: int, amount1: int, **fields: Any) -> dict[str, Any]:
    state = {"sqrtPriceX96": str(at(tick)), "liquidity": str(LIQUIDITY), "tick": tick}
    amounts = {"amount0": str(amount0), "amount1": str(amount1)}
    return line("SWAP", block, sender="actor-1", recipient="actor-2", **amounts, **state, **fields)


def liquidity_event(method: str, block: int, liquidity: int, amount0: int, amount1: int) -> dict[str, Any]:
    amounts = {"amount": str(liquidity), "amount0": str(amount0), "amount1": str(amount1)}
    return line(method, block, sender="actor-3", owner="actor-3", tickLower=-600, tickUpper=600, **amounts)


def items(*lines: dict[str, Any] | bytes) -> list[ToolExecution | Rejected]:
    return list(read([each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines], POOL))


def events(*lines: dict[str, Any] | bytes) -> list[ToolExecution]:
    found = items(*lines)
    assert all(isinstance(item, ToolExecution) for item in found), found
    return [item for item in found if isinstance(item, ToolExecution)]


def share_lost(event: ToolExecution) -> Fraction:
    """Total cost as a share of the fair amount out, exactly, from the event's own raw amounts and square-root price."""
    assert event.pool_state is not None
    assert event.pool_state.sqrt_price_x96_before is not None
    assert event.amount_in_raw is not None
    assert event.amount_out_raw is not None
    square = Fraction(event.pool_state.sqrt_price_x96_before**2, 2**192)
    fair = event.amount_in_raw * (square if event.pool_state.zero_for_one else 1 / square)
    return 1 - event.amount_out_raw / fair


@pytest.fixture(scope="module")
def real() -> list[ToolExecution]:
    found = list(read_file(EVENTS, "uniswap-v3-events", POOL_FILE))
    assert not [item for item in found if isinstance(item, Rejected)]
    return [item for item in found if isinstance(item, ToolExecution)]


@real_file
def test_every_event_of_the_real_file_is_read(real: list[ToolExecution]) -> None:
    assert Counter(event.tool for event in real) == {"swap": 725, "deposit": 74, "withdraw": 62, "collect": 42}
    assert len({event.event_id for event in real}) == 903
    assert len({event.pair_id for event in real}) == 1
    assert not any(event.simulated for event in real)


@real_file
def test_costs_of_the_real_file_are_the_published_ones(real: list[ToolExecution]) -> None:
    swaps = [event for event in real if event.tool == "swap"]
    assert [event.mid_before is None for event in swaps] == [True] + [False] * 724
    exact = sorted(float(10_000 * share_lost(event)) for event in swaps[1:])
    assert [round(exact[int(share * 723)], 2) for share in (0.01, 0.5)] == [30.0, 30.09]
    assert round(exact[int(0.99 * 723)], 1) == 33.5
    assert round(exact[-1], 1) == 39.1


@real_file
def test_the_mid_is_the_square_root_price_to_28_digits(real: list[ToolExecution]) -> None:
    for event in real:
        if event.mid_before is not None:
            price = event.executed_price()
            assert price is not None
            assert abs(1 - price / event.mid_before - Decimal(float(share_lost(event)))) < Decimal("1e-15")
            assert len(event.mid_before.as_tuple().digits) <= 28


@real_file
def test_reflection_measures_the_same_costs(real: list[ToolExecution]) -> None:
    costs = {event.event_id: reflect(event).metrics.get("cost_bps") for event in real if event.tool == "swap"}
    known = sorted(cost for cost in costs.values() if cost is not None)
    assert len(costs) - len(known) == 1, "the first swap has no price before it: its cost is unknown, not zero"
    assert [round(known[int(share * 723)], 2) for share in (0.01, 0.5)] == [30.0, 30.09]
    assert round(known[-1], 1) == 39.1


@real_file
def test_withdrawn_amounts_follow_from_liquidity_where_the_file_repeats_it(real: list[ToolExecution]) -> None:
    withdrawn = [event for event in real if event.tool == "withdraw"]
    amounts = [leg.amount_raw for event in withdrawn for leg in event.legs if leg.token.symbol == "WBTC"]
    assert len(amounts) == 62
    assert max(amounts) < 21_000_000 * 10**8 / 1000, "no pool holds a thousandth of all bitcoin"
    assert all(event.model_extra and event.model_extra["reported_amount0"] for event in withdrawn)


@real_file
def test_amounts_of_the_real_mints_follow_from_liquidity_range_and_price() -> None:
    price = 0
    for raw in EVENTS.read_bytes().splitlines():
        event = json.loads(raw)
        if event["method"] == "SWAP":
            price = int(event["sqrtPriceX96"])
        elif event["method"] == "MINT":
            ticks = event["tickLower"], event["tickUpper"]
            expected = tokens_of_liquidity(int(event["amount"]), price, *ticks, round_up=True)
            assert expected == (int(event["amount0"]), int(event["amount1"]))


@real_file
def test_overlapping_parts_of_a_file_give_the_same_ids(real: list[ToolExecution]) -> None:
    lines = EVENTS.read_bytes().splitlines(keepends=True)
    described = POOL_FILE.read_bytes()
    parts = [list(FORMATS["uniswap-v3-events"].read(part, described)) for part in (lines[:500], lines[300:])]
    ids = {item.event_id for part in parts for item in part if isinstance(item, ToolExecution)}
    assert ids == {event.event_id for event in real}


def test_a_swap_is_oriented_by_the_sign_of_its_amounts() -> None:
    first, second = events(swap(1, 0, 10**6, -990_000), swap(2, 10, -990_000, 10**6))
    assert first.token_in == POOL.token0
    assert first.pool_state is not None
    assert first.pool_state.zero_for_one
    assert second.token_in == POOL.token1
    assert (second.amount_in_raw, second.amount_out_raw) == (10**6, 990_000)
    assert second.pool_state is not None
    assert second.pool_state.sqrt_price_x96_before == at(0)
    assert second.mid_before is not None
    assert abs(second.mid_before - Decimal("1e10")) < Decimal(10)


def test_the_first_swap_has_no_price_before_it() -> None:
    (event,) = events(swap(1, 0, 10**6, -990_000))
    assert event.mid_before is None
    assert event.features == {}


def test_liquidity_before_a_swap_counts_what_was_added_and_taken_since() -> None:
    added = liquidity_event("MINT", 2, 5 * 10**17, 10, 10)
    taken = liquidity_event("BURN", 3, 10**17, 10, 10)
    swaps = [
        event for event in events(swap(1, 0, 10**6, -990_000), added, taken, swap(4, 0, 10**6, -990_000)) if event.tool == "swap"
    ]
    assert swaps[1].features == {"pool_liquidity": float(LIQUIDITY + 4 * 10**17)}


def test_a_burn_of_nothing_is_a_collect_that_moves_nothing() -> None:
    mint, poke = events(liquidity_event("MINT", 1, 10**18, 10, 10), liquidity_event("BURN", 2, 0, 0, 0))
    assert poke.tool == "collect"
    assert [leg.amount_raw for leg in poke.legs] == [0, 0]
    assert poke.pair_id == mint.pair_id


def test_a_burn_that_repeats_its_liquidity_gets_its_amount_from_the_price() -> None:
    liquidity = 10**18
    expected = tokens_of_liquidity(liquidity, at(0), -600, 600, round_up=False)
    _, burn = events(swap(1, 0, 10**6, -990_000), liquidity_event("BURN", 2, liquidity, liquidity, expected[1]))
    assert [leg.amount_raw for leg in burn.legs] == list(expected)
    assert burn.model_extra is not None
    assert burn.model_extra["reported_amount0"] == str(liquidity)


@pytest.mark.parametrize("before", [[], [swap(1, 300, 10**6, -990_000)]], ids=["no price yet", "price does not confirm amount1"])
def test_a_burn_that_repeats_its_liquidity_is_rejected_when_nothing_confirms_the_price(before: list[Any]) -> None:
    liquidity = 10**18
    expected = tokens_of_liquidity(liquidity, at(0), -600, 600, round_up=False)
    rejected = items(*before, liquidity_event("BURN", 2, liquidity, liquidity, expected[1]))[-1]
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "amount_unknown"


def test_a_burn_that_happens_to_pay_as_much_as_its_liquidity_is_taken_as_it_is() -> None:
    liquidity = 1000
    amounts = {tick: tokens_of_liquidity(liquidity, at(tick), -20_000, 600, round_up=False) for tick in range(-13_700, -13_400)}
    tick, both = next((tick, both) for tick, both in amounts.items() if both[0] == liquidity)
    _, burn = events(swap(1, tick, 10**6, -250_000), liquidity_event("BURN", 2, liquidity, *both) | {"tickLower": -20_000})
    assert [leg.amount_raw for leg in burn.legs] == list(both)
    assert "reported_amount0" not in (burn.model_extra or {})


def test_identical_events_count_twice_and_a_second_reading_changes_nothing() -> None:
    same = swap(1, 0, 10**6, -990_000)
    once = [event.event_id for event in events(same, same)]
    assert len(set(once)) == 2
    assert once == [event.event_id for event in events(same, same)]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"{not json\n", "not_json"),
        (b"\xff\xfe\n", "not_utf8"),
        (b'{"method": NaN}\n', "not_finite"),
        (b"[]\n", "not_object"),
        (line("FLASH", 2), "unknown_method"),
        (line("SWAP", 2) | {"method": ["SWAP"]}, "unknown_method"),
        (swap(2, 0, 10**6, 5), "amount_signs"),
        (swap(2, 0, 0, -5), "amount_signs"),
        (swap(2, 0, 10**6, -990_000) | {"tick": 5}, "tick_off_price"),
        (swap(2, 0, 10**6, -990_000) | {"tick": 887273}, "out_of_range"),
        (swap(2, 0, 10**6, -990_000) | {"amount0": 1.5}, "not_integer"),
        (swap(2, 0, 10**6, -990_000) | {"amount0": True}, "not_integer"),
        (swap(2, 0, 10**6, -990_000) | {"amount0": "1e6"}, "not_integer"),
        (swap(2, 0, 10**6, -990_000) | {"amount0": str(2**256)}, "out_of_range"),
        (swap(2, 0, 10**6, -990_000) | {"amount0": str(2**255)}, "sentinel_amount"),
        (swap(2, 0, 10**6, -990_000) | {"gasTotal": 0.0031}, "gas_mismatch"),
        (swap(2, 0, 10**6, -990_000) | {"gasTotal": 10**400}, "gas_mismatch"),
        (swap(2, 0, 10**6, -990_000) | {"gasTotal": -(10**400)}, "gas_mismatch"),
        (swap(2, 0, 10**6, -990_000) | {"sender": None}, "missing_actor"),
        (swap(2, 0, 10**6, -990_000) | {"timestamp": 10**20}, "bad_timestamp"),
        (swap(2, 0, 10**6, -(10**18)), "price_off_reference"),
        (liquidity_event("MINT", 2, 1, 1, 1) | {"tickLower": 600}, "bad_range"),
    ],
)
def test_a_bad_line_is_rejected_with_its_bytes_and_makes_the_next_price_unknown(broken: Any, reason: str) -> None:
    good = swap(1, 0, 10**6, -990_000), swap(3, 0, 10**6, -990_000)
    first, rejected, second = items(good[0], broken, good[1])
    assert isinstance(first, ToolExecution)
    assert isinstance(rejected, Rejected)
    assert (rejected.line_no, rejected.reason) == (2, reason)
    assert rejected.raw == (broken.rstrip(b"\n") if isinstance(broken, bytes) else json.dumps(broken).encode())
    assert isinstance(second, ToolExecution)
    assert second.mid_before is None


def test_blocks_that_go_backwards_make_the_price_unknown() -> None:
    _, later = events(swap(5, 0, 10**6, -990_000), swap(4, 0, 10**6, -990_000))
    assert later.mid_before is None


def test_blank_lines_are_no_records_but_count_as_lines() -> None:
    (rejected,) = items(b"\n", b"  \r\n", b"{\r\n")
    assert isinstance(rejected, Rejected)
    assert (rejected.line_no, rejected.raw) == (3, b"{")


@pytest.mark.parametrize("described", [None, b"", b"{}", b'{"chain_id": 1, "pool": "0x1"}'])
def test_a_wrong_pool_description_is_an_error_at_once(described: bytes | None) -> None:
    with pytest.raises(SourceError):
        FORMATS["uniswap-v3-events"].read([], described)


def test_a_pool_file_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="pool description"):
        read_file(tmp_path / "events.jsonl", "uniswap-v3-events")
    with pytest.raises(SourceError, match="unknown format"):
        read_file(tmp_path / "events.jsonl", "nonsense")
