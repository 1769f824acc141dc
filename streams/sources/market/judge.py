"""Compares what was learned from a simulated market with what was planted in it.

A claim is **planted** when every one of its conditions is on a feature that carries an effect listed for the claim's key and
metric at the time of its evidence, and its direction is the effects' own. Two conditions may belong to two effects; where those
pull in opposite directions, either direction is one that the market can show. A condition on anything else makes the claim
unplanted, however good the other one is. An effect is **found** when a planted claim has a condition on one of its carriers.

Claims above the key are held against the effects above the key: what is true of one pair is not true of its tool. A lesson from
failures is planted when its kind of error is among the truth's lessons for its key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from schemas.claims import Claim, Condition, Evidence
from schemas.insights import Insight
from schemas.operations import AddInsight, DownvoteInsight, EditInsight
from streams.sources.market.truth import ERROR_KIND, Effect, Truth
from workers.ledger import Operation


@dataclass(frozen=True, slots=True)
class Stated:
    """A claim, with the time of what it rests on."""

    claim: Claim
    first_ts: datetime
    last_ts: datetime
    text: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a claim is. ``effects`` are the ids of the effects it shows; ``why`` says what is wrong where it is not planted."""

    stated: Stated
    planted: bool
    effects: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Effects found and missed, claims planted and unplanted, and effects that began at the regime change.

    ``found`` and ``missed`` count the effects that were there from the start; ``noticed`` and ``unnoticed`` those that followed
    another one: a claim, a vote or an edit in the new direction on later evidence.
    """

    found: tuple[str, ...]
    missed: tuple[str, ...]
    noticed: tuple[str, ...]
    unnoticed: tuple[str, ...]
    planted_claims: tuple[Verdict, ...]
    unplanted_claims: tuple[Verdict, ...]

    @property
    def precision(self) -> float:
        """Share of the claims that are planted; 1 where there is no claim."""
        claims = len(self.planted_claims) + len(self.unplanted_claims)
        return len(self.planted_claims) / claims if claims else 1.0

    @property
    def recall(self) -> float:
        """Share of the effects there from the start that were found; 1 where nothing was planted."""
        effects = len(self.found) + len(self.missed)
        return len(self.found) / effects if effects else 1.0

    def to_plain(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "found": list(self.found),
            "missed": list(self.missed),
            "noticed": list(self.noticed),
            "unnoticed": list(self.unnoticed),
            "planted_claims": [_plain(verdict) for verdict in self.planted_claims],
            "unplanted_claims": [_plain(verdict) for verdict in self.unplanted_claims],
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
        }


def judge(truth: Truth, insights: Iterable[Insight]) -> Report:
    """The report on insights as they are now. Those without a claim (what people state) are not judged.

    An insight's time runs from when it was made, or its evidence begins, to its latest evidence: one that was true and has since
    been voted down was planted all the same.
    """
    return judge_stated(truth, [stated for insight in insights if (stated := stated_by(insight)) is not None])


def stated_by(insight: Insight) -> Stated | None:
    """An insight's claim with its time; None where it has none."""
    if insight.claim is None:
        return None
    times = [insight.created_ts, insight.validated_ts]
    if insight.evidence is not None:
        times += [insight.evidence.first_ts, insight.evidence.last_ts]
    return Stated(insight.claim, min(times), max(times), insight.text)


def stated(claim: Claim, evidence: Evidence, text: str = "") -> Stated:
    """A claim with the time of its evidence."""
    return Stated(claim, evidence.first_ts, evidence.last_ts, text)


def judge_operations(truth: Truth, operations: Iterable[Operation]) -> Report:
    """The report on a history of operations, stricter than on the insights that are left of it.

    Each insight counts once, with the first claim of its ADD or EDITs that is not planted if there is one. A DOWNVOTE says the
    opposite of the insight's claim, and so can notice an effect that has changed; it is no claim of its own.
    """
    said: dict[str, list[Stated]] = {}
    against: list[Stated] = []
    for operation in operations:
        claims = said.setdefault(operation.insight_id, [])
        if isinstance(operation, (AddInsight, EditInsight)):
            if operation.claim is not None and operation.evidence is not None:
                claims.append(stated(operation.claim, operation.evidence, operation.text))
        elif isinstance(operation, DownvoteInsight) and operation.evidence is not None and claims:
            claim = claims[-1].claim
            opposite = claim.model_copy(update={"direction": "lower" if claim.direction == "higher" else "higher"})
            against.append(stated(opposite, operation.evidence, operation.reason))
    told = [judge_stated(truth, claims) for claims in said.values() if claims]
    noticed = judge_stated(truth, against)
    shown = {effect for report in (*told, noticed) for effect in (*report.found, *report.noticed)}
    return Report(
        **_seen(truth, shown),
        planted_claims=tuple(report.planted_claims[0] for report in told if not report.unplanted_claims),
        unplanted_claims=tuple(report.unplanted_claims[0] for report in told if report.unplanted_claims),
    )


