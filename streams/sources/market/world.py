"""The processes behind the simulated market: mean-reverting levels, walking prices, heavy-tailed noise, irregular arrivals.

Every process draws from its own ``random.Random``, seeded by the market's seed and its name: Python fixes that generator's
sequence across versions and machines, and one process drawing more often does not shift the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, sqrt
from random import Random

YEAR_S = 365 * 86_400.0


class Reverting:
    """An Ornstein–Uhlenbeck level around 0, read at any later time without error of discretisation.

    ``half_life_s`` is how long a deviation takes to halve, ``spread`` its stationary standard deviation.
    """

    def __init__(self, seed: int, name: str, *, half_life_s: float, spread: float) -> None:
        self._random = Random(f"{seed}:{name}")  # noqa: S311 — reproducible, not secret
        self._rate = 0.6931471805599453 / half_life_s
        self._spread = spread
        self._level = self._random.gauss(0.0, spread)
        self._at = 0.0

    def at(self, time_s: float) -> float:
        """The level at a time, not before the last one asked for."""
        kept = exp(-self._rate * (time_s - self._at))
        self._level = self._level * kept + self._spread * sqrt(1.0 - kept * kept) * self._random.gauss(0.0, 1.0)
        self._at = time_s
        return self._level


class Asset:
    """A token's USD price, walking with a volatility that itself reverts to its long-run level."""

    def __init__(self, seed: int, name: str, *, price: float, volatility: float) -> None:
        self._random = Random(f"{seed}:{name}:price")  # noqa: S311
        self._level = Reverting(seed, f"{name}:volatility", half_life_s=14_400.0, spread=0.45)
        self._long_run = volatility
        self._at = 0.0
        self.price = price
        self.stress = 1.0
        self.volatility = volatility

    def move_to(self, time_s: float) -> None:
        """Bring price, ``volatility`` (annualised) and ``stress`` (volatility over its long-run level) to a time."""
        if time_s <= self._at:
            return
        self.stress = exp(self._level.at(time_s))
        self.volatility = self._long_run * self.stress
        step = self.volatility * sqrt((time_s - self._at) / YEAR_S)
        self.price *= exp(step * self._random.gauss(0.0, 1.0) - step * step / 2)
        self._at = time_s


def student(random: Random, degrees: int = 3) -> float:
    """Student-t noise: symmetric, tails heavy enough that a mean of a hundred is still rough."""
    return random.gauss(0.0, 1.0) / sqrt(2.0 * random.gammavariate(degrees / 2, 1.0) / degrees)


LARGEST = 100.0
"""Noise without a mean is cut here: a trade at a tenth of the price is taken for an error of decimals, not for a trade."""


class Shocks:
    """The noise of costs and results, of one of the kinds that ``simulate`` knows. The market's own draws from the desk's dice."""

    def __init__(self, seed: int, dice: Random, kind: str) -> None:
        self._dice = dice
        self._own = Random(f"{seed}:shocks")  # noqa: S311
        self._kind = kind
        self._levels: dict[str, float] = {}

    def unit(self, name: str) -> float:
        """Noise of scale one for a pool."""
        drawn = student(self._dice)
        if self._kind == "market":
            return drawn
        if self._kind == "heavy":
            return min(LARGEST, max(-LARGEST, student(self._own, 1)))
        return self._own.gauss(0.0, 1.0) if self._kind == "iid" else self._next(name)

    def scale(self, stress: float) -> float:
        """How much of a nervous market shows in the noise: nothing where the noise is to be independent and alike."""
        return 1.0 if self._kind == "iid" else stress

    def queue(self, name: str, drawn: float) -> float:
        """The feature ``queue_depth``: as drawn, or following its last value."""
        return exp(2.0 + self._next(f"queue:{name}")) if self._kind == "ar1" else drawn

    def _next(self, name: str) -> float:
        """An AR(1) of unit variance, φ = 0.9, from one call to the next."""
        level = self._levels.get(name)
        step = self._own.gauss(0.0, 1.0)
        self._levels[name] = step if level is None else 0.9 * level + sqrt(1 - 0.81) * step
        return self._levels[name]


def arrivals(seed: int, *, mean_gap_s: float, by_hour: tuple[float, ...]) -> Iterator[float]:
    """Seconds since the start of each execution: irregular, busier at some hours, now and then several in one block."""
    random = Random(f"{seed}:arrivals")  # noqa: S311
    now = 0.0
    while True:
        if random.random() < 0.15:
            gap = random.expovariate(1 / 4.0)
        else:
            gap = random.expovariate(by_hour[int(now // 3600) % 24] * 0.85 / (mean_gap_s - 0.6))
        now += gap
        yield now
