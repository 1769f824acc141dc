"""Three channels of confidence beside the scalar: what the evidence alone says, at the low end, the middle and the high end.

The scalar is the specification's: it counts votes, and ten upvotes of weak evidence make it 1. The channels look at the size of
the evidence instead, after the distributional code for value that the specification quotes (Dabney et al., Nature 577, 2020). They
move nothing: they are shown.

**A claim.** Its evidence is an effect e in (−1, 1) with a 95 % interval [l, h], turned so that the claim's direction is positive,
and a practical floor f (0.147 for Cliff's delta, 0.05 for a difference of rates). On Fisher's scale, z(x) = artanh x, the interval
is close to normal with σ = (z(h) − z(l)) / (2·1.96). The probability that the effect has the claimed sign *and* matters, were the
truth's centre at x, is Φ((z(x) − z(f)) / σ); the channels are that at x = l, e and h. So the pessimistic one is over 0.5 exactly
where the interval's near end clears the floor, which is what the miner asks for. More observations with the same effect raise all
three where the effect is over the floor, lower them where it is under, and bring them together either way.

**A note.** Nothing was measured, so what counts is who said it again and how it went: a Beta(1 + said, 1 + harmful) posterior of
"it serves", with *said* = its author's word, the others who confirmed it and the decisions that it helped. The channels are its
2.5 %, 50 % and 97.5 % quantiles.

**A directive** is an order, not a belief: 1, 1, 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betaincinv

from schemas.claims import Evidence
from schemas.insights import Insight

FLOORS = {"cliffs_delta": 0.147, "risk_difference": 0.05, "rate": 0.05}
"""The least effect that matters, as in the miner (``workers/distil/mine.py``)."""
_HALF_WIDTH = 1.959963984540054
_EDGE = 1e-9
_ENDS = (0.025, 0.5, 0.975)


@dataclass(frozen=True, slots=True)
class Channels:
    """Probabilities, in order: ``pessimistic`` ≤ ``median`` ≤ ``optimistic``."""

    pessimistic: float
    median: float
    optimistic: float

    def to_plain(self) -> dict[str, float]:
        """As JSON values, to four decimals."""
        return {name: round(getattr(self, name), 4) for name in ("pessimistic", "median", "optimistic")}


CERTAIN = Channels(1.0, 1.0, 1.0)


def channels(insight: Insight, helpful: int = 0, harmful: int = 0) -> Channels | None:
    """An insight's channels; None where it has neither evidence nor an author's word.

    A claim's latest evidence counts, for or against it. ``helpful`` and ``harmful`` are how decisions ended that used a note.
    """
    if insight.directive is not None:
        return CERTAIN
    evidence = insight.latest or insight.evidence
    if evidence is not None and insight.claim is not None:
        return of_evidence(evidence, 1 if insight.claim.direction == "higher" else -1)
    if insight.note is not None:
        return of_counts(1 + len(insight.note.confirmed_by) + helpful, harmful)
    return None


def of_evidence(evidence: Evidence, sign: int) -> Channels:
    """The channels of a claim whose direction is ``sign`` (+1: higher inside), by its evidence.

    >>> from datetime import UTC, datetime
    >>> seen = Evidence(kind="cliffs_delta", effect=0.4, low=0.3, high=0.5, n_inside=90, n_outside=90, inside=9.0, outside=5.0,
    ...     unit="bps", p=0.001, q=0.01, first_ts=datetime(2026, 1, 1, tzinfo=UTC), last_ts=datetime(2026, 1, 2, tzinfo=UTC))
    >>> of_evidence(seen, +1).to_plain()
    {'pessimistic': 0.9958, 'median': 1.0, 'optimistic': 1.0}
    >>> of_evidence(seen, -1).to_plain()
    {'pessimistic': 0.0, 'median': 0.0, 'optimistic': 0.0}
    """
    ends = sorted((sign * evidence.low, sign * evidence.high))
    low, middle, high = (_fisher(x) for x in (ends[0], min(ends[1], max(ends[0], sign * evidence.effect)), ends[1]))
    floor, sd = _fisher(FLOORS[evidence.kind]), max((high - low) / (2 * _HALF_WIDTH), _EDGE)
    return Channels(*(_normal((x - floor) / sd) for x in (low, middle, high)))


def of_counts(said: int, harmful: int) -> Channels:
    """The channels of a note by what speaks for and against it.

    >>> of_counts(1, 0).to_plain()
    {'pessimistic': 0.1581, 'median': 0.7071, 'optimistic': 0.9874}
    """
    return Channels(*(float(betaincinv(1 + said, 1 + harmful, share)) for share in _ENDS))


def _fisher(x: float) -> float:
    return math.atanh(min(1 - _EDGE, max(_EDGE - 1, x)))


def _normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
