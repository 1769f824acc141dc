"""When two statements cannot both hold, and which of them then gives way. Pure, and never by cosine alone.

**Claims** are compared by their algebra. A claim says that a metric is higher (or lower) where its conditions hold. Turning a
single condition around turns the direction: "higher from 0.01 up" *is* "lower under 0.01", so a claim with one threshold, or one
yes/no feature, has a normal form. Two claims of one group and metric whose normal forms have the same condition are the same claim,
or opposite ones. (With the condition written the same way round they have one id, and the miner's own verdicts turn it; what is
found here are the others.) Claims of different groups never contradict: a pool may differ from all pools.

**Sentences** contradict each other in three ways, and mentioning the same thing is none of them:

- the same sentence with the opposite side or the opposite polarity (with both it may say the same again: "not above", "below");
- the same sentence with another measured value: a new value for the same fact;
- the same thing owned in one and gone in the other, by the same author ("owns 500 ARB", "sold all ARB"), where neither says
  something of its own that would set the two apart, and what was sold is not less than what was owned.

**Resolution.** Evidence first, then recency. A claim whose latest evidence speaks against it gives way. Else the later evidence
wins, unless it is on less than half as many episodes and does not clear the practical floor by itself. A note gives way to a later
one, unless at least ``STEADY`` others confirmed it: then both stay, contested, until the newer one is confirmed as often.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from schemas.claims import Claim, Condition
from schemas.insights import Insight
from workers.channels import of_evidence
from workers.values import Values, differences

STEADY = 3
"""Others who confirmed it, from which on a note does not give way to a single contrary word; its author saying it again is none."""
NEAR_BY = 0.25
"""Thresholds within this share of each other are about the same condition."""
_OWNED = frozenset("own owns hold holds holding bought keep keeps".split())  # noqa: SIM905
_GONE = frozenset("sold exited closed disposed liquidated".split())  # noqa: SIM905


class Relation(StrEnum):
    """What one statement is to another."""

    SAME = "same"
    OPPOSITE = "opposite"
    NEW_VALUE = "new value"
    GONE = "gone"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which of two contrary insights holds, which gives way, and why."""

    holds: Insight
    gives_way: Insight
    why: str


def claims(one: Claim, other: Claim) -> Relation:
    """How two claims stand to each other: ``SAME``, ``OPPOSITE`` or ``OTHER``."""
    if (one.level, one.key, one.metric) != (other.level, other.key, other.metric) or len(one.conditions) != len(other.conditions):
        return Relation.OTHER
    mine, theirs = normal(one), normal(other)
    if [_slot(condition) for condition in mine[0]] != [_slot(condition) for condition in theirs[0]]:
        return Relation.OTHER
    pairs = list(zip(mine[0], theirs[0], strict=True))
    if mine[1] == theirs[1]:
        return Relation.SAME if all(a.value == b.value for a, b in pairs) else Relation.OTHER
    return Relation.OPPOSITE if all(_near(a, b) for a, b in pairs) else Relation.OTHER


def sentences(said: Values, known: Values, *, same_author: bool) -> Relation:
    """How two sentences about one subject stand to each other; ``OTHER`` where nothing follows."""
    unequal = differences(said, known)
    if said.frame == known.frame:
        if unequal == {"polarity"} or (unequal == {"side"} and _axes(said) == _axes(known)):
            return Relation.OPPOSITE
        if unequal == {"measures"}:
            return Relation.NEW_VALUE
    return Relation.GONE if same_author and _owned_and_gone(said, known) else Relation.OTHER


def resolve(one: Insight, other: Insight) -> Resolution:
    """Of two insights with opposite claims, the one that holds."""
    for first, second in ((one, other), (other, one)):
        if _refuted(first) and not _refuted(second):
            return Resolution(second, first, "its latest evidence speaks against it")
    later, earlier = sorted((one, other), key=lambda insight: (_last(insight), insight.id), reverse=True)
    few = 2 * _n(later) < _n(earlier)
    if few and _pessimistic(later) <= 0.5 and _pessimistic(earlier) > 0.5:
        return Resolution(earlier, later, f"{_n(later)} later episodes, which do not clear the floor, against {_n(earlier)}")
    return Resolution(later, earlier, f"the later evidence holds: {_n(later)} episodes against {_n(earlier)}")


def steady(insight: Insight) -> bool:
    """Whether so many others confirmed a note that it does not give way to a single contrary word."""
    return insight.note is not None and len(insight.note.confirmed_by) >= STEADY


def normal(claim: Claim) -> tuple[tuple[Condition, ...], Literal["higher", "lower"]]:
    """The conditions and direction of a claim's normal form: a single condition stands as ``>=`` or ``== True``."""
    if len(claim.conditions) == 1:
        (condition,) = claim.conditions
        turned: Literal["higher", "lower"] = "lower" if claim.direction == "higher" else "higher"
        if condition.op == "<":
            return (condition.model_copy(update={"op": ">="}),), turned
        if condition.op == "==" and condition.value is False:
            return (condition.model_copy(update={"value": True}),), turned
    return tuple(sorted(claim.conditions, key=lambda condition: condition.slot)), claim.direction


def _slot(condition: Condition) -> str:
    return condition.slot


def _near(one: Condition, other: Condition) -> bool:
    if one.op == "==" or isinstance(one.value, (bool, str)) or isinstance(other.value, (bool, str)):
        return one.value == other.value
    return abs(one.value - other.value) <= NEAR_BY * max(abs(one.value), abs(other.value))


def _axes(said: Values) -> list[str]:
    return sorted(axis for axis, _ in said.sides)


def _owned_and_gone(said: Values, known: Values) -> bool:
    if said.negated or known.negated:
        return False
    gone, owned = (said, known) if _GONE & set(said.words) else (known, said)
    if not _GONE & set(gone.words) or not _OWNED & set(owned.words) or _GONE & set(owned.words):
        return False
    same = ("things", "identifiers", "chains")
    if not (gone.things or gone.identifiers) or any(getattr(gone, name) != getattr(owned, name) for name in same):
        return False
    mine, theirs = set(gone.content), set(owned.content)
    if (mine - theirs - _GONE - {"all", "everything", "entire"}) and (theirs - mine - _OWNED):
        return False
    sold, had = _amounts(gone), _amounts(owned)
    return not sold or (len(sold) == len(had) == 1 and sold[0] >= had[0])


def _amounts(said: Values) -> list[Decimal]:
    return [*said.bare, *(value for unit, found in said.measures if unit not in ("s", "min", "h", "d") for value in found)]


def _sign(insight: Insight) -> int:
    return 1 if insight.claim is None or insight.claim.direction == "higher" else -1


def _refuted(insight: Insight) -> bool:
    evidence = insight.latest or insight.evidence
    return evidence is not None and max(_sign(insight) * evidence.low, _sign(insight) * evidence.high) < 0


def _pessimistic(insight: Insight) -> float:
    evidence = insight.latest or insight.evidence
    return 0.0 if evidence is None else of_evidence(evidence, _sign(insight)).pessimistic


def _last(insight: Insight) -> float:
    evidence = insight.latest or insight.evidence
    return (insight.validated_ts if evidence is None else evidence.last_ts).timestamp()


def _n(insight: Insight) -> int:
    evidence = insight.latest or insight.evidence
    return 0 if evidence is None else evidence.n
