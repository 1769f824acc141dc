"""A choice between a caller's options, moved by what insights say of the difference between them (law 8).

The caller lists what may be chosen, its default first: nothing else can come out, whatever is remembered. An option says which
features it would set and what it is known to cost anyway. Insights add what they claim: where all conditions of one hold for an
option, and at least one of them is about a feature that the options set, the difference ``inside − outside`` of its evidence,
times its confidence, times what a unit of its metric is worth. Of several insights about one metric the one that says most counts,
not their sum: "router alpha is dear" and "large orders at router alpha are dear" are one thing said twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.episodes import FeatureCell
from schemas.insights import Insight


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that may be chosen. ``sets`` are the features that it would have, ``cost`` what it is known to cost without memory,
    in the unit of the terms."""

    name: str
    sets: Mapping[str, FeatureCell] = field(default_factory=dict)
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen. ``gain`` is by how much it is expected to be cheaper than the default, ``because`` the insights that say so;
    none, where it is the default."""

    option: Option
    gain: float = 0.0
    because: tuple[str, ...] = ()


def choose(
    options: Sequence[Option],
    worth: Mapping[str, float],
    insights: Iterable[Insight],
    features: Mapping[str, FeatureCell],
    *,
    least_gain: float = 0.0,
) -> Choice:
    """The cheapest option, the first one unless another is cheaper by more than ``least_gain``; of equals the earlier one.

    Args:
        options: what may be chosen, the default first.
        worth: what one unit of a metric costs; metrics that are not named have no say.
        insights: what is believed. Those without evidence or confidence have no say.
        features: what is known before the decision, whatever is chosen.
        least_gain: what a change has to bring at least.

    Raises:
        ValueError: there are no options.
    """
    if not options:
        raise ValueError("nothing to choose from: give at least the default")
    named = {feature for option in options for feature in option.sets}
    believed = [insight for insight in insights if _speaks(insight, worth, named)]
    first, *others = [
        (option.cost + said, option, because) for option, (said, because) in _weighed(options, worth, believed, features)
    ]
    best = min(others, key=lambda one: one[0], default=first)
    gain = first[0] - best[0]
    if not math.isfinite(gain) or gain <= least_gain:
        return Choice(first[1])
    return Choice(best[1], gain, tuple(dict.fromkeys((*best[2], *first[2]))))


def _speaks(insight: Insight, worth: Mapping[str, float], named: set[str]) -> bool:
    claim = insight.claim
    if claim is None or insight.evidence is None or insight.confidence <= 0 or claim.metric not in worth:
        return False
    return any(condition.feature in named for condition in claim.conditions)


def _weighed(
    options: Sequence[Option], worth: Mapping[str, float], insights: Sequence[Insight], features: Mapping[str, FeatureCell]
) -> Iterable[tuple[Option, tuple[float, tuple[str, ...]]]]:
    for option in options:
        known = {**features, **option.sets}
        most: dict[str, tuple[float, str]] = {}
        for insight in insights:
            claim, evidence = insight.claim, insight.evidence
            if claim is None or evidence is None or not all(condition.holds(known) for condition in claim.conditions):
                continue
            said = float(insight.confidence) * (evidence.inside - evidence.outside) * worth[claim.metric]
            if claim.metric not in most or abs(said) > abs(most[claim.metric][0]):
                most[claim.metric] = (said, insight.id)
        yield option, (sum(said for said, _ in most.values()), tuple(name for _, name in most.values()))
