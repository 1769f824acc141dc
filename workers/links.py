"""How two insights bear on each other, from what they claim and rest on: pure, the same on every machine, no model.

A cosine only says which pairs to look at (eight of 0.45 or more); a rule and its opposite stand at 0.97, so claims give the label:

============  =====================================================================================================
relation      when
============  =====================================================================================================
CONTRASTS     the same conditions, thresholds near by, and the opposite direction; or the narrower of two claims says
              the opposite of the wider one; or two sentences are the same but for their side, polarity or value
EXTENDS       the same direction, and its conditions or its group are narrower: it tells more of a part of the other
SUPPORTS      the same conditions and direction in another group, or other conditions seen on the same episodes
PREREQUISITE  its metric is what the other's conditions are about: to use that one, know this one
RELATED       none of these: strength is what episodes they share, or the cosine
============  =====================================================================================================

Claims are compared in the normal form of ``workers/contradiction.py``: "higher from 0.01 up" is "lower under 0.01". CONTRASTS and
RELATED hold both ways and are kept from the lesser id to the greater; SUPPORTS from the later insight to the earlier one.

The context note puts an insight beside what it is linked with. It quotes, so who forgets one of those takes the note away
(``OrganiseInsight.cites``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.claims import Claim, Condition
from schemas.identity import content_id
from schemas.insights import Insight
from schemas.operations import LinkInsights, OrganiseInsight, Relation
from stores.places import is_simulated
from workers.contradiction import NEAR_BY, normal, sentences
from workers.contradiction import Relation as Stand
from workers.keywords import keywords
from workers.metrics import rounded
from workers.values import values

CANDIDATES = 8
SIMILAR_FROM = 0.45
NOTE_FROM_LINKS = 2
NOTE_FROM_IMPORTANCE = 0.6
AUTHOR = "organiser"
_QUOTED = 4
_QUOTE = 160
_AWAY: Mapping[Relation, str] = {
    "CONTRASTS": "contrasts with", "EXTENDS": "extends", "SUPPORTS": "supports", "PREREQUISITE": "comes before",
    "RELATED": "is related to",
}  # fmt: skip
_TOWARDS: Mapping[Relation, str] = {
    "CONTRASTS": "contrasts with", "EXTENDS": "is extended by", "SUPPORTS": "is supported by", "PREREQUISITE": "comes after",
    "RELATED": "is related to",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """A link that follows from two insights, and from what."""

    source: str
    target: str
    relation: Relation
    strength: float
    why: str


def relate(one: Insight, other: Insight, cosine: float) -> Found | None:
    """How two insights bear on each other; None where nothing ties them and the cosine is under 0.45."""
    found = _by_claims(one, one.claim, other, other.claim) if one.claim and other.claim else _by_sentences(one, other)
    if found is not None:
        return found
    shared = _shared(one, other)
    strength = max(shared, cosine if cosine >= SIMILAR_FROM else 0.0)
    if strength <= 0.0:
        return None
    return _both_ways(one, other, "RELATED", strength, "they share episodes" if shared >= cosine else f"cosine {cosine:.2f}")


def basis(insight: Insight) -> str:
    """A name for all that links and keywords rest on: while it stays, there is nothing to organise."""
    claim = insight.claim.model_dump_json() if insight.claim else ""
    shared = insight.evidence.episode_ids if insight.evidence else ()
    return content_id("basis", insight.text, claim, insight.label, insight.importance, *sorted(shared))


def _state(insight: Insight) -> str:
    """A name for a state of an insight: one that goes back to what it once said is not in that state again, and what was recorded
    of it then does not count for now."""
    return f"{basis(insight)} {insight.edits}"


def link_operation(found: Found, one: Insight, other: Insight) -> LinkInsights:
    """The operation that records a link. Its id follows from both states, so finding it again from either end changes nothing."""
    states = sorted((_state(one), _state(other)))
    return LinkInsights(
        op_id=content_id("operation", "LINK", found.source, found.target, found.relation, found.strength, *states),
        insight_id=found.source,
        target_id=found.target,
        relation=found.relation,
        strength=found.strength,
        ts=max(one.validated_ts, other.validated_ts),
        author=AUTHOR,
        reason=found.why,
    )


def unlink_operation(source: str, target: str, one: Insight, other: Insight) -> LinkInsights:
    """The operation that takes a link away which does not follow any more."""
    states = sorted((_state(one), _state(other)))
    return LinkInsights(
        op_id=content_id("operation", "UNLINK", source, target, *states),
        insight_id=source,
        target_id=target,
        relation="RELATED",
        strength=0.0,
        removed=True,
        ts=max(one.validated_ts, other.validated_ts),
        author=AUTHOR,
        reason="it does not follow any more",
    )


def organise_operation(insight: Insight, links: Sequence[tuple[Found, Insight]]) -> OrganiseInsight:
    """The operation that records keywords and context note. ``links`` are all that the insight has, with the other ends."""
    note, cites = context_note(insight, links)
    told = keywords(insight)
    ends = sorted(f"{other.id} {other.edits}" for _, other in links)
    return OrganiseInsight(
        op_id=content_id("operation", "ORGANISE", insight.id, _state(insight), *told, note or "", *ends),
        insight_id=insight.id,
        ts=insight.validated_ts,
        author=AUTHOR,
        reason=f"{len(links)} links",
        basis=basis(insight),
        keywords=told,
        context_note=note,
        cites=cites,
    )


def context_note(insight: Insight, links: Sequence[tuple[Found, Insight]]) -> tuple[str | None, tuple[str, ...]]:
    """What an insight stands beside, the strongest links first, and whom that quotes; None for fewer than two, or what hardly
    matters."""
    if len(links) < NOTE_FROM_LINKS or insight.importance < NOTE_FROM_IMPORTANCE:
        return None, ()
    chosen = sorted(links, key=lambda link: (-link[0].strength, link[1].id))[:_QUOTED]
    parts = []
    for found, other in chosen:
        words = (_AWAY if found.source == insight.id else _TOWARDS)[found.relation]
        parts.append(f"{words} “{_cut(other.text)}”")
    more = f", and {len(links) - len(chosen)} more" if len(links) > len(chosen) else ""
    return f"It {'; '.join(parts)}{more}.", tuple(other.id for _, other in chosen)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE else f"{line[: _QUOTE - 1]}…"


# --- claims


def _by_claims(one: Insight, mine: Claim, other: Insight, theirs: Claim) -> Found | None:
    if mine.metric != theirs.metric:
        return _of_other_metrics(one, mine, other, theirs)
    (my_conditions, my_direction), (their_conditions, their_direction) = normal(mine), normal(theirs)
    agree = my_direction == their_direction
    inner, outer = _within(mine, theirs), _within(theirs, mine)
    if [condition.slot for condition in my_conditions] == [condition.slot for condition in their_conditions]:
        near = all(_near(a, b) for a, b in zip(my_conditions, their_conditions, strict=True))
        if not agree:
            return _both_ways(one, other, "CONTRASTS", 1.0 if inner or outer else 0.8, _WHY_OPPOSITE) if near else None
        if inner != outer:
            first, second = (one, other) if inner else (other, one)
            return _directed(first, second, "EXTENDS", 0.8, "the same conditions and direction, in a part of its group")
        if not inner:
            return _later(one, other, 0.8 if near else 0.6, "the same conditions and direction in another group")
    for first, second, conditions, wider, held in (
        (one, other, my_conditions, their_conditions, inner), (other, one, their_conditions, my_conditions, outer),
    ):  # fmt: skip
        if held and _implies(conditions, wider):
            share = len(wider) / len(conditions)
            if agree:
                return _directed(first, second, "EXTENDS", 0.5 + 0.4 * share, "the same direction under narrower conditions")
            return _both_ways(
                one, other, "CONTRASTS", 0.5 + 0.4 * share, "an exception: narrower conditions, the opposite direction"
            )
    shared = _shared(one, other)
    if agree and shared > 0.0:
        return _later(one, other, shared, "the same direction on the same episodes")
    return None


_WHY_OPPOSITE = "the same conditions and the opposite direction"


def _of_other_metrics(one: Insight, mine: Claim, other: Insight, theirs: Claim) -> Found | None:
    if mine.metric in {condition.feature for condition in theirs.conditions}:
        return _directed(one, other, "PREREQUISITE", 0.7, f"the other depends on {mine.metric}")
    if theirs.metric in {condition.feature for condition in mine.conditions}:
        return _directed(other, one, "PREREQUISITE", 0.7, f"the other depends on {theirs.metric}")
    same = {condition.slot for condition in mine.conditions} == {condition.slot for condition in theirs.conditions}
    if same and (_within(mine, theirs) or _within(theirs, mine)):
        return _both_ways(one, other, "RELATED", 0.7, "the same conditions move another metric")
    return None


def _within(inner: Claim, outer: Claim) -> bool:
    """Whether every episode of the one's group is in the other's. What was simulated is in no group of what is real."""
    if is_simulated(inner.key) != is_simulated(outer.key):
        return False
    if outer.level == "global":
        return True
    if outer.level == "tool":
        return inner.level != "global" and inner.key.split(":", 1)[0] == outer.key.split(":", 1)[0]
    return inner.level == "pair" and inner.key == outer.key


def _implies(narrow: Sequence[Condition], wide: Sequence[Condition]) -> bool:
    """Whether what meets all of ``narrow`` meets all of ``wide``, and they are not the same."""
    return list(narrow) != list(wide) and all(any(_stricter(one, of) for one in narrow) for of in wide)


def _stricter(one: Condition, of: Condition) -> bool:
    if (one.feature, one.op) != (of.feature, of.op):
        return False
    if one.op == "==" or isinstance(one.value, (bool, str)) or isinstance(of.value, (bool, str)):
        return one.value == of.value
    return one.value >= of.value if one.op == ">=" else one.value <= of.value


def _near(one: Condition, other: Condition) -> bool:
    if one.op == "==" or isinstance(one.value, (bool, str)) or isinstance(other.value, (bool, str)):
        return one.value == other.value
    return abs(one.value - other.value) <= NEAR_BY * max(abs(one.value), abs(other.value))


# --- sentences and evidence


def _by_sentences(one: Insight, other: Insight) -> Found | None:
    if one.key != other.key and "*" not in (one.key, other.key):
        return None
    stand = sentences(values(one.text), values(other.text), same_author=one.author == other.author)
    if stand is Stand.OTHER:
        return None
    return _both_ways(one, other, "CONTRASTS", 0.9, f"the same sentence: {stand.value}")


def _shared(one: Insight, other: Insight) -> float:
    """The share of the smaller sample of episodes that is in the other, 0 … 1."""
    mine = set(one.evidence.episode_ids) if one.evidence else set()
    theirs = set(other.evidence.episode_ids) if other.evidence else set()
    return len(mine & theirs) / min(len(mine), len(theirs)) if mine and theirs else 0.0


def _directed(source: Insight, target: Insight, relation: Relation, strength: float, why: str) -> Found:
    return Found(source.id, target.id, relation, rounded(min(1.0, max(0.0, strength))), why)


def _both_ways(one: Insight, other: Insight, relation: Relation, strength: float, why: str) -> Found:
    first, second = sorted((one, other), key=lambda insight: insight.id)
    return _directed(first, second, relation, strength, why)


def _later(one: Insight, other: Insight, strength: float, why: str) -> Found:
    earlier, later = sorted((one, other), key=lambda insight: (insight.created_ts, insight.id))
    return _directed(later, earlier, "SUPPORTS", strength, why)
