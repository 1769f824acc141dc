"""What fresh evidence says of a claim that is believed already.

Only rows that came in after the last verdict count, and none across a drift cut, so no episode is ever evidence twice. With the
claim's own direction taken as positive, [low, high] the effect's interval on the fresh rows, and the interval of the confirmation
that the claim rests on beside it:

==============================================================  =========
fresh rows say                                                  verdict
==============================================================  =========
high < 0                                                        DOWNVOTE  reversed; the fifth in a row: EDIT, the direction turned
high under the practical floor                                  DOWNVOTE  gone: whatever is left does not matter
low ≤ 0 and high under the claimed interval                     DOWNVOTE  faded: nothing shows, and what was claimed is excluded
above the pair: a third of the pairs exclude the floor          DOWNVOTE  confined: it is no claim about all of them
low over the floor, rows between two thresholds changed sides   EDIT      shifted threshold
low over the floor, clear of the claimed interval and far off   EDIT      another effect
low over the floor, levels twice or half as far apart           EDIT      another difference in the metric's own unit
low over the floor                                              UPVOTE
anything else                                                   none yet; the rows stay and more are awaited
==============================================================  =========

The asymmetry is meant: an UPVOTE or EDIT needs ``FULL_LOOK`` rows, a DOWNVOTE is given as soon as either side has twenty, and
twelve where the last verdict was one. Looks come at geometrically growing sizes: each extra look at the same rows is a chance to be
fooled, and costs time. Rows that have decided nothing by half of the evidence limit are let go.

A belief that a newer finding explains is retired (ARCHIVE): it is neither judged nor listened to any more, but remembered, because
its insight keeps its id.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from schemas.claims import Claim, Condition, Evidence
from workers.distil.confirm import Rule
from workers.distil.evidence import Comparison, compare, compare_rows
from workers.distil.mine import MIN_SUPPORT, floor, outcome_deviations, strength, threshold_cuts
from workers.distil.observations import View
from workers.metrics import METRICS, Metric

FIRST_LOOK = 40
AGAIN = 12
"""Fewest rows on a side for a belief that the last verdict went against: what has begun to turn is asked again sooner."""
FULL_LOOK = 120
GROWTH = 1.5
FLIP_AFTER = 4
"""Reversed verdicts in a row after which the claim turns around: by then its confidence is at most 0.4."""
REFUTED_AFTER = 7
"""Contrary verdicts in a row that take all confidence there can be; further ones would say nothing new."""
ZONE_SUPPORT = 15
ZONE_SHARE = 0.10
OTHER_FACTOR = 2.0
FAR_OFF = 2.0
"""How many practical floors an effect must have moved to be another one: markets breathe, and words need not follow."""
OPPOSITE = "the opposite holds"


@dataclass(frozen=True, slots=True)
class Belief:
    """A claim that was added, the evidence its words rest on, and where its next verdict starts.

    ``since`` is the sequence number of the first fresh row, ``look`` how many fresh rows with the metric the next look waits for,
    ``due`` the sequence number before which there cannot be as many, ``against`` how many verdicts in a row went against it and
    ``reversals`` how many of these in a row said the opposite. A ``retired`` one is only remembered.
    """

    claim: Claim
    evidence: Evidence
    since: int
    look: int
    due: int
    against: int = 0
    reversals: int = 0
    retired: bool = False

    @classmethod
    def new(cls, claim: Claim, evidence: Evidence, since: int, against: int = 0, reversals: int = 0) -> Belief:
        """A belief whose fresh rows start at ``since``."""
        return cls(claim, evidence, since, FIRST_LOOK, since + FIRST_LOOK, against, reversals)

    @property
    def rule(self) -> Rule:
        """Its conditions and metric."""
        return Rule(self.claim.metric, self.claim.conditions)

    @property
    def sign(self) -> int:
        """+1 when it claims a higher metric inside."""
        return 1 if self.claim.direction == "higher" else -1

    def restarted(self, since: int) -> Belief:
        """The same, with fresh rows counted from another one on."""
        since = max(self.since, since)
        return replace(self, since=since, look=FIRST_LOOK, due=since + FIRST_LOOK)

    def waiting(self, look: int, have: int, end: int) -> Belief:
        """The same, waiting for ``look`` fresh rows of which there are ``have`` at sequence number ``end``."""
        return replace(self, look=look, due=end + look - have)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "claim": self.claim.model_dump(mode="json"),
            "evidence": self.evidence.model_dump(mode="json"),
            "since": self.since,
            "look": self.look,
            "due": self.due,
            "against": self.against,
            "reversals": self.reversals,
            "retired": self.retired,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Belief:
        """The belief that gave ``plain``."""
        return cls(
            Claim.model_validate(plain["claim"]),
            Evidence.model_validate(plain["evidence"]),
            int(plain["since"]),
            int(plain["look"]),
            int(plain["due"]),
            int(plain["against"]),
            int(plain["reversals"]),
            bool(plain["retired"]),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """An operation on a believed claim: its kind, the claim after it, the comparison it rests on, and why in a few words."""

    kind: Literal["UPVOTE", "DOWNVOTE", "EDIT"]
    claim: Claim
    comparison: Comparison
    why: str

    @property
    def evidence(self) -> Evidence:
        """What it rests on. There is one test, so q is p."""
        return self.comparison.evidence(self.comparison.effect.p)


def judge(belief: Belief, view: View, limit: int) -> tuple[Belief, Verdict | None]:
    """Look at the fresh rows, if there are enough for a look: the belief as it stands after that, and a verdict if there is one.

    ``view`` has all rows that the metric's drift cut leaves; ``limit`` is the most that are ever kept.
    """
    metric = METRICS[belief.claim.metric]
    fresh = view.since(belief.since).having(metric.name)
    end = view.first + len(view)
    if len(fresh) < belief.look:
        return belief.waiting(belief.look, len(fresh), end), None
    verdict = _verdict(belief, fresh, view, metric)
    if verdict is None:
        if len(fresh) >= limit // 2:
            return belief.restarted(end), None
        return belief.waiting(_next_look(len(fresh)), len(fresh), end), None
    against = belief.against + 1 if verdict.kind == "DOWNVOTE" else 0
    reversals = belief.reversals + 1 if verdict.why == OPPOSITE else 0
    evidence = verdict.evidence if verdict.kind == "EDIT" else belief.evidence
    after = Belief.new(verdict.claim, evidence, end, against, reversals)
    return after, None if against > REFUTED_AFTER else verdict


def _next_look(rows: int) -> int:
    """Half as many again; ``FULL_LOOK`` is not skipped, because only from there on there are verdicts in favour."""
    grown = math.ceil(rows * GROWTH)
    return FULL_LOOK if rows < FULL_LOOK < grown else grown


def _verdict(belief: Belief, fresh: View, view: View, metric: Metric) -> Verdict | None:
    claim, sign = belief.claim, belief.sign
    comparison = compare(fresh, claim.conditions, metric, least=AGAIN if belief.against else MIN_SUPPORT)
    if comparison is None:
        return None
    seen = comparison.effect.toward(sign)
    claimed_low = belief.evidence.low if sign > 0 else -belief.evidence.high
    if seen.high < 0:
        if belief.reversals >= FLIP_AFTER and comparison.clears(-sign):
            turned = claim.model_copy(update={"direction": "lower" if sign > 0 else "higher"})
            return Verdict("EDIT", turned, comparison, "the direction has turned")
        return Verdict("DOWNVOTE", claim, comparison, OPPOSITE)
    if seen.high < floor(metric):
        return Verdict("DOWNVOTE", claim, comparison, "the effect is gone")
    if seen.low <= 0 and seen.high < claimed_low:
        return Verdict("DOWNVOTE", claim, comparison, "nothing shows of the effect claimed")
    if len(comparison.inside) < FULL_LOOK:
        return None
    if comparison.confined(sign):
        return Verdict("DOWNVOTE", claim, comparison, "it holds for some of them only")
    shifted = _shifted(belief, fresh, view, metric)
    if shifted is not None:
        return shifted
    if not comparison.clears(sign):
        return None
    why = _otherwise(belief, comparison, claimed_low)
    return Verdict("EDIT", claim, comparison, why) if why else Verdict("UPVOTE", claim, comparison, "the same holds")


def _otherwise(belief: Belief, comparison: Comparison, claimed_low: float) -> str:
    """How a confirmed effect differs materially from the one claimed; empty where it does not."""
    seen = comparison.effect.toward(belief.sign)
    claimed_high = belief.evidence.high if belief.sign > 0 else -belief.evidence.low
    far = abs(comparison.effect.effect - belief.evidence.effect) >= FAR_OFF * floor(comparison.metric)
    if far and seen.high < claimed_low:
        return "the effect is weaker than claimed"
    if far and seen.low > claimed_high:
        return "the effect is stronger than claimed"
    before = belief.evidence.inside - belief.evidence.outside
    after = comparison.inside_level - comparison.outside_level
    apart = before * after > 0 and max(before / after, after / before) > OTHER_FACTOR
    if apart and not comparison.gap[0] <= before <= comparison.gap[1]:
        return "the difference is another one than claimed"
    return ""


def _shifted(belief: Belief, fresh: View, view: View, metric: Metric) -> Verdict | None:
    """A threshold that has moved: proposed by earlier rows, confirmed by later ones.

    The proposing rows are those before the fresh ones, which earlier verdicts used; or the older half of the fresh, where there
    are enough, because rows wait undecided exactly when a threshold has moved.

    The rows between the old and the new threshold decide. They must differ over the floor from the side that the old threshold
    counts them to, and by less than half of the whole effect from the other.
    """
    if len(fresh) >= 2 * FULL_LOOK:
        earlier, fresh = fresh.rows(0, len(fresh) // 2), fresh.rows(len(fresh) // 2, len(fresh))
    else:
        end = max(0, belief.since - view.first)
        earlier = view.rows(max(0, end - 2 * FULL_LOOK), end).having(metric.name)
    if len(earlier) < FULL_LOOK:
        return None
    for condition in belief.claim.conditions:
        if condition.op == "==":
            continue
        others = tuple(other for other in belief.claim.conditions if other != condition)
        cut = _best_cut(earlier.where(earlier.test(others)[0]), condition, metric, belief.sign)
        if cut is None or cut == condition.value:
            continue
        moved = condition.model_copy(update={"value": cut})
        if not _changed_sides(fresh.where(fresh.test(others)[0]), condition, moved, metric, belief.sign):
            continue
        conditions = tuple(moved if other == condition else other for other in belief.claim.conditions)
        comparison = compare(fresh, conditions, metric)
        if comparison is not None and comparison.clears(belief.sign):
            claim = belief.claim.model_copy(update={"conditions": conditions})
            return Verdict("EDIT", claim, comparison, f"the threshold of {condition.feature} has shifted")
    return None


def _best_cut(view: View, condition: Condition, metric: Metric, sign: int) -> float | None:
    """The threshold with the strongest difference in the claim's direction."""
    column = view.numbers.get(condition.feature)
    if column is None or not len(view):
        return None
    deviations = outcome_deviations(view.metrics[metric.name], metric, view.group_codes)
    best, chosen = 0.0, None
    for cut in threshold_cuts(condition.feature, column[~np.isnan(column)]):
        covered = column >= cut if condition.op == ">=" else column < cut
        n = int(covered.sum())
        strong = sign * float(strength(int(deviations[covered].sum()), n, deviations)) if 0 < n < len(view) else 0.0
        if strong > best:
            best, chosen = strong, cut
    return chosen


def _changed_sides(view: View, old: Condition, new: Condition, metric: Metric, sign: int) -> bool:
    was, known = view.test((old,))
    now, _ = view.test((new,))
    zone = known & (was != now)
    if int(zone.sum()) < max(ZONE_SUPPORT, ZONE_SHARE * int(known.sum())):
        return False
    inside, outside = was & now, known & ~was & ~now
    left = bool(was[zone][0])  # the zone counted as inside until now, and has left
    core, other = (inside, outside) if left else (outside, inside)
    against_core = compare_rows(view, zone, core, metric, ZONE_SUPPORT)
    against_other = compare_rows(view, zone, other, metric, ZONE_SUPPORT)
    whole = compare_rows(view, inside, outside, metric, ZONE_SUPPORT)
    if against_core is None or against_other is None or whole is None:
        return False
    toward = -sign if left else sign
    differs = against_core.effect.toward(toward).low > floor(metric)
    alike = abs(against_other.effect.effect) < abs(whole.effect.effect) / 2
    return differs and alike
