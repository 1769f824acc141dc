"""Learned ranking: which of the memories that were handed out get used, by logistic regression over five features.

A *use* tells which memories an agent was shown and which it then used. Each shown memory is one example: its importance, recency,
frequency and confidence when it was shown, a constant, and whether it was used. The regression is river's, learned in the order of
event time by stochastic gradient descent, so the same uses give the same weights, whatever machine or order they came in.

Learned weights must earn their place. The latest third of the uses is held out: weights learned on the earlier ones reorder each
held-out use's list as they would have, and the share of (used, not used) pairs in the right order is compared with that of the list
as it was, use by use, by Wilcoxon's signed-rank test. Only where it is better, and not by chance, does the ranker take part in
recall; else it is off and says why. Uses whose memories were all used, or none, teach the weights but cannot judge them.

A cause for care: agents tend to use what stands first, so what was shown first is favoured in what is learned, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.metrics import rounded

FEATURES = ("importance", "recency", "frequency", "confidence", "bias")
SIGNIFICANCE = 0.05
HELD_OUT = 1 / 3
OFTEN = 20
"""Uses within the window at which frequency reaches 1."""
MOST_USES = 5_000
"""The latest uses of the window that are learned from."""


@dataclass(frozen=True, slots=True)
class RankerSettings:
    """The specification's numbers: a training every so many uses, the rate of learning, how much the learned score weighs, the
    fewest samples, and how many days of uses count."""

    train_every: int = 50
    rate: float = 0.05
    blend: float = 0.35
    min_samples: int = 10
    window_days: int = 30


@dataclass(frozen=True, slots=True)
class Features:
    """What the ranker sees of a memory at a moment; each 0 … 1."""

    importance: float
    recency: float
    frequency: float
    confidence: float

    def row(self) -> dict[str, float]:
        """By name, with the constant."""
        return dict(zip(FEATURES, (self.importance, self.recency, self.frequency, self.confidence, 1.0), strict=True))


@dataclass(frozen=True, slots=True)
class Shown:
    """A memory that was handed out: the score it had without the ranker, and whether it was used."""

    features: Features
    score: float
    used: bool


@dataclass(frozen=True, slots=True)
class Use:
    """One answer of the memory and what became of it."""

    use_id: str
    ts: datetime
    shown: tuple[Shown, ...]

    @property
    def tells(self) -> bool:
        """Whether something was used and something not."""
        return len({one.used for one in self.shown}) == 2


@dataclass(frozen=True, slots=True)
class Held:
    """The trial on held-out uses: how many, the share of pairs in the right order without and with the ranker, and the probability
    of so good a result by chance (one-sided)."""

    uses: int
    without: float
    with_ranker: float
    p: float


@dataclass(frozen=True, slots=True)
class Learned:
    """The ranker's state. ``weights`` by feature, None while there are too few samples; ``active`` and ``why`` say whether it takes
    part in recall. ``uses`` were learned from, ``samples`` are their examples."""

    active: bool
    why: str
    weights: Mapping[str, float] | None = None
    uses: int = 0
    samples: int = 0
    held: Held | None = None
    until: datetime | None = None

    def chance(self, features: Features) -> float:
        """How likely a memory with these features is used, 0 … 1."""
        weights = self.weights or {}
        total = sum(weights.get(name, 0.0) * value for name, value in features.row().items())
        return 1.0 / (1.0 + math.exp(-min(max(total, -60.0), 60.0)))


def frequency(uses: int) -> float:
    """How often a memory was used within the window, 0 … 1: by logarithm, for the second use says more than the twentieth.

    >>> frequency(0), frequency(20), frequency(500)
    (0.0, 1.0, 1.0)
    """
    return min(1.0, math.log1p(uses) / math.log1p(OFTEN))


def blended(score: float, chance: float, blend: float) -> float:
    """A score with the learned one mixed in. Multiplied, so that what does not bear on the question stays where it is.

    >>> blended(1.0, 1.0, 0.35), round(blended(1.0, 0.0, 0.35), 2), blended(0.0, 1.0, 0.35)
    (1.0, 0.65, 0.0)
    """
    return score * (1.0 - blend + blend * chance)


def taught(total: int, reset: int, forced: Sequence[int], every: int) -> tuple[int, int]:
    """Which of the uses, sorted by time, have been learned from: from the first index until the second, exclusive.

    ``reset`` uses came before the last reset and count no more; each of ``forced`` says how many there were when a training was
    asked for since. Else every ``every``-th use brings in those before it.

    >>> taught(11, 0, [], 5), taught(11, 0, [8], 5), taught(14, 0, [13], 5), taught(11, 3, [], 5)
    ((0, 10), (0, 10), (0, 13), (3, 8))
    """
    return reset, max(reset + (total - reset) // every * every, *forced, reset)


def learn(uses: Sequence[Use], settings: RankerSettings = RankerSettings()) -> Learned:
    """Learn from uses, sorted by time, and try the result on those held out."""
    if not uses:
        return Learned(False, "nothing was reported as used yet")
    since = uses[-1].ts - timedelta(days=settings.window_days)
    recent = [one for one in uses if one.ts > since][-MOST_USES:]
    samples = sum(len(one.shown) for one in recent)
    if len(recent) < settings.min_samples:
        return Learned(False, f"{len(recent)} uses are too few; it needs {settings.min_samples}", None, len(recent), samples)
    weights = _weights(recent, settings.rate)
    held = _tried(recent, settings)
    active, why = _verdict(held)
    return Learned(active, why, weights, len(recent), samples, held, recent[-1].ts)


def _weights(uses: Sequence[Use], rate: float) -> dict[str, float]:
    from river.linear_model import LogisticRegression
    from river.optim import SGD

    model = LogisticRegression(optimizer=SGD(rate), intercept_lr=0.0)  # the constant is a feature of its own
    for use in uses:
        for one in use.shown:
            model.learn_one(one.features.row(), one.used)
    return {name: rounded(float(model.weights.get(name, 0.0))) for name in FEATURES}


def _tried(uses: Sequence[Use], settings: RankerSettings) -> Held | None:
    first = len(uses) - round(len(uses) * HELD_OUT)
    held = [one for one in uses[first:] if one.tells]
    if not held or not first:
        return None
    earlier = Learned(True, "", _weights(uses[:first], settings.rate))
    before = [_in_order(one, [shown.score for shown in one.shown]) for one in held]
    after = [
        _in_order(one, [blended(shown.score, earlier.chance(shown.features), settings.blend) for shown in one.shown])
        for one in held
    ]
    gains = [round(new - old, 9) for new, old in zip(after, before, strict=True)]
    return Held(len(held), rounded(sum(before) / len(held)), rounded(sum(after) / len(held)), rounded(_by_chance(gains)))


def _in_order(use: Use, scores: Sequence[float]) -> float:
    """The share of (used, not used) pairs whose used one has the higher score; equal ones count half."""
    used = [score for score, one in zip(scores, use.shown, strict=True) if one.used]
    other = [score for score, one in zip(scores, use.shown, strict=True) if not one.used]
    won = sum((high > low) + 0.5 * (high == low) for high in used for low in other)
    return won / (len(used) * len(other))


def _by_chance(gains: Sequence[float]) -> float:
    """Wilcoxon's signed-rank test, one-sided; 1 where nothing changed at all."""
    moved = [gain for gain in gains if gain]
    if not moved:
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(moved, alternative="greater").pvalue)


def _verdict(held: Held | None) -> tuple[bool, str]:
    if held is None:
        return False, "no held-out use tells what was used and what not, so it cannot be tried"
    compared = f"{held.with_ranker:.3f} of pairs in order with it, {held.without:.3f} without, {held.uses} held-out uses"
    if held.with_ranker <= held.without:
        return False, f"no better: {compared}"
    if held.p >= SIGNIFICANCE:
        return False, f"may be chance (p = {held.p:.3f}): {compared}"
    return True, f"better (p = {held.p:.3g}): {compared}"
