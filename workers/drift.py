"""Drift: has the mean of one of a key's metrics moved, for good and by enough to matter?

Each watched metric has one ADWIN. What the detector is fed decides whether it can be believed, so:

**Ranks instead of values.** ADWIN's bound supposes values in [0, 1]: a slippage of 0.003 never fires, a heavy tail fires falsely.
So every value is fed as its mid-rank in the stream's reference sample, scaled to unit variance under no change. That is monotone
and bounded, the same for bps, gwei and dollars, knows nothing of the future, and is indifferent to tails. The sample is
``REFERENCE`` values spread evenly over the stream's first ones, which span half a day (``SPAN_MS``) unless there are many
(``MOST_ARRIVED``): a sample from one hour would take the next hour for a change. 0/1 metrics are fed as they are, times two.

**The hour taken out.** ``workers/profile.py`` predicts what the daily cycle explains; the detector sees the rest.

**Blocks instead of single values** where neighbours resemble each other. Autocorrelation makes ADWIN see a change in every swing.
The reference sample's lag-one correlation ρ gives the block length (1+ρ)/(1−ρ), up to ``LONGEST_BLOCK``, by which averaging
leaves about as many independent numbers as ADWIN believes to have; it is 1 for independent values.

**Materiality.** A change is an alarm when the means before and after, in the metric's own unit, differ by what
``Metric.material`` asks. "Before" goes back to the last alarm, so that changes too small to matter add up to one that does.

After a change the stream starts anew, with a new reference and an empty window, as river does and MOA does not: kept, the
recent part made the same shift alarm two to seven times. Only the profile of the hours stays.

``bench/drift.py`` measures false alarms and delays; ``docs/drift.md`` quotes them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from workers.adwin import Adwin
from workers.blocks import BlockSums
from workers.metrics import WATCHED, Metric, rounded
from workers.profile import DayProfile

REFERENCE = 64
"""Values in the reference sample; nothing alarms before there are as many."""
SPAN_MS = 43_200_000
MOST_ARRIVED = 1_024
LONGEST_BLOCK = 32
UNIT = math.sqrt(12.0)
"""One over the standard deviation of a uniform rank."""
BINARY_SCALE = 2.0


@dataclass(frozen=True, slots=True)
class Alarm:
    """A stream's mean has moved, noticed at this record.

    Means are in the metric's unit, over the ``n_before`` values since the stream began or last alarmed and the ``n_after`` values
    since the change; of what came before there was a reference, only the reference counts. ``direction`` is that of the ranks: with
    heavy tails a mean can disagree. ``delta`` is this detector's share.
    """

    metric: str
    ts_ms: int
    episode_id: str
    mean_before: float
    mean_after: float
    n_before: int
    n_after: int
    direction: Literal["higher", "lower"]
    delta: float

    @property
    def width(self) -> int:
        """How many values were compared."""
        return self.n_before + self.n_after


class DriftMonitor:
    """The detectors of one key. ``delta`` is ADWIN's confidence parameter for the key, split evenly over the watched metrics.

    >>> monitor, alarms = DriftMonitor(delta=0.01), []
    >>> for i in range(400):
    ...     cost = 10.0 + i % 7 + (20.0 if i >= 200 else 0.0)
    ...     alarms += monitor.learn_one(i * 600_000, f"episode-{i}", {"cost_bps": cost})
    >>> [(alarm.metric, alarm.direction, round(alarm.mean_before), round(alarm.mean_after)) for alarm in alarms]
    [('cost_bps', 'higher', 13, 33)]
    """

    __slots__ = ("_streams", "delta")

    def __init__(self, delta: float) -> None:
        if not 0.0 < delta < 1.0:
            raise ValueError("delta lies between 0 and 1")
        self.delta = delta
        self._streams: dict[str, _Stream] = {}

    def learn_one(self, ts_ms: int, episode_id: str, values: Mapping[str, float]) -> list[Alarm]:
        """Take an episode's watched values (``workers.metrics.watched_values``); other names are ignored.

        Raises:
            ValueError: a value is not finite.
        """
        alarms = []
        for name, metric in WATCHED.items():
            if name not in values:
                continue
            stream = self._streams.get(name)
            if stream is None:
                stream = self._streams[name] = _Stream(metric, self.delta / len(WATCHED))
            shift = stream.learn(ts_ms, values[name])
            if shift is not None:
                alarms.append(Alarm(metric=name, ts_ms=ts_ms, episode_id=episode_id, delta=rounded(stream.delta), **shift))
        return alarms

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"delta": self.delta, "streams": {name: stream.to_plain() for name, stream in sorted(self._streams.items())}}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> DriftMonitor:
        """The monitor that gave ``plain``. Raises ValueError when it is not one of ours (or another river made it)."""
        try:
            monitor = cls(float(plain["delta"]))
            for name, state in plain["streams"].items():
                monitor._streams[name] = _Stream.from_plain(WATCHED[name], monitor.delta / len(WATCHED), state)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a drift monitor: {error}") from None
        return monitor


class _Stream:
    """One metric of one key: calibrating until it has a reference and a block length, then watching."""

    __slots__ = ("_adwin", "_arrived", "_block", "_length", "_profile", "_reference", "_sums", "delta", "metric")

    def __init__(self, metric: Metric, delta: float) -> None:
        self.metric = metric
        self.delta = delta
        self._profile = DayProfile()
        self._sums = BlockSums()
        self._start()

    def _start(self) -> None:
        self._adwin = Adwin(self.delta)
        self._arrived: list[tuple[int, float]] = []
        """(time, value) while calibrating, in order of arrival."""
        self._reference: list[float] = []
        """The reference sample, sorted; empty while calibrating."""
        self._length = 1
        self._block: list[tuple[float, float]] = []
        """(fed, raw) of the block being filled."""

    def learn(self, ts_ms: int, value: float) -> dict[str, Any] | None:
        if not math.isfinite(value):
            raise ValueError("a drift detector takes finite numbers only")
        if self.metric.binary:
            return self._feed(value * BINARY_SCALE, value)
        if self._reference:
            return self._feed(self._residual(ts_ms, self._rank(value)), value)
        self._arrived.append((ts_ms, value))
        many = len(self._arrived)
        if many >= REFERENCE and (many >= MOST_ARRIVED or ts_ms - self._arrived[0][0] >= SPAN_MS):
            self._calibrate()
        return None

    def _calibrate(self) -> None:
        """Take the reference out of what has arrived, show the profile everything, and feed the reference.

        That cannot raise an alarm: a break that ADWIN would see in so few values correlates them enough for blocks too long to show
        it. It is noticed afterwards, when the values that come resemble one side only.
        """
        arrived, self._arrived = self._arrived, []
        chosen = [i * len(arrived) // REFERENCE for i in range(REFERENCE)]
        self._reference = sorted(arrived[i][1] for i in chosen)
        # From the ranks as they are: over so few hours the profile explains away correlation that is none of its own.
        self._length = _block_length([self._rank(value) for _, value in arrived[:REFERENCE]])
        residuals = [self._residual(ts_ms, self._rank(value)) for ts_ms, value in arrived]
        for i in chosen:
            self._feed(residuals[i], arrived[i][1])

    def _rank(self, value: float) -> float:
        """The mid-rank in the reference sample; mean 0 and variance 1 under no change."""
        below = bisect_left(self._reference, value) + bisect_right(self._reference, value)
        return (below / (2.0 * REFERENCE) - 0.5) * UNIT

    def _residual(self, ts_ms: int, rank: float) -> float:
        width = self._adwin.width
        level = self._adwin.total / width if width else 0.0
        return rank - self._profile.learn(ts_ms, rank - level)

    def _feed(self, fed: float, raw: float) -> dict[str, Any] | None:
        self._block.append((fed, raw))
        if len(self._block) < self._length:
            return None
        mean = sum(rank for rank, _ in self._block) / self._length
        self._sums.add(mean, sum(value for _, value in self._block), self._length)
        self._block = []
        return self._cut() if self._adwin.update(mean) else None

    def _cut(self) -> dict[str, Any] | None:
        """The shift that ADWIN has found, if it is material. Either way the stream starts anew."""
        before, after = self._sums.split()
        self._start()
        if not self.metric.material(before.raw, after.raw):
            self._sums.restart()
            return None
        self._sums = BlockSums()
        return {
            "mean_before": rounded(before.raw),
            "mean_after": rounded(after.raw),
            "n_before": before.n,
            "n_after": after.n,
            "direction": "higher" if after.fed > before.fed else "lower",
        }

    def to_plain(self) -> dict[str, Any]:
        return {
            "adwin": self._adwin.to_plain(),
            "profile": self._profile.to_plain(),
            "sums": self._sums.to_plain(),
            "arrived": [list(pair) for pair in self._arrived],
            "reference": list(self._reference),
            "length": self._length,
            "block": [list(pair) for pair in self._block],
        }

    @classmethod
    def from_plain(cls, metric: Metric, delta: float, plain: dict[str, Any]) -> _Stream:
        stream = cls(metric, delta)
        stream._adwin = Adwin.from_plain(plain["adwin"])
        stream._profile = DayProfile.from_plain(plain["profile"])
        stream._sums = BlockSums.from_plain(plain["sums"])
        stream._arrived = [(int(ts_ms), float(value)) for ts_ms, value in plain["arrived"]]
        stream._reference = [float(value) for value in plain["reference"]]
        stream._length = int(plain["length"])
        stream._block = [(float(fed), float(raw)) for fed, raw in plain["block"]]
        return stream


def _block_length(values: list[float]) -> int:
    """(1+ρ)/(1−ρ) for the lag-one autocorrelation ρ of a calibration sample, its small-sample bias taken back."""
    mean = sum(values) / len(values)
    off = [value - mean for value in values]
    spread = sum(value * value for value in off)
    if spread == 0.0:
        return 1
    rho = max(0.0, sum(left * right for left, right in pairwise(off)) / spread)
    if rho > 0.3:  # Kendall 1954: E[ρ̂] ≈ ρ − (1 + 3ρ)/n
        rho += (1.0 + 3.0 * rho) / len(values)
    rho = min(rho, 0.95)
    return min(LONGEST_BLOCK, max(1, round((1.0 + rho) / (1.0 - rho))))
