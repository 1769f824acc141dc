"""Every row of the table of verdicts really happens, on fresh rows only, and noise does not make it happen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from schemas.claims import Claim, Condition
from workers.distil.evidence import compare
from workers.distil.observations import Observation, Observations
from workers.distil.verdicts import FLIP_AFTER, FULL_LOOK, REFUTED_AFTER, Belief, Verdict, judge
from workers.metrics import METRICS

LIMIT = 2000
Cost = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def over(threshold: float, extra: float) -> Cost:
    """Sizes over a threshold cost more."""
    return lambda size, rng: 30 + extra * (size >= threshold) + np.exp(0.5 * rng.normal(size=len(size)))


class Desk:
    """Rows that come in by blocks, and one belief on them: a size of at least 1 (half of all) costs more."""

    def __init__(self, made_with: Cost, n: int = 200, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows = Observations(LIMIT)
        self.add(made_with, n)
        claim = Claim(key="k", metric="cost_bps", conditions=(Condition(feature="size", op=">=", value=1.0),), direction="higher")
        comparison = compare(self.rows.view(), claim.conditions, METRICS["cost_bps"])
        assert comparison is not None
        self.belief = Belief.new(claim, comparison.evidence(0.001), self.rows.total)
        self.verdicts: list[Verdict] = []

    def add(self, cost: Cost, n: int) -> None:
        sizes = np.exp(self.rng.normal(size=n))
        for size, value in zip(sizes, cost(sizes, self.rng), strict=True):
            i = self.rows.total
            self.rows.append(Observation(i * 60_000, f"e{i}", {"cost_bps": float(value)}, {"size": float(size)}))

    def go_on(self, cost: Cost, n: int, step: int = 10) -> list[str]:
        """More rows, looked at every ``step``; the kinds of the verdicts they gave."""
        before = len(self.verdicts)
        for _ in range(0, n, step):
            self.add(cost, step)
            self.belief, verdict = judge(self.belief, self.rows.view(), LIMIT)
            if verdict is not None:
                self.verdicts.append(verdict)
        return [verdict.kind for verdict in self.verdicts[before:]]

    @property
    def reasons(self) -> list[str]:
        return [verdict.why for verdict in self.verdicts]


SAME, REVERSED, GONE = over(1.0, 3.0), over(1.0, -3.0), over(1.0, 0.0)


def test_the_same_effect_again_is_an_upvote_once_for_so_many_rows() -> None:
    desk = Desk(SAME)
    assert desk.go_on(SAME, 600) == ["UPVOTE"] * 5
    assert desk.belief.against == 0
    assert all(len(verdict.comparison.inside) >= FULL_LOOK for verdict in desk.verdicts)


def test_no_episode_is_evidence_twice() -> None:
    desk = Desk(SAME)
    desk.go_on(SAME, 400)
    desk.go_on(REVERSED, 400)
    used = [identity for verdict in desk.verdicts for identity in verdict.comparison.view.ids]
    assert len(used) == len(set(used))
    assert not set(used) & {f"e{i}" for i in range(200)}


def test_a_reversal_votes_down_fast_and_then_turns_the_claim() -> None:
    desk = Desk(SAME)
    kinds = desk.go_on(REVERSED, 400)
    assert kinds[: FLIP_AFTER + 1] == ["DOWNVOTE"] * FLIP_AFTER + ["EDIT"]
    turned = desk.verdicts[FLIP_AFTER]
    assert turned.claim.direction == "lower"
    assert turned.claim.insight_id == desk.verdicts[0].claim.insight_id
    assert desk.belief.claim.direction == "lower"
    assert set(desk.go_on(REVERSED, 300)) == {"UPVOTE"}


def test_an_effect_that_is_gone_is_voted_down_until_nothing_is_left_to_take() -> None:
    desk = Desk(SAME)
    kinds = desk.go_on(GONE, 1500)
    assert kinds == ["DOWNVOTE"] * REFUTED_AFTER
    assert desk.belief.claim.direction == "higher"
    assert "UPVOTE" in desk.go_on(SAME, 600)
    assert desk.belief.against == 0


def test_a_shifted_threshold_is_an_edit_that_keeps_the_insight() -> None:
    desk = Desk(SAME)
    desk.go_on(SAME, 300)
    desk.go_on(over(2.5, 3.0), 700)
    shift = next(verdict for verdict in desk.verdicts if verdict.why == "the threshold of size has shifted")
    (condition,) = shift.claim.conditions
    assert shift.kind == "EDIT"
    assert isinstance(condition.value, float)
    assert 1.8 < condition.value < 3.2
    assert shift.claim.insight_id == desk.verdicts[0].claim.insight_id
    assert shift.evidence.outside < 32
    assert "DOWNVOTE" not in {verdict.kind for verdict in desk.verdicts}
    assert desk.go_on(over(2.5, 3.0), 300)[-1] == "UPVOTE"


def test_an_effect_that_has_grown_is_an_edit() -> None:
    desk = Desk(over(1.0, 0.6))
    kinds = desk.go_on(over(1.0, 6.0), 130)
    assert kinds == ["EDIT"]
    assert desk.reasons == ["the effect is stronger than claimed"]
    assert set(desk.go_on(over(1.0, 6.0), 300)) == {"UPVOTE"}


def test_an_effect_that_has_shrunk_but_still_matters_is_an_edit() -> None:
    desk = Desk(over(1.0, 2.0))
    assert desk.go_on(over(1.0, 0.7), 130) == ["EDIT"]
    assert desk.reasons == ["the effect is weaker than claimed"]


def test_twice_the_difference_at_the_same_separation_is_an_edit() -> None:
    """Complete separation before and after: only the metric's own unit shows that a claim of 6 bps is now one of 20."""
    desk = Desk(over(1.0, 20.0))
    assert desk.go_on(over(1.0, 60.0), 130) == ["EDIT"]
    assert desk.reasons == ["the difference is another one than claimed"]


def test_a_true_claim_is_hardly_ever_voted_down_and_its_words_stay() -> None:
    kinds = [kind for seed in range(6) for kind in Desk(over(1.0, 1.2), seed=seed).go_on(over(1.0, 1.2), 600)]
    assert kinds.count("UPVOTE") >= 15
    assert kinds.count("DOWNVOTE") == 0
    assert kinds.count("EDIT") <= 1


def test_rows_that_decide_nothing_are_let_go_and_looks_are_few() -> None:
    """An effect just at the floor: neither confirmed nor refuted, and not looked at for ever."""
    desk = Desk(over(1.0, 1.0))
    desk.belief = replace(desk.belief, evidence=desk.belief.evidence.model_copy(update={"low": 0.0}))
    seen = set()
    for _ in range(120):
        desk.go_on(over(1.0, 0.28), 10)
        seen.add((desk.belief.since, desk.belief.look))
    assert len(seen) < 25


def test_nothing_is_said_before_there_are_twenty_on_either_side() -> None:
    desk = Desk(SAME)
    assert desk.go_on(over(1.0, -30.0), 30) == []


@pytest.mark.parametrize("restart", [True, False])
def test_a_belief_survives_as_json(restart: bool) -> None:
    desk = Desk(SAME)
    assert desk.go_on(REVERSED, 100) == ["DOWNVOTE", "DOWNVOTE"]
    if restart:
        desk.belief = Belief.from_plain(json.loads(json.dumps(desk.belief.to_plain())))
    assert desk.go_on(REVERSED, 260)[:3] == ["DOWNVOTE", "DOWNVOTE", "EDIT"]
