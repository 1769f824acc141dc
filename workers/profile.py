"""The hour-of-day profile of a stream: what a daily cycle explains, so that it is not taken for a drift.

Gas and volume rise and fall with the hours. To a drift detector that is a change, twice a day, every day. The profile is a
linear model of two harmonics of the day, fitted by recursive least squares with a ridge: it predicts each value from what came
before, and the detector sees what is left. It has no intercept, so a lasting change of level stays with the detector. On the
first day a cycle cannot be told from a drift; from the second on it can.
"""

from __future__ import annotations

import math
from typing import Any

QUARTER_MS = 900_000
QUARTERS = 96
HARMONICS = 2
SIZE = 2 * HARMONICS
RIDGE = 5.0
"""As if the first five observations had said "no cycle"."""


def _waves(quarter: int) -> tuple[float, ...]:
    turn = 2 * math.pi * quarter / QUARTERS
    # Rounded, so that another platform's sine in the last digit cannot change what is learned.
    return tuple(round(wave(turn * harmonic), 12) for harmonic in range(1, HARMONICS + 1) for wave in (math.sin, math.cos))


_WAVES = tuple(_waves(quarter) for quarter in range(QUARTERS))


class DayProfile:
    """Recursive least squares on the harmonics of the day, in quarter-hour steps.

    >>> profile = DayProfile()
    >>> noon, midnight = 12 * 3_600_000, 0
    >>> for _ in range(200): _ = profile.learn(noon, 1.0), profile.learn(midnight, -1.0)
    >>> round(profile.predict(noon), 1), round(profile.predict(midnight), 1)
    (1.0, -1.0)

    References:
        Plackett, "Some theorems in least squares", Biometrika 37, 1950 (the recursive form).
    """

    __slots__ = ("_covariance", "_weights")

    def __init__(self) -> None:
        self._weights = [0.0] * SIZE
        self._covariance = [[1.0 / RIDGE if row == column else 0.0 for column in range(SIZE)] for row in range(SIZE)]

    def predict(self, ts_ms: int) -> float:
        """What the hour alone says of a value, as a deviation from the stream's level."""
        waves = _WAVES[ts_ms // QUARTER_MS % QUARTERS]
        return sum(weight * wave for weight, wave in zip(self._weights, waves, strict=True))

    def learn(self, ts_ms: int, deviation: float) -> float:
        """Take a value's deviation from the stream's level; returns what was predicted for it."""
        # Written out for the four waves: every value of every watched metric comes through here.
        a, b, c, d = _WAVES[ts_ms // QUARTER_MS % QUARTERS]
        weights, covariance = self._weights, self._covariance
        predicted = 0.0 + weights[0] * a + weights[1] * b + weights[2] * c + weights[3] * d
        spread = [0.0 + row[0] * a + row[1] * b + row[2] * c + row[3] * d for row in covariance]
        p, q, r, s = spread
        scale = 1.0 + (0.0 + p * a + q * b + r * c + s * d)
        error = (deviation - predicted) / scale
        for place, gain in enumerate(spread):
            weights[place] += gain * error
            line = covariance[place]
            line[0] -= gain * p / scale
            line[1] -= gain * q / scale
            line[2] -= gain * r / scale
            line[3] -= gain * s / scale
        return predicted

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {"weights": list(self._weights), "covariance": [list(row) for row in self._covariance]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> DayProfile:
        """The profile that gave ``plain``. Raises ValueError when it is not one of ours."""
        profile = cls()
        try:
            profile._weights = [float(weight) for weight in plain["weights"]]
            profile._covariance = [[float(cell) for cell in row] for row in plain["covariance"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a day profile: {error}") from None
        if [len(profile._weights), *(len(row) for row in profile._covariance)] != [SIZE] * (SIZE + 1):
            raise ValueError("not a day profile: its size is another")
        return profile
