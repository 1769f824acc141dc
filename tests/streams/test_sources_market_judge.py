"""The judge: what counts as planted, what as found."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import pytest

from schemas.claims import Category, Claim, Condition, Evidence
from schemas.insights import Insight
from schemas.operations import AddInsight, DownvoteInsight, EditInsight, UpvoteInsight
from streams.sources.market import judge, judge_operations, judge_stated, stated, truth_of
from streams.sources.market.judge import Stated, verdict
from streams.sources.market.plan import BOOKS
from streams.sources.market.truth import key_of

TRUTH = truth_of(1, 20_000)
WETH_USDC, WBTC_WETH, DAILY, ARB = (key_of(book) for book in BOOKS[:4])
DAY = timedelta(days=1)


def condition(text: str) -> Condition:
    feature, op, value = text.split(" ")
    return Condition(feature=feature, op=op, value=float(value) if op != "==" else value)  # type: ignore[arg-type]


def said(
    key: str, metric: str, direction: Literal["higher", "lower"], *conditions: str, first: Any = None, last: Any = None
) -> Stated:
    claim = Claim(key=key, metric=metric, direction=direction, conditions=tuple(map(condition, conditions)))
    return Stated(claim, first or TRUTH.start_ts + DAY, last or TRUTH.start_ts + 3 * DAY)


LATE = {"first": TRUTH.change_ts + DAY, "last": TRUTH.change_ts + 3 * DAY}


@pytest.mark.parametrize(
    ("claim", "effects"),
    [
        (said(WETH_USDC, "cost_bps", "higher", "size_share >= 0.004"), 1),
        (said(WETH_USDC, "cost_bps", "lower", "size_usd < 9000"), 1),
        (said(WETH_USDC, "cost_bps", "lower", "pool_depth_usd >= 9e6"), 1),
        (said(WETH_USDC, "cost_bps", "higher", "router == alpha"), 1),
        (said(WETH_USDC, "cost_bps", "lower", "router == beta"), 1),
        (said(WETH_USDC, "cost_bps", "lower", "router == alpha", **LATE), 1),
        (said(WETH_USDC, "cost_bps", "higher", "router == beta", **LATE), 1),
        (said(WETH_USDC, "cost_bps", "higher", "size_share >= 0.004", "router == alpha"), 2),
        (said(ARB, "cost_bps", "higher", "size_usd >= 20000", "volatility >= 0.9"), 2),
        (said(WBTC_WETH, "failed", "higher", "router == gamma"), 1),
        (said(DAILY, "gas_usd", "higher", "hour >= 11"), 1),
        (said(DAILY, "gas_gwei", "lower", "hour < 8"), 1),
        (said(DAILY, "gas_gwei", "higher", "hour >= 9", "hour < 20"), 1),
        (said(WETH_USDC, "cost_bps", "higher", "size_share >= 0.004", "router == beta"), 1),
    ],
)
def test_planted(claim: Stated, effects: int) -> None:
    found = verdict(TRUTH, claim)
    assert found.planted, found.why
    assert len(found.effects) == effects


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (said(WETH_USDC, "cost_bps", "higher", "coin == heads"), "coin does not move"),
        (said(WETH_USDC, "cost_bps", "higher", "size_share >= 0.004", "coin == heads"), "coin does not move"),
        (said(WETH_USDC, "cost_bps", "lower", "size_share >= 0.004"), "not lower"),
        (said(WETH_USDC, "cost_bps", "lower", "router == alpha"), "not lower"),
        (said(WETH_USDC, "cost_bps", "higher", "router == alpha", **LATE), "not higher"),
        (said(WETH_USDC, "failed", "higher", "router == gamma"), "nothing moves"),
        (said(WETH_USDC, "gas_gwei", "higher", "hour >= 11"), "nothing moves"),
        (said(DAILY, "cost_bps", "higher", "volatility >= 0.9"), "volatility does not move"),
        (said("swap:1:elsewhere", "cost_bps", "higher", "size_share >= 0.004"), "nothing moves"),
        (said(WETH_USDC, "slippage_bps", "higher", "size_share >= 0.004"), "nothing moves"),
    ],
)
def test_not_planted(claim: Stated, why: str) -> None:
    found = verdict(TRUTH, claim)
    assert not found.planted
    assert why in found.why


def test_in_a_market_without_effects_nothing_is_planted() -> None:
    assert not verdict(truth_of(1, 20_000, effects=False), said(WETH_USDC, "cost_bps", "higher", "size_share >= 0.004")).planted


def test_a_report_counts_effects_once_and_claims_each() -> None:
    report = judge_stated(
        TRUTH,
        [
            said(WETH_USDC, "cost_bps", "higher", "size_share >= 0.004"),
            said(WETH_USDC, "impact_bps", "higher", "size_usd >= 30000"),
            said(WETH_USDC, "cost_bps", "lower", "router == alpha", **LATE),
            said(WETH_USDC, "cost_bps", "higher", "coin == heads"),
        ],
    )
    assert report.found == ("swap:31337:weth-usdc:size-raises-cost",)
    assert report.noticed == ("swap:31337:weth-usdc:router-moves-cost:changed",)
    assert "swap:31337:weth-usdc:router-moves-cost" in report.missed
    assert report.unnoticed == ("swap:31337:wbtc-weth:size-raises-cost:changed",)
    assert (report.precision, round(report.recall * (len(report.found) + len(report.missed)))) == (0.75, 1)
    assert report.to_plain()["unplanted_claims"][0]["why"] == "coin does not move cost_bps"


def test_nothing_said_is_precise_and_finds_nothing() -> None:
    report = judge_stated(TRUTH, [])
    assert (report.precision, report.recall) == (1.0, 0.0)


def evidence(effect: float, first: datetime, last: datetime) -> Evidence:
    return Evidence(
        kind="cliffs_delta",
        effect=effect,
        low=effect - 0.1,
        high=effect + 0.1,
        n_inside=90,
        n_outside=200,
        inside=20.0,
        outside=35.0,
        unit="bps",
        p=0.001,
        q=0.001,
        first_ts=first,
        last_ts=last,
    )


def operation(kind: Any, said: Stated, effect: float = 0.4, **fields: Any) -> Any:
    told = evidence(effect, said.first_ts, said.last_ts)
    common = {"insight_id": said.claim.insight_id, "ts": said.last_ts, "author": "distil", "reason": "test", "evidence": told}
    return kind(op_id=f"{kind.__name__}-{said.last_ts}-{said.claim.insight_id}", **common, **fields)


def added(said: Stated) -> AddInsight:
    words = {"text": "words", "category": Category.SLIPPAGE, "key": said.claim.key, "label": "pair"}
    return operation(AddInsight, said, claim=said.claim, **words)


def test_a_downvote_on_later_evidence_notices_a_reversal_and_is_no_claim() -> None:
    early = said(WETH_USDC, "cost_bps", "higher", "router == alpha")
    late = said(WETH_USDC, "cost_bps", "higher", "router == alpha", **LATE)
    report = judge_operations(TRUTH, [added(early), operation(UpvoteInsight, early), operation(DownvoteInsight, late, -0.4)])
    assert report.noticed == ("swap:31337:weth-usdc:router-moves-cost:changed",)
    assert report.found == ("swap:31337:weth-usdc:router-moves-cost",)
    assert (len(report.planted_claims), len(report.unplanted_claims)) == (1, 0)


def test_an_insight_edited_into_something_unplanted_counts_as_one_unplanted() -> None:
    early = said(WETH_USDC, "cost_bps", "higher", "router == alpha")
    late = said(WETH_USDC, "cost_bps", "higher", "router == alpha", **LATE)
    edit = operation(EditInsight, late, text="words", claim=late.claim)
    report = judge_operations(TRUTH, [added(early), edit])
    assert (len(report.planted_claims), len(report.unplanted_claims)) == (0, 1)
    assert report.found == ("swap:31337:weth-usdc:router-moves-cost",)


def test_an_insight_that_was_true_is_planted_after_it_was_voted_down() -> None:
    claim = said(WETH_USDC, "cost_bps", "higher", "router == alpha").claim
    against = evidence(-0.4, TRUTH.change_ts + DAY, TRUTH.change_ts + 3 * DAY)
    made = TRUTH.start_ts + 2 * DAY
    insight = Insight(
        id=claim.insight_id,
        text="Router alpha costs more.",
        category=Category.ROUTE_SELECTION,
        confidence=Decimal("0.3"),
        revision=3,
        key=claim.key,
        label="WETH/USDC",
        claim=claim,
        evidence=against,
        created_ts=made,
        validated_ts=made,
        author="distil",
    )
    directive = insight.model_copy(update={"claim": None, "evidence": None})
    report = judge(TRUTH, [insight, directive])
    assert len(report.planted_claims) == 1
    assert not report.unplanted_claims
    assert not verdict(TRUTH, stated(claim, against)).planted
