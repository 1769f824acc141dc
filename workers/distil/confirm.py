"""New claims: the older half of the evidence proposes, the newer half decides.

A candidate becomes a finding when, on rows that did not propose it,

1. its p-value survives Benjamini–Hochberg among the candidates of this look, at the α that this look may spend;
2. the near end of its interval clears the practical floor, in the direction proposed, and the levels differ materially;
3. the effect is steady over the rows' time (:func:`workers.distil.evidence.steady`);
4. as a refinement, it differs by more than the floor from the rest inside each of its parents;
5. nothing already believed or found explains it: with the other claim's features held fixed, an effect over the floor remains;
6. above the pair level, it holds throughout the pairs (tools): :meth:`workers.distil.evidence.Comparison.general`.

p-values and intervals are widened for autocorrelation throughout. The family of tests is one metric of one key: Benjamini–
Hochberg holds inside one look, and the looks' shares (6q/π²w² for the w-th look since the cut) sum to the metric's part of q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.claims import Condition
from workers.distil.evidence import Comparison, compare, held_fixed, steady
from workers.distil.mine import MIN_SUPPORT, Candidate, Selectors, binned, explore, floor, min_support, selectors, strata
from workers.distil.observations import View
from workers.distil.stats import Effect, benjamini_hochberg
from workers.metrics import METRICS, Metric

FINE_BINS = 40
"""Bins of another metric: two outcomes of the same thing are far closer to each other than to any feature."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a claim says apart from its group: conditions and metric."""

    metric: str
    conditions: tuple[Condition, ...]

    @property
    def slots(self) -> frozenset[str]:
        """Its conditions without thresholds."""
        return frozenset(condition.slot for condition in self.conditions)

    @property
    def features(self) -> list[str]:
        """What its conditions are about."""
        return sorted({condition.feature for condition in self.conditions})


@dataclass(frozen=True, slots=True)
class Finding:
    """A confirmed claim: the rule, its direction (+1 higher inside), what the confirming rows say, and q."""

    rule: Rule
    direction: int
    comparison: Comparison
    q: float


class Halves:
    """The rows of a key split by time into an older half that proposes and a newer one that confirms.

    Metrics known on the same rows share the split and its selectors, which cost more to make than to search. ``depth`` is how many
    conditions a claim may have.
    """

    def __init__(self, depth: int = 2) -> None:
        self._depth = depth
        self._made: dict[tuple[int, bytes], tuple[View, View, Selectors]] = {}

    def of(self, view: View, metric: str) -> tuple[View, View, Selectors]:
        """Older half, newer half, and the older half's selectors, of the rows where the metric is known."""
        key = (view.first, view.known(metric).tobytes())
        if key not in self._made:
            rows = view.having(metric)
            half = len(rows) // 2
            older = rows.rows(0, half)
            self._made[key] = (older, rows.rows(half, len(rows)), selectors(older, self._depth))
        return self._made[key]


def discover(view: View, metric: Metric, halves: Halves, *, alpha: float, believed: Sequence[Rule]) -> list[Finding]:
    """Claims about a metric that ``view`` proposes and confirms, strongest first, none that ``believed`` says already."""
    older, newer, found = halves.of(view, metric.name)
    weighed = weigh(newer, metric, explore(older, metric, found), alpha=alpha, believed=believed)
    return [verdict for _, verdict in weighed if isinstance(verdict, Finding)]


def weigh(
    newer: View, metric: Metric, proposed: Sequence[Candidate], *, alpha: float, believed: Sequence[Rule]
) -> list[tuple[Candidate, Finding | str]]:
    """Each candidate, whoever proposed it, with the finding that it is on rows that did not propose it; or with why it is none."""
    taken = {rule.slots for rule in believed if rule.metric == metric.name}
    verdicts: dict[int, Finding | str] = {}
    tested: list[tuple[int, Comparison]] = []
    for i, candidate in enumerate(proposed):
        if Rule(metric.name, candidate.conditions).slots in taken:
            verdicts[i] = "known"
            continue
        comparison = compare(newer, candidate.conditions, metric, least=min_support(len(newer)))
        if comparison is None:
            verdicts[i] = "too_few_rows"
        else:
            tested.append((i, comparison))
    q_values = benjamini_hochberg([comparison.effect.p for _, comparison in tested])
    findings: list[Finding] = []
    for (i, comparison), q in zip(tested, q_values, strict=True):
        verdict = verdicts[i] = _weighed(newer, metric, proposed[i], comparison, q, alpha, believed, findings)
        if isinstance(verdict, Finding):
            findings.append(verdict)
    return [(candidate, verdicts[i]) for i, candidate in enumerate(proposed)]


