"""Confidence channels: in order, monotone in the number of observations, in the effect, and honest about the floor."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.claims import Evidence
from tests.support.sqlite import add, claim, directive, evidence, note, op
from workers.channels import CERTAIN, FLOORS, Channels, channels, of_counts, of_evidence
from workers.distil.mine import floor
from workers.ledger import apply
from workers.metrics import METRICS
from workers.notes import remember

KINDS = st.sampled_from(sorted(FLOORS))
EFFECTS = st.floats(-0.9, 0.9)
SIGNS = st.sampled_from((1, -1))


def seen(effect: float, n: int, kind: str = "cliffs_delta") -> Evidence:
    """Evidence whose interval is symmetric on Fisher's scale and shrinks with the root of n."""
    half = 1.96 / math.sqrt(n)
    low, high = (math.tanh(math.atanh(effect) + side * half) for side in (-1, 1))
    return evidence().model_copy(update={"kind": kind, "effect": effect, "low": low, "high": high, "n_inside": n})


def parts(found: Channels) -> tuple[float, float, float]:
    return (found.pessimistic, found.median, found.optimistic)


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1), KINDS, SIGNS)
def test_they_are_probabilities_in_order_whatever_the_interval(a: float, b: float, c: float, kind: str, sign: int) -> None:
    low, effect, high = sorted((a, b, c))
    found = parts(of_evidence(evidence().model_copy(update={"kind": kind, "low": low, "effect": effect, "high": high}), sign))
    assert all(0 <= one <= 1 for one in found)
    assert list(found) == sorted(found)


@given(EFFECTS, st.integers(4, 5_000), st.integers(2, 50), KINDS, SIGNS)
def test_more_observations_of_the_same_effect_move_all_three_one_way_and_together(
    effect: float, n: int, times: int, kind: str, sign: int
) -> None:
    few, many = parts(of_evidence(seen(effect, n, kind), sign)), parts(of_evidence(seen(effect, n * times, kind), sign))
    over = sign * effect >= FLOORS[kind]
    for before, after in zip(few, many, strict=True):
        assert (after >= before - 1e-9) if over else (after <= before + 1e-9)
    assert many[2] - many[0] <= max(few[2] - few[0], 0.951)


@given(st.floats(-0.8, 0.8), st.floats(0, 0.1), st.integers(4, 5_000), KINDS)
def test_a_larger_effect_never_lowers_them(effect: float, more: float, n: int, kind: str) -> None:
    less, larger = parts(of_evidence(seen(effect, n, kind), 1)), parts(of_evidence(seen(effect + more, n, kind), 1))
    assert all(b >= a - 1e-9 for a, b in zip(less, larger, strict=True))


@given(EFFECTS, st.integers(4, 5_000), KINDS)
def test_the_pessimistic_one_is_over_a_half_exactly_where_the_near_end_clears_the_floor(effect: float, n: int, kind: str) -> None:
    one = seen(effect, n, kind)
    if abs(one.low - FLOORS[kind]) > 1e-6:
        assert (of_evidence(one, 1).pessimistic > 0.5) == (one.low > FLOORS[kind])


@given(st.integers(1, 40), st.integers(0, 40))
def test_counts_speak_for_and_against(said: int, harmful: int) -> None:
    found = parts(of_counts(said, harmful))
    assert list(found) == sorted(found)
    assert all(b > a for a, b in zip(found, parts(of_counts(said + 1, harmful)), strict=True))
    assert all(b < a for a, b in zip(found, parts(of_counts(said, harmful + 1)), strict=True))


def test_which_evidence_counts_and_for_whom_there_is_none() -> None:
    about = claim()
    made = apply(None, add(about.insight_id, claim=about, evidence=evidence(0.5)))
    assert not isinstance(made, type(None))
    voted = apply(made, op("DOWNVOTE", about.insight_id, "d", evidence=evidence(-0.5)))  # type: ignore[arg-type]
    first, latest = channels(made), channels(voted)  # type: ignore[arg-type]
    assert first is not None
    assert latest is not None
    assert first.pessimistic > 0.5 > latest.optimistic
    assert channels(apply(None, directive("d"))) == CERTAIN  # type: ignore[arg-type]
    assert channels(apply(None, add("plain"))) is None  # type: ignore[arg-type]
    noted = remember(note("n", "Gas is high."), ()).changes[0][1]
    assert channels(noted) == of_counts(1, 0)
    assert channels(noted, helpful=2, harmful=1) == of_counts(3, 1)


@pytest.mark.parametrize(("metric", "kind"), [("failed", "risk_difference"), ("cost_bps", "cliffs_delta")])
def test_the_floors_are_the_miners(metric: str, kind: str) -> None:
    assert floor(METRICS[metric]) == FLOORS[kind]
