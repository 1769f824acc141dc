"""Retention: the specification's table, its formulas, and operations that apply once and only to what was looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.claims import Category
from schemas.insights import Insight, InsightStatus
from tests.support.sqlite import KEY, add, at, directive, evidence, note, op
from workers import retention
from workers.ledger import Rejected, apply
from workers.notes import remember

DAY = timedelta(days=1)


def mined(category: Category = Category.SLIPPAGE, apart: float = 8.0, **fields: Any) -> Insight:
    seen = evidence().model_copy(update={"inside": 10.0 + apart, "outside": 10.0})
    made = apply(None, add("i", category=category, evidence=seen, claim=None, **fields))
    assert isinstance(made, Insight)
    return made


def after(insight: Insight, *operations: Any) -> Insight:
    for one in operations:
        done = apply(insight, one)
        assert isinstance(done, Insight), done
        insight = done
    return insight


@pytest.mark.parametrize(
    ("category", "impact", "accesses", "days"),
    [
        (Category.MEV_PATTERN, 0.0, 0, 365 * 5),
        (Category.EMERGENCY, 500.0, 1, 365 * 5 * 1.2),
        (Category.SLIPPAGE, 100.1, 0, 180 * 5),
        (Category.GAS_TIMING, -101.0, 0, 180 * 5),
        (Category.GENERAL, 100.0, 0, 90 * 2),
        (Category.GENERAL, 50.1, 5, 90 * 2 * 2),
        (Category.GENERAL, 50.1, 50, 90 * 2 * 2),
        (Category.SLIPPAGE, 50.0, 0, 30),
        (Category.ROUTE_SELECTION, 0.0, 3, 30 * 1.6),
        (Category.ROUTE_SELECTION, 0.0, 4, None),
        (Category.GAS_TIMING, 0.0, 0, 7),
        (Category.GAS_TIMING, 0.0, 9, 14),
        (Category.GENERAL, 0.0, 1, 14 * 1.2),
        (Category.GENERAL, 0.0, 2, None),
        (Category.VAULT_STRATEGY, 0.0, 0, 14),
    ],
)
def test_the_table(category: Category, impact: float, accesses: int, days: float | None) -> None:
    lives = retention.lifetime(category, impact, accesses)
    assert lives == (None if days is None else timedelta(days=days))


@given(st.floats(-5_000, 5_000), st.integers(0, 50))
def test_importance_is_a_share_and_grows_with_impact_and_use(impact: float, accesses: int) -> None:
    here = retention.importance(impact, accesses)
    assert 0 <= here <= 1
    assert retention.importance(impact * 1.1, accesses) >= here
    assert retention.importance(impact, accesses + 1) >= here
    assert here == retention.importance(-impact, accesses)
    assert here >= min(1.0, abs(impact) / 500)


@given(st.sampled_from(sorted(Category)), st.floats(0, 1_000), st.floats(0, 1_000), st.integers(0, 20))
def test_more_impact_or_use_never_shortens_a_life(category: Category, impact: float, more: float, accesses: int) -> None:
    ever = timedelta.max
    here = retention.lifetime(category, impact, accesses) or ever
    assert (retention.lifetime(category, impact, accesses + 1) or ever) >= here
    if accesses == 0:
        assert (retention.lifetime(category, impact + more, accesses) or ever) >= here


def test_what_is_past_its_time_is_archived_at_that_time_and_not_before() -> None:
    one = mined()
    end = one.validated_ts + 30 * DAY
    assert retention.expires_at(one, 0) == end
    assert retention.retired([one], {}, end - timedelta(microseconds=1)) == []
    (out,) = retention.retired([one], {}, end + 90 * DAY)
    assert (out.ts, out.cause, out.author, out.of_revision) == (end, "expired", "retention", one.revision)
    assert "not validated for 30 days" in out.reason
    assert retention.retired([one], {"i": 4}, end + 90 * DAY) == []
    assert retention.retired([after(one, out)], {}, end + 90 * DAY) == []


def test_a_decision_applies_once_and_only_to_the_revision_that_was_looked_at() -> None:
    one = mined()
    now = one.validated_ts + 40 * DAY
    (first,), (again,) = retention.retired([one], {}, now), retention.retired([one], {}, now + DAY)
    assert first.op_id == again.op_id
    voted = after(one, op("UPVOTE", "i", "u", evidence=evidence()))
    refused = apply(voted, first)
    assert isinstance(refused, Rejected)
    assert refused.reason == "changed_since"


@pytest.mark.parametrize(("cause", "kind", "status"), [
    ("expired", "UPVOTE", "active"), ("expired", "EDIT", "active"), ("expired", "DOWNVOTE", "archived"),
    ("explained", "UPVOTE", "archived"), ("explained", "EDIT", "archived"), ("stated", "UPVOTE", "archived"),
    ("superseded", "UPVOTE", "archived"),
])  # fmt: skip
def test_what_brings_back_depends_on_why_it_went(cause: str, kind: str, status: str) -> None:
    more: dict[str, Any] = {"text": "Other words."} if kind == "EDIT" else {}
    back = after(mined(), op("ARCHIVE", "i", "a", cause=cause), op(kind, "i", "v", evidence=evidence(), **more))
    assert back.status == status
    assert (back.archived is None) == (status == "active")


def test_an_upvote_without_evidence_brings_nothing_back() -> None:
    assert after(mined(), op("ARCHIVE", "i", "a", cause="expired"), op("UPVOTE", "i", "v")).status is InsightStatus.ARCHIVED


def test_a_proxy_that_was_explained_away_does_not_come_back_by_expiring() -> None:
    """A weaker cause that comes later takes nothing away from a stronger one."""
    out = after(mined(), op("ARCHIVE", "i", "a", cause="explained"), op("ARCHIVE", "i", "b", cause="expired"))
    assert out.archived is not None
    assert out.archived.cause == "explained"
    assert after(out, op("UPVOTE", "i", "v", evidence=evidence())).status is InsightStatus.ARCHIVED
    refused = apply(out, op("RESTORE", "i", "r", cause="expired"))
    assert isinstance(refused, Rejected)
    assert refused.reason == "archived_otherwise"
    assert after(out, op("RESTORE", "i", "r")).status is InsightStatus.ACTIVE


def test_restoring_is_refused_where_there_is_nothing_to_restore() -> None:
    merged = after(mined(), op("ARCHIVE", "i", "a", cause="merged", by="other"))
    told = [apply(mined(), op("RESTORE", "i", "r")), apply(merged, op("RESTORE", "i", "r"))]
    assert [one.reason for one in told if isinstance(one, Rejected)] == ["not_archived", "merged"]
    ordered = apply(apply(None, directive("d")), op("RESTORE", "d", "r"))  # type: ignore[arg-type]
    assert isinstance(ordered, Rejected)
    assert ordered.reason == "directive_fixed"


def test_a_restored_one_begins_a_new_life() -> None:
    out = after(mined(), op("ARCHIVE", "i", "a", cause="expired"), op("RESTORE", "i", "r", hours=24 * 40))
    assert (out.status, out.archived, out.validated_ts) == (InsightStatus.ACTIVE, None, at(24 * 40))
    assert retention.expires_at(out, 0) == at(24 * 40) + 30 * DAY


def test_it_returns_with_its_regime_and_with_no_other() -> None:
    one = mined()
    (out,) = retention.retired([one], {}, one.validated_ts + 40 * DAY)
    gone = after(one, out)
    later, before = out.ts + DAY, out.ts - DAY

    def back(regime: str, now_in: tuple[str, datetime]) -> list[Any]:
        return list(retention.returned([gone], {"i": regime}, {KEY: now_in}))

    (restored,) = back("calm", ("calm", later))
    assert (restored.cause, restored.ts) == ("expired", later)
    assert after(gone, restored).status is InsightStatus.ACTIVE
    assert back("calm", ("wild", later)) == []
    assert back("calm", ("calm", before)) == [], "it left in this very regime"
    assert retention.returned([gone], {}, {KEY: ("calm", later)}) == []
    explained = after(one, op("ARCHIVE", "i", "a", cause="explained"))
    assert retention.returned([explained], {"i": "calm"}, {KEY: ("calm", later)}) == []


def test_impacts() -> None:
    assert retention.impact_bps(mined(apart=-120.0)) == -120.0
    gas = mined().model_copy(update={"evidence": evidence().model_copy(update={"unit": "gwei"})})
    assert retention.impact_bps(gas) == 0.0
    noted = remember(note("n", "Gas is high.", importance=0.5), ()).changes[0][1]
    assert retention.impact_bps(noted) == 250.0
    assert retention.expires_at(noted, 0) == noted.validated_ts + 900 * DAY


def test_a_directive_ends_at_its_date_and_does_not_age() -> None:
    for_ever, until = apply(None, directive("d")), apply(None, directive("e", expires_at=at(48)))
    assert isinstance(for_ever, Insight)
    assert isinstance(until, Insight)
    assert retention.expires_at(for_ever, 0) is None
    (out,) = retention.retired([for_ever, until], {}, at(24 * 4_000))
    assert (out.insight_id, out.ts, out.reason) == ("e", at(48), "the directive's time is over")


def test_what_is_dated_at_the_end_of_time_stays() -> None:
    last = mined().model_copy(update={"validated_ts": datetime.max.replace(tzinfo=UTC)})
    assert retention.expires_at(last, 0) is None
    assert retention.retired([last], {}, at(24 * 4_000)) == []
    assert retention.episode_expires_at("swap", 0.0, last.validated_ts, 0) is None