def _weighed(
    newer: View,
    metric: Metric,
    candidate: Candidate,
    comparison: Comparison,
    q: float,
    alpha: float,
    believed: Sequence[Rule],
    findings: Sequence[Finding],
) -> Finding | str:
    rule, direction = Rule(metric.name, candidate.conditions), candidate.direction
    if q > alpha:
        return "not_significant"
    if not comparison.clears(direction):
        return "under_the_floor"
    if not steady(comparison, direction):
        return "not_steady"
    if len(rule.conditions) > 1 and not _better_than_parents(newer, rule, metric, direction):
        return "no_better_than_its_parts"
    others = [*believed, *(finding.rule for finding in findings)]
    if any(rule.slots == finding.rule.slots for finding in findings) or any(
        _explains(other, rule, comparison, direction) for other in others
    ):
        return "explained"
    return Finding(rule, direction, comparison, q)


def superseded(rule: Rule, direction: int, metric: Metric, finding: Finding) -> bool:
    """Whether a new finding about the same metric explains a rule believed before it, by something that the rule is not about."""
    if rule.metric != finding.rule.metric or set(rule.features) <= set(finding.rule.features):
        return False
    comparison = compare(finding.comparison.view, rule.conditions, metric)
    return comparison is not None and _explains(finding.rule, rule, comparison, direction)


def _better_than_parents(view: View, rule: Rule, metric: Metric, direction: int) -> bool:
    """Whether each condition still makes a difference that matters among the rows where the other one holds."""
    for condition in rule.conditions:
        parent = tuple(other for other in rule.conditions if other != condition)
        holds, _ = view.test(parent)
        inside = compare(view.where(holds), (condition,), metric, least=MIN_SUPPORT // 2)
        if inside is None or inside.effect.toward(direction).low <= floor(metric):
            return False
    return True


def _explains(other: Rule, rule: Rule, comparison: Comparison, direction: int) -> bool:
    """Whether nothing over the floor is left of a rule's effect, once what another rule is about is held fixed."""
    if other.metric != rule.metric:
        return _says_the_same(other, rule, comparison, direction)
    view, metric = comparison.view, comparison.metric
    holds, _ = view.test(other.conditions)
    if set(rule.conditions) < set(other.conditions):  # a parent of what is known: is there more to it than the child?
        return not _remains(_on(view, ~holds, rule, metric), metric, direction)
    if rule.slots > other.slots:  # a refinement of what is known, perhaps with another threshold
        return not _remains(_on(view, holds, rule, metric), metric, direction)
    return not _remains(held_fixed(comparison, strata(view, other.features)), metric, direction)


def _says_the_same(other: Rule, rule: Rule, comparison: Comparison, direction: int) -> bool:
    """Whether a rule is another metric's rule once more, as gas in dollars follows gas in gwei.

    It is when both are about the same features, or the other would explain this one were it about the other's metric; and with
    that metric held fixed less than half of the effect is left (two noisy measurements of one thing never explain all).
    """
    view = comparison.view
    if other.metric not in view.metrics or comparison.metric.binary or METRICS[other.metric].binary:
        return False  # what failed has no costs: which of the two is known says already what the other is
    if not set(other.features) & set(rule.features):
        known = view.having(other.metric)
        moved = compare(known, rule.conditions, METRICS[other.metric])
        if moved is None:
            return False
        sign = 1 if moved.effect.effect > 0 else -1
        if not _explains(other, Rule(other.metric, rule.conditions), moved, sign):
            return False
    each = len(view) // (8 * max(1, len(comparison.shares)))
    left = held_fixed(comparison, binned(view.metrics[other.metric], min(FINE_BINS, each)))
    return (
        not _remains(left, comparison.metric, direction)
        or left is None
        or left.toward(direction).effect < comparison.effect.toward(direction).effect / 2
    )


def _on(view: View, rows: np.typing.NDArray[np.bool_], rule: Rule, metric: Metric) -> Effect | None:
    comparison = compare(view.where(rows), rule.conditions, metric, least=MIN_SUPPORT // 2)
    return comparison.effect if comparison is not None else None


def _remains(effect: Effect | None, metric: Metric, direction: int) -> bool:
    if effect is None:
        return False
    seen = effect.toward(direction)
    return seen.low > 0 and seen.effect > floor(metric)
