"""What lies above the keys of the simulated market: planted there, listed in the truth, judged by it; the rest as it was."""

from __future__ import annotations

from datetime import timedelta
from statistics import fmean, median
from typing import Literal

import pytest

from schemas.claims import Claim, Condition
from schemas.events import ToolExecution
from streams.sources.market import NullKind, by_part, judge_stated, simulate, truth_of
from streams.sources.market.judge import Stated, part_of, verdict
from streams.sources.market.truth import BRIDGE_KEY
from workers.errors import error_kind
from workers.reflect import reflect

SEED, EVENTS = 7, 3000
TRUTH = truth_of(SEED, EVENTS, above=True)
SWAP, ALL = "swap:*-simulated:*", "*-simulated"


@pytest.fixture(scope="module")
def events() -> list[ToolExecution]:
    return list(simulate(SEED, EVENTS, above=True))


def said(
    level: Literal["pair", "tool", "global"], key: str, metric: str, feature: str, value: str | float, direction: str
) -> Stated:
    condition = Condition(feature=feature, op="==" if isinstance(value, str) else ">=", value=value)
    claim = Claim(level=level, key=key, metric=metric, conditions=(condition,), direction=direction)  # type: ignore[arg-type]
    return Stated(claim, TRUTH.start_ts, TRUTH.start_ts + timedelta(days=1))


def test_the_rest_of_a_seeds_market_stays_what_it_is(events: list[ToolExecution]) -> None:
    plain = list(simulate(SEED, 500))
    kept = [pair for pair in zip(plain, events, strict=False) if pair[1].tool != "bridge"]
    assert len(kept) > 450
    for before, after in kept:
        assert (before.tool, before.ts_executed, before.quote and before.quote.amount_in_raw) == (
            after.tool, after.ts_executed, after.quote and after.quote.amount_in_raw,
        )  # fmt: skip
        assert before.features.items() <= after.features.items()


def test_the_mempool_moves_costs_in_every_pair_and_the_desk_in_none(events: list[ToolExecution]) -> None:
    swaps = [event for event in events if event.tool == "swap" and event.amount_out_raw]
    for key in {event.key for event in swaps}:
        own = [(event.features, reflect(event).metrics["cost_bps"]) for event in swaps if event.key == key]
        for feature, value, least, most in (("mempool", "public", 4.0, 14.0), ("desk", "east", -4.0, 4.0)):
            sides = [median(cost for features, cost in own if (features[feature] == value) is side) for side in (True, False)]
            assert least < sides[0] - sides[1] < most, (key, feature)
    east = fmean(reflect(event).metrics["cost_bps"] for event in swaps if event.features["desk"] == "east")
    west = fmean(reflect(event).metrics["cost_bps"] for event in swaps if event.features["desk"] == "west")
    assert east - west > 5.0, "over all pairs the trap looks like an effect"


def test_failures_are_as_the_truth_says(events: list[ToolExecution]) -> None:
    lessons = {(effect.level, effect.key, effect.id.rpartition("fails-with-")[2]) for effect in TRUTH.lessons}
    assert {("pair", BRIDGE_KEY, "transport"), ("tool", SWAP, "transfer"), ("global", ALL, "transport")} <= lessons
    for level, key, kind in lessons:
        own = [event for event in events if event.key == key]
        if level == "pair":
            failed = [event for event in own if event.status != "success" and error_kind(event.status, event.error) == kind]
            assert len(failed) / len(own) > 0.03, (key, kind)
    assert all(event.status == "failed" for event in events if event.key == BRIDGE_KEY)


@pytest.mark.parametrize(
    ("claim", "right"),
    [
        (said("tool", SWAP, "cost_bps", "mempool", "public", "higher"), True),
        (said("tool", SWAP, "cost_bps", "mempool", "public", "lower"), False),
        (said("tool", SWAP, "cost_bps", "size_usd", 1e4, "higher"), True),
        (said("tool", SWAP, "cost_bps", "router", "alpha", "higher"), False),  # in one pair only
        (said("tool", SWAP, "cost_bps", "desk", "east", "higher"), False),
        (said("global", ALL, "gas_gwei", "priority", "high", "higher"), True),
        (said("global", ALL, "gas_gwei", "hour", 12.0, "higher"), False),  # on one chain only
        (said("pair", BRIDGE_KEY, "failed", "error_kind", "transport", "higher"), True),
        (said("pair", BRIDGE_KEY, "failed", "error_kind", "gas", "higher"), False),
        (said("tool", SWAP, "failed", "error_kind", "transfer", "higher"), True),
        (said("global", ALL, "failed", "error_kind", "transport", "higher"), True),
        (said("global", ALL, "failed", "error_kind", "paused", "higher"), False),
    ],
)
def test_the_judge_knows_what_is_true_above_a_pair(claim: Stated, right: bool) -> None:
    assert verdict(TRUTH, claim).planted is right
    report = judge_stated(TRUTH, [claim])
    part = part_of(claim.claim.level, [claim.claim.conditions[0].feature])
    parts = by_part(TRUTH, report)
    assert (len(parts[part].planted_claims), len(parts[part].unplanted_claims)) == (int(right), int(not right))
    assert sum(len(one.found) + len(one.missed) for one in parts.values()) == len(report.found) + len(report.missed)


def test_without_effects_only_taxonomies_are_true() -> None:
    nothing = truth_of(SEED, EVENTS, effects=False, above=True)
    assert (nothing.effects, nothing.above) == ((), ())
    assert {effect.level for effect in nothing.lessons} == {"tool"}
    assert not {effect.key for effect in nothing.lessons} & {BRIDGE_KEY}


@pytest.mark.parametrize("kind", ["iid", "ar1", "heavy"])
def test_null_markets_of_other_noise_are_valid_and_repeatable(kind: NullKind) -> None:
    first, second = (list(simulate(SEED, 300, effects=False, above=True, null_kind=kind)) for _ in range(2))
    assert [event.to_wire() for event in first] == [event.to_wire() for event in second]
    assert {"mempool", "priority", "desk"} <= {name for event in first for name in event.features}
    assert first != list(simulate(SEED, 300, effects=False, above=True))
