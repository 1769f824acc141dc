"""Claims that somebody proposed, held against rows that nobody showed to them.

The rows of a key are split by time. Whoever proposes sees a summary of the older half (``summary.py``); the newer half decides, by
the very test that the distiller's own candidates must pass (``workers/distil/confirm.py``). A round of proposals may spend
α = 6q/(π²w²) of the proposer's own error rate q at its w-th look at a key, split evenly over the metrics that it speaks of, with
Benjamini–Hochberg inside each: proposing more, or more often, buys no more errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from schemas.claims import Claim, Condition
from workers.distil.confirm import Finding, Rule, weigh
from workers.distil.learner import Added
from workers.distil.mine import Candidate
from workers.distil.observations import Observations, View
from workers.distil.stats import alpha_spent
from workers.distil.verdicts import Belief
from workers.metrics import METRICS, rounded

MOST = 8
"""Proposals that are looked at in one round; what comes after is dropped, so that a long answer dilutes nothing."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A claim in the shape of a candidate: metric, conditions and direction (+1 higher inside)."""

    metric: str
    conditions: tuple[Condition, ...]
    direction: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The rows of a key as they are shown and tested: ``older`` proposes, ``newer`` decides. Cut after the last drift alarm for
    each metric, so metrics have rows of their own."""

    rows: View
    cuts: Mapping[str, int]
    """By metric: Unix milliseconds before which nothing speaks about it."""

    def of(self, metric: str) -> tuple[View, View]:
        """Older and newer half of the rows where a metric is known, since its cut."""
        known = self.rows.having(metric)
        fresh = known.where(known.ts_ms >= self.cuts.get(metric, 0)) if len(known) else known
        half = len(fresh) // 2
        return fresh.rows(0, half), fresh.rows(half, len(fresh))


def evidence_of(observations: Observations, cuts: Mapping[str, int]) -> Evidence:
    """The evidence in a key's observations."""
    return Evidence(observations.view(), cuts)


def read_proposal(plain: Any, features: Mapping[str, Literal["number", "text", "bool"]]) -> Proposed | str:
    """A claim out of an answer's JSON, or why it is none. ``features`` are those that the older rows have, with their type."""
    if not isinstance(plain, dict):
        return "not_an_object"
    metric, parts, direction = plain.get("metric"), plain.get("conditions"), plain.get("direction")
    if not isinstance(metric, str) or metric not in METRICS:
        return "unknown_metric"
    if direction not in ("higher", "lower"):
        return "unknown_direction"
    if not isinstance(parts, list) or not 1 <= len(parts) <= 2:
        return "one_or_two_conditions"
    conditions = []
    for part in parts:
        condition = _condition(part, features)
        if isinstance(condition, str):
            return condition
        if condition not in conditions:
            conditions.append(condition)
    if len({condition.slot for condition in conditions}) < len(conditions):
        return "condition_twice"
    sign = 1 if direction == "higher" else -1
    if len(conditions) == 1 and conditions[0].op == "<":  # the complement is the same claim: one of them speaks for both
        return Proposed(metric, (conditions[0].model_copy(update={"op": ">="}),), -sign)
    return Proposed(metric, tuple(sorted(conditions, key=lambda one: one.slot)), sign)


def _condition(part: Any, features: Mapping[str, Literal["number", "text", "bool"]]) -> Condition | str:
    feature = part.get("feature") if isinstance(part, dict) else None
    if not isinstance(feature, str) or feature not in features:
        return "unknown_feature"
    kind, op, value = features[feature], part.get("op"), part.get("value")
    if kind == "number":
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return "value_of_another_type"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or op not in (">=", "<"):
            return "value_of_another_type"
        try:
            value = rounded(float(value))
        except OverflowError:
            return "value_of_another_type"
    elif op != "==" or not isinstance(value, bool if kind == "bool" else str):
        return "value_of_another_type"
    try:
        return Condition(feature=feature, op=op, value=value)
    except ValidationError:
        return "value_of_another_type"


def weigh_proposals(
    evidence: Evidence, proposed: Sequence[Proposed], *, q: float, look: int, believed: Sequence[Rule]
) -> list[Finding | str]:
    """Each proposal as the finding that the newer half makes of it, or why it is none, in order."""
    alpha = round_alpha(proposed, q, look)
    verdicts: list[Finding | str] = ["repeated"] * len(proposed)
    for name in dict.fromkeys(one.metric for one in proposed):
        first: dict[frozenset[str], int] = {}
        for i, one in enumerate(proposed):
            if one.metric == name:
                first.setdefault(Rule(name, one.conditions).slots, i)
        _, newer = evidence.of(name)
        chosen = list(first.values())
        if not len(newer):
            for i in chosen:
                verdicts[i] = "too_few_rows"
            continue
        candidates = [Candidate(proposed[i].conditions, proposed[i].direction, 0.0) for i in chosen]
        for i, (_, verdict) in zip(chosen, weigh(newer, METRICS[name], candidates, alpha=alpha, believed=believed), strict=True):
            verdicts[i] = verdict
    return verdicts


def round_alpha(proposed: Sequence[Proposed], q: float, look: int) -> float:
    """What each metric of a round may spend."""
    metrics = len({one.metric for one in proposed})
    return alpha_spent(q, look) / max(1, metrics)


def added(finding: Finding, key: str) -> Added:
    """A finding as a change of belief, which ``workers/distil/said.py`` makes an operation of."""
    claim = Claim(
        level="pair",
        key=key,
        metric=finding.rule.metric,
        conditions=tuple(sorted(finding.rule.conditions, key=lambda one: one.slot)),
        direction="higher" if finding.direction > 0 else "lower",
    )
    return Added(Belief.new(claim, finding.comparison.evidence(finding.q), 0), finding)
