"""A claim in a sentence, and the check that the sentence says no number that its evidence does not (law 7)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from schemas.claims import Claim, Condition, Evidence
from workers.metrics import METRICS, Metric
from workers.wording import SIMULATED, number, quoted

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PLAIN = re.compile(r"[\w.\-]{1,64}\Z")
_SHOWN_DIGITS = 4
_SPOKEN = {"hour": "hour (UTC)"}


def sentence(claim: Claim, evidence: Evidence, label: str, *, simulated: bool = False) -> str:
    """What holds, where, by how much, on how many episodes.

    ``label`` names the group of episodes for people. Raises KeyError for a metric that is not in ``METRICS``.
    """
    metric = METRICS[claim.metric]
    verdict = "worse" if claim.direction == metric.worse else "better"
    head = f"{label}: {metric.phrase} is {claim.direction} ({verdict}) when {conditions(claim.conditions)}: "
    levels = (
        f"{_kind_of_level(metric, evidence)}{_level(evidence.inside, metric)} there "
        f"against {_level(evidence.outside, metric)} otherwise"
    )
    name = "risk difference" if evidence.kind == "risk_difference" else "Cliff's delta"
    effect = f"{name} {_signed(evidence.effect)}, interval {_signed(evidence.low)} to {_signed(evidence.high)}"
    counts = f"n = {evidence.n_inside} there, {evidence.n_outside} otherwise{within(evidence)}"
    return f"{SIMULATED + ' ' if simulated else ''}{head}{levels} ({effect}; {counts})."


def within(evidence: Evidence) -> str:
    """Over how many pairs a claim above the pair stands; empty at pair level."""
    spread = evidence.spread
    if spread is None:
        return ""
    tools = f"{spread.tools_shown} of {spread.tools} tools and " if spread.tools > 1 else ""
    return f"; within pairs, shown in {tools}{spread.pairs_shown} of {spread.pairs} pairs"


def conditions(parts: Sequence[Condition]) -> str:
    """Conditions as people say them; two on one number are an interval.

    >>> conditions([Condition(feature="hour", op=">=", value=13.0), Condition(feature="hour", op="<", value=17.0)])
    'hour (UTC) is from 13 to under 17'
    """
    from_, under = (next((part for part in parts if part.op == op), None) for op in (">=", "<"))
    if from_ is not None and under is not None and from_.feature == under.feature:
        return f"{_spoken(from_.feature)} is from {_value(from_)} to under {_value(under)}"
    return " and ".join(_condition(part) for part in sorted(parts, key=lambda part: part.slot))


def _condition(part: Condition) -> str:
    phrase = {">=": "is at least", "<": "is under", "==": "is"}[part.op]
    return f"{_spoken(part.feature)} {phrase} {_value(part)}"


def _spoken(feature: str) -> str:
    return _SPOKEN.get(feature, feature.replace("_", " "))


def _value(part: Condition) -> str:
    if isinstance(part.value, bool):
        return "true" if part.value else "false"
    if isinstance(part.value, str):  # a producer's words: quoted unless they are plainly a name
        return part.value if _PLAIN.match(part.value) else quoted(part.value)
    return number(part.value)


def _kind_of_level(metric: Metric, evidence: Evidence) -> str:
    if evidence.spread is not None:
        return "on average over pairs " if metric.binary else "median, averaged over pairs, "
    return "" if metric.binary else "median "


def _level(value: float, metric: Metric) -> str:
    if metric.binary:
        return f"{_shown(100.0 * value)} %"
    unit = {"native": "of the native coin", "reward": ""}.get(metric.unit, metric.unit)
    return f"{_shown(value)} {unit}".strip()


def _shown(value: float) -> str:
    return number(float(f"{value:.{_SHOWN_DIGITS}g}"))


def _signed(value: float) -> str:
    return number(float(f"{value:.2f}"))


def numbers_in(text: str) -> list[Decimal]:
    """Every number in a text that stands for itself; digits inside a name (``v3``, ``vol_24h``) are none.

    >>> [str(one) for one in numbers_in("uniswap_v3: from 13 to 17.5, -0.25 of 1e3")]
    ['13', '17.5', '-0.25', '1E+3']
    """
    return [Decimal(found.replace("−", "-")) for found in _NUMBER.findall(text)]


def supported(text: str, claim: Claim, evidence: Evidence, label: str) -> bool:
    """Whether every number in a text is the claim's or the evidence's own, or one of them rounded as the sentence rounds.

    The label and the claim's names are taken out first: digits in them are names.
    """
    names = [label, METRICS[claim.metric].phrase, claim.metric]
    for part in claim.conditions:
        names += [part.feature, _spoken(part.feature)]
        if isinstance(part.value, str):
            names.append(_value(part))
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", text)
    known = _numbers_of(claim, evidence)
    return all(any(_rounds_to(value, float(shown)) for value in known) for shown in numbers_in(text))


def _numbers_of(claim: Claim, evidence: Evidence) -> list[float]:
    numbers = [evidence.effect, evidence.low, evidence.high, evidence.inside, evidence.outside, evidence.p, evidence.q]
    numbers += [float(evidence.n_inside), float(evidence.n_outside), float(evidence.n)]
    if evidence.kind != "cliffs_delta":
        numbers += [100.0 * evidence.inside, 100.0 * evidence.outside]
    if evidence.kind == "rate":
        numbers += [100.0 * evidence.low, 100.0 * evidence.high]
    if evidence.spread is not None:
        spread = evidence.spread
        numbers += [float(n) for n in (spread.pairs, spread.pairs_shown, spread.tools, spread.tools_shown)]
    if evidence.kinds is not None:
        numbers += [float(n) for n in (*evidence.kinds.values(), sum(evidence.kinds.values()))]
    return numbers + [part.value for part in claim.conditions if isinstance(part.value, float) and not isinstance(part.value, bool)]


def _rounds_to(value: float, shown: float) -> bool:
    """As levels are rounded (four digits), as effects are (two places; they lie within ±1), or exactly."""
    if value == shown or (abs(value) <= 1.0 and float(f"{value:.2f}") == shown):
        return True
    return any(float(f"{value:.{digits}g}") == shown for digits in (_SHOWN_DIGITS, 6))
