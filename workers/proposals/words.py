"""Better words for a claim, and a lesson from it: what they must say, and what they must not.

A sentence may be nicer than the one made by rule. It may not say more, less or the opposite. Whether it says the same is not left
to likeness: it must name the metric, every feature and every category of the claim, every threshold with the right comparison, the
direction, and no number that the evidence does not hold. What is not understood is refused, and the sentence made by rule stays.

A lesson says what to do. What is worth doing follows from the direction: where the metric is worse inside the conditions they are
to be avoided, else preferred, so a lesson begins with that word. It may speak of nothing that memory cannot touch (law 8).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from schemas.claims import Claim, Condition, Evidence
from workers.metrics import METRICS, Metric
from workers.proposals.numbers import Known, Unit, Unreadable, borne_out, read, unsupported

SHORTEST, LONGEST = 20, 400
LONGEST_LESSON = 240

_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_MARKUP = re.compile(r"https?:|www\.|0x[0-9a-fA-F]{6,}|[`<>{}|\\]|\[|\]|\*\*")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|unless|except|hardly|cannot|isn|doesn|don|won)\b|n['\u2019]t\b", re.I
)
_AT_LEAST = re.compile(r"\b(?:at least|or more|or above|or higher|no less than|from|starting at)\b|[≥]", re.I)
_UNDER = re.compile(r"\b(?:under|below|less than|smaller than|up to|before)\b", re.I)
_FORBIDDEN = re.compile(
    r"\b(?:limits?|allow-?\s?lists?|white-?lists?|deny-?\s?lists?|caps?|capped|simulat\w*|breakers?|kill switch|approv\w*"
    r"|allowances?|private keys?|seed phrases?|mnemonics?|safety|guards?|checks?|bypass\w*|disabl\w*|overrid\w*|ignor\w*"
    r"|unlimited|all funds|instructions?|system prompt|max(?:imum)? slippage)\b",
    re.I,
)
_SHARES = ("share", "rate", "ratio", "fraction", "utilization", "imbalance", "percent")
_IDLE = frozenset({"the", "against", "total", "price", "in", "of", "bps", "native", "usd", "gwei", "range"})


@dataclass(frozen=True, slots=True)
class Refused:
    """Why words were not taken: a stable code and what it was about."""

    reason: str
    detail: str = ""


def refuse_words(text: str, claim: Claim, evidence: Evidence, label: str) -> Refused | None:
    """Why a sentence may not stand for a claim; None where it may."""
    return (
        _form(text, LONGEST)
        or _numbers(text, claim, evidence, label)
        or _subject(text, claim)
        or _conditions(text, claim, label)
        or _direction(text, claim, evidence)
    )


def refuse_lesson(text: str, claim: Claim, evidence: Evidence, label: str) -> Refused | None:
    """Why a lesson may not stand beside a claim; None where it may."""
    formed = _form(text, LONGEST_LESSON)
    if formed is not None:
        return formed
    touched = _FORBIDDEN.search(text)
    if touched is not None:
        return Refused("touches_protection", f"a lesson may not speak of {touched[0]!r}")
    wanted, other = ("avoid", "prefer") if claim.direction == METRICS[claim.metric].worse else ("prefer", "avoid")
    if not re.match(rf"{wanted}\b", text, re.I) or re.search(rf"\b{other}", text, re.I):
        return Refused("wrong_advice", f"the evidence says to {wanted} it: a lesson begins with that word")
    if _NEGATION.search(text):
        return Refused("negation", "a lesson says what to do in plain words")
    return _numbers(text, claim, evidence, label) or _conditions(text, claim, label)


def known_numbers(claim: Claim, evidence: Evidence) -> list[Known]:
    """Every number that words about a claim may contain, with its unit."""
    level: Unit = "rate" if METRICS[claim.metric].binary else "bps" if evidence.unit == "bps" else "plain"
    effect: Unit = "rate" if evidence.kind == "risk_difference" else "plain"
    known = [Known(_exact(one), level) for one in (evidence.inside, evidence.outside)]
    known.append(Known(_exact(evidence.effect), effect, unsigned=True))
    known += [Known(_exact(one), effect) for one in (evidence.low, evidence.high)]
    known += [Known(_exact(one)) for one in (evidence.p, evidence.q)]
    known += [Known(Decimal(one)) for one in (evidence.n_inside, evidence.n_outside, evidence.n)]
    known.append(Known(Decimal(95), "plain"))  # the interval is always that of 95 %
    known.append(Known(Decimal("0.95"), "rate"))
    known += [Known(Decimal(part.value)) for part in claim.conditions if isinstance(part.value, str) and part.value.isdecimal()]
    return known + [Known(_exact(part.value), _unit_of(part)) for part in claim.conditions if _is_number(part)]


def _form(text: str, longest: int) -> Refused | None:
    if not SHORTEST <= len(text) <= longest:
        return Refused("length", f"{len(text)} characters; {SHORTEST} to {longest} are taken")
    if text != text.strip() or any(unicodedata.category(one) in _HIDDEN for one in text):
        return Refused("form", "one line of visible characters")
    if _MARKUP.search(text):
        return Refused("form", "no links, addresses, code or markup")
    letters = [one for one in text if one.isalpha()]
    if not letters or sum(one.isascii() for one in letters) < 0.9 * len(letters):
        return Refused("form", "Latin letters only, so that look-alikes do not pass")
    return None


def _numbers(text: str, claim: Claim, evidence: Evidence, label: str) -> Refused | None:
    found = unsupported(text, known_numbers(claim, evidence), _names(claim, label))
    return Refused("number_not_in_evidence", ", ".join(found)[:200]) if found else None


def _names(claim: Claim, label: str) -> list[str]:
    names = [label, claim.metric, METRICS[claim.metric].phrase, "UTC"]
    for part in claim.conditions:
        names += [part.feature, part.feature.replace("_", " ")]
        if isinstance(part.value, str):
            names.append(part.value)
    return names


def _subject(text: str, claim: Claim) -> Refused | None:
    metric = METRICS[claim.metric]
    lowered = text.lower()
    if not any(re.search(rf"\b{re.escape(word)}", lowered) for word in _telling(metric)):
        return Refused("metric_not_named", f"it does not say that this is about {metric.phrase}")
    return None


def _telling(metric: Metric) -> set[str]:
    """Words of which one must be there for the metric to be named: the telling ones of its phrase, by their beginnings."""
    words = {word.lower() for word in (*metric.phrase.split(), *metric.name.split("_"))} - _IDLE
    return {word[:6] for word in words if len(word) > 2 and word.isalpha()}


def _conditions(text: str, claim: Claim, label: str) -> Refused | None:
    lowered = text.lower()
    for part in claim.conditions:
        if part.feature not in lowered and part.feature.replace("_", " ") not in lowered:
            return Refused("condition_not_named", f"it does not name {part.feature}")
        if isinstance(part.value, bool):
            wanted = "true" if part.value else "false"
            if not re.search(rf"\b{wanted}\b", lowered) or re.search(rf"\b{'false' if part.value else 'true'}\b", lowered):
                return Refused("condition_not_named", f"it does not say that {part.feature} is {wanted}")
        elif isinstance(part.value, str) and part.value.lower() not in lowered:
            return Refused("condition_not_named", f"it does not name {part.value!r}")
        elif _is_number(part) and not _names_number(text, part, _names(claim, label)):
            return Refused("condition_not_named", f"it does not name the threshold of {part.feature}")
    return _comparisons(text, claim.conditions)


def _comparisons(text: str, conditions: Sequence[Condition]) -> Refused | None:
    ops = {part.op for part in conditions if _is_number(part)}
    for op, words in ((">=", _AT_LEAST), ("<", _UNDER)):
        if (op in ops) != bool(words.search(text)):
            return Refused("comparison", f"it says {'nothing' if op in ops else 'something'} of a side {op!r}")
    return None


def _direction(text: str, claim: Claim, evidence: Evidence) -> Refused | None:
    metric = METRICS[claim.metric]
    other = "lower" if claim.direction == "higher" else "higher"
    # "or higher" is a comparison, not what is claimed
    plain = re.sub(r"\bor higher\b", " ", text, flags=re.I)
    if not re.search(rf"\b{claim.direction}\b", plain, re.I) or re.search(rf"\b{other}\b", plain, re.I):
        return Refused("direction", f"it does not say {claim.direction}, or says {other}, too")
    wrong = "better" if claim.direction == metric.worse else "worse"
    if re.search(rf"\b{wrong}\b", text, re.I):
        return Refused("direction", f"that is not {wrong}")
    if _NEGATION.search(text):
        return Refused("negation", "a claim is said without negation")
    if evidence.effect == 0:
        return Refused("direction", "there is no effect to speak of")
    return None


def _names_number(text: str, part: Condition, names: Sequence[str]) -> bool:
    """Whether the threshold stands in the text."""
    try:
        return any(borne_out(one, [Known(_exact(part.value), _unit_of(part))]) for one in read(text, names))
    except Unreadable:
        return False


def _unit_of(part: Condition) -> Unit:
    if part.feature.endswith("bps"):
        return "bps"
    return "share" if any(word in part.feature for word in _SHARES) else "plain"


def _is_number(part: Condition) -> bool:
    return isinstance(part.value, (int, float)) and not isinstance(part.value, bool)


def _exact(value: float | bool | str) -> Decimal:
    return Decimal(repr(float(value))) if not isinstance(value, str) else Decimal(0)