def judge_stated(truth: Truth, claims: Iterable[Stated]) -> Report:
    """The report on claims, each with the time of its evidence."""
    verdicts = [verdict(truth, claim) for claim in claims]
    shown = {effect for each in verdicts if each.planted for effect in each.effects}
    return Report(
        **_seen(truth, shown),
        planted_claims=tuple(each for each in verdicts if each.planted),
        unplanted_claims=tuple(each for each in verdicts if not each.planted),
    )


def _seen(truth: Truth, shown: set[str]) -> dict[str, tuple[str, ...]]:
    """Effects there from the start and those that followed another one, each by whether they are shown."""
    first = [effect.id for effect in _all(truth) if effect.follows is None]
    later = [effect.id for effect in _all(truth) if effect.follows is not None]
    return {
        "found": tuple(effect for effect in first if effect in shown),
        "missed": tuple(effect for effect in first if effect not in shown),
        "noticed": tuple(effect for effect in later if effect in shown),
        "unnoticed": tuple(effect for effect in later if effect not in shown),
    }


def _all(truth: Truth) -> tuple[Effect, ...]:
    return (*truth.effects, *truth.above, *truth.lessons)


PARTS = ("pair", "tool", "global", "micro", "meso", "macro")
"""The three levels of claims, and the three of lessons."""


def part_of(level: str, features: Iterable[str]) -> str:
    """Which of ``PARTS`` a claim or an effect is of.

    >>> part_of("tool", ["mempool"]), part_of("tool", ["error_kind"])
    ('tool', 'meso')
    """
    lesson = {"pair": "micro", "tool": "meso", "global": "macro"}
    return lesson[level] if ERROR_KIND in features else level


def by_part(truth: Truth, report: Report) -> dict[str, Report]:
    """A report taken apart by ``PARTS``."""
    parts = {effect.id: part_of(effect.level, [carrier.feature for carrier in effect.carriers]) for effect in _all(truth)}

    def claims(verdicts: tuple[Verdict, ...], part: str) -> tuple[Verdict, ...]:
        claim = [(each, each.stated.claim) for each in verdicts]
        return tuple(each for each, one in claim if part_of(one.level, [condition.feature for condition in one.conditions]) == part)

    return {
        part: Report(
            **{
                name: tuple(effect for effect in getattr(report, name) if parts[effect] == part)
                for name in ("found", "missed", "noticed", "unnoticed")
            },
            planted_claims=claims(report.planted_claims, part),
            unplanted_claims=claims(report.unplanted_claims, part),
        )
        for part in PARTS
    }


def verdict(truth: Truth, stated: Stated) -> Verdict:
    """Whether one claim is planted, which effects it shows, and if not, why."""
    claim = stated.claim
    possible = [
        effect
        for effect in _all(truth)
        if effect.level == claim.level
        and effect.key == claim.key
        and claim.metric in effect.metrics
        and effect.overlaps(stated.first_ts, stated.last_ts)
    ]
    if not possible:
        return Verdict(stated, False, (), f"nothing moves {claim.metric} there at that time")
    agreeing: list[str] = []
    opposed = False
    for feature in dict.fromkeys(condition.feature for condition in claim.conditions):
        conditions = [condition for condition in claim.conditions if condition.feature == feature]
        ways = {effect.id: _ways(effect, conditions) for effect in possible}
        if not any(ways.values()):
            return Verdict(stated, False, (), f"{feature} does not move {claim.metric}")
        matching = [effect for effect, way in ways.items() if claim.direction in way]
        agreeing += matching
        opposed |= not matching
    if not agreeing:
        return Verdict(stated, False, (), f"the effect is there, but not {claim.direction}")
    return Verdict(stated, True, tuple(dict.fromkeys(agreeing)), "conditions pull in opposite directions" if opposed else "")


def _ways(effect: Effect, conditions: list[Condition]) -> frozenset[str]:
    """The directions in which the effect can move its metric where the conditions, all on one feature, hold."""
    carrier = effect.carrier(conditions[0].feature)
    if carrier is None:
        return frozenset()
    if carrier.levels is not None:
        difference = _by_levels(carrier.levels, conditions)
        return frozenset() if not difference else frozenset({"higher" if difference > 0 else "lower"})
    # A band of a monotone feature has less on one side and more on the other: which of them weighs more, the truth does not say.
    signs = {(carrier.sign or 0) * (1 if condition.op == ">=" else -1) for condition in conditions if condition.op != "=="}
    return frozenset("higher" if sign > 0 else "lower" for sign in signs)


def _by_levels(levels: dict[str, float], conditions: list[Condition]) -> float:
    inside = [level for value, level in levels.items() if all(_holds(condition, value) for condition in conditions)]
    outside = [level for value, level in levels.items() if not all(_holds(condition, value) for condition in conditions)]
    return fmean(inside) - fmean(outside) if inside and outside else 0.0


def _holds(condition: Condition, value: str) -> bool:
    cell: str | float = value if isinstance(condition.value, (bool, str)) else float(value)
    return condition.holds({condition.feature: cell})


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {
        "claim": verdict.stated.claim.model_dump(mode="json"),
        "text": verdict.stated.text,
        "effects": list(verdict.effects),
        "why": verdict.why,
    }
