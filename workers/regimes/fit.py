"""Fitting a Gaussian chain to a series by expectation–maximisation, one iteration at a time, and choosing how many states it has.

**A little at a time.** A fit is some two hundred iterations of about a millisecond. Done at once it would hold a record up for a
fifth of a second; so a :class:`Fit` does one iteration at each observation that comes, and its state can be put away between two.

**Deterministic.** It starts from quantiles of the series, never from chance. Series whose states differ in *level* start with means
at evenly spaced quantiles; series whose states differ in *spread* (returns) with equal means and variances from the quantiles of
the squares.

**How many states.** Chains of one to five states are fitted; the least BIC wins, ``−2·r·log L + parameters · log(r·n)``. r is the
share of the observations that are worth their number: neighbours in a series resemble each other beyond what the states explain,
and taken for independent they make BIC ask for as many states as it may have. It is (1−ρ)/(1+ρ) for the lag-one correlation ρ of
what the widest chain leaves unexplained. A chain is not considered if one of its states is none: held for less than ``DWELL``/r
observations in a row (an outlier is no regime), or by less than ``LEAST`` of the series. So a third state is not invented where
there are two, and one state means that there are no regimes to tell apart.

**A known chain is carried on.** A later fit starts the chain of its size where the last one ended, with the last one's states as a
prior worth ``PRIOR`` observations each. A state that the recent series does not visit thus stays what it was, and the numbering of
the states means the same. The number of states can grow, by clear evidence; it does not shrink, because what has been seen comes
back.

References:
    Baum et al., Ann. Math. Stat. 41, 1970 (the iteration). Kass & Raftery, JASA 90, 1995 (what difference in BIC is clear).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from workers.regimes.chain import Array, backward, forward, gaussian_log_density, stationary

SIZES = (1, 2, 3, 4, 5)
ITERATIONS = 30
ENOUGH = 0.1
"""Nats by which an iteration must improve the series' likelihood for another one to be worth it."""
FLOOR = 0.01
"""The least variance of a state, in units of the series' own (robust) variance: a state is never a single value."""
DWELL = 5.0
LEAST = 0.03
LEAST_WORTH = 0.15
STICKY = 4.0
PSEUDO = 0.25
"""Prior counts of transitions, to stay and to each other state: a way that was never seen is not closed."""
PRIOR = 12.0
CLEAR = 10.0
"""By how much less BIC a chain of more states must have to replace a known one."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A Gaussian chain: K start probabilities, K × K transitions, K means and variances."""

    start: Array
    transition: Array
    means: Array
    variances: Array

    def __len__(self) -> int:
        return len(self.means)

    def log_density(self, xs: Array) -> Array:
        """What observations say of the states."""
        return gaussian_log_density(xs, self.means, self.variances)

    def in_order(self, order: list[int]) -> Chain:
        """The same chain with its states numbered otherwise."""
        return Chain(self.start[order], self.transition[np.ix_(order, order)], self.means[order], self.variances[order])

    def to_plain(self) -> list[Any]:
        """JSON values."""
        return [self.start.tolist(), self.transition.tolist(), self.means.tolist(), self.variances.tolist()]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Chain:
        """The chain that gave ``plain``."""
        start, transition, means, variances = (np.asarray(part, dtype=np.float64) for part in plain)
        if means.ndim != 1 or not start.shape == means.shape == variances.shape or transition.shape != means.shape * 2:
            raise ValueError("not a chain: its parts are of different sizes")
        return cls(start, transition, means, variances)


def first_guess(xs: Array, size: int, *, spread: bool) -> Chain:
    """Where the iteration starts: see the module's head."""
    share = (np.arange(size) + 0.5) / size
    stay = 0.9 if size > 1 else 1.0
    transition = np.full((size, size), (1.0 - stay) / max(1, size - 1))
    np.fill_diagonal(transition, stay)
    start = np.full(size, 1.0 / size)
    if spread:
        squares = np.quantile((xs - np.median(xs)) ** 2, share)
        return Chain(start, transition, np.full(size, np.median(xs)), np.maximum(squares, FLOOR))
    means = np.quantile(xs, share)
    return Chain(start, transition, means, np.full(size, max(FLOOR, float(xs.var()) / size**2)))


def improved(xs: Array, chain: Chain, known: Chain | None = None, *, regularised: bool = True) -> tuple[Chain, float]:
    """One iteration: a chain that explains the series better, and the log-likelihood under the chain *before*.

    ``known`` is the prior; without ``regularised`` it is plain maximum likelihood, whose likelihood never falls.
    """
    density = chain.log_density(xs)
    passed = forward(density, chain.start, chain.transition)
    factors = backward(density, chain.transition, passed.scales)
    gamma = passed.filtered * factors
    weights = np.exp(density - density.max(axis=1)[:, None]) / passed.scales[:, None]
    moves = chain.transition * (passed.filtered[:-1].T @ (weights[1:] * factors[1:]))
    start = gamma[0]
    weight = gamma.sum(axis=0)
    sums, means = gamma.T @ xs, chain.means
    pull = np.zeros(len(chain)) if known is None else np.full(len(chain), PRIOR)
    towards = means if known is None else known.means
    if regularised:
        moves = moves + PSEUDO + np.eye(len(chain)) * (STICKY - PSEUDO)
        start = gamma[0] + 1.0 / len(chain)
        if known is not None:
            moves = moves + PRIOR * known.transition
    means = np.where(weight + pull > 1e-9, (sums + pull * towards) / np.maximum(weight + pull, 1e-9), means)
    off = (gamma * (xs[:, None] - means[None, :]) ** 2).sum(axis=0)
    if known is not None:
        off = off + pull * (known.variances + (known.means - means) ** 2)
    variances = np.where(weight + pull > 1e-9, off / np.maximum(weight + pull, 1e-9), chain.variances)
    better = Chain(start / start.sum(), moves / moves.sum(axis=1, keepdims=True), means, np.maximum(variances, FLOOR))
    return better, passed.log_likelihood


class Fit:
    """A fit under way on a series of observations (robustly normalised, so about unit variance).

    >>> rng = np.random.default_rng(5)
    >>> xs = np.repeat([-1.0, 1.0, -1.0, 1.0], 64) + rng.normal(size=256) * 0.3
    >>> fit = Fit(xs, spread=False)
    >>> while not fit.step(): pass
    >>> chain = fit.chosen()
    >>> chain.means.round().tolist()
    [-1.0, 1.0]

    Raises, when it is made:
        ValueError: values that are not finite, or all the same.
    """

    __slots__ = ("_at", "_before", "_fitted", "_iterations", "_known", "_sizes", "_spread", "_xs")

    def __init__(self, xs: Array, *, spread: bool, known: Chain | None = None) -> None:
        if not np.isfinite(xs).all() or len(xs) < 2 or float(np.ptp(xs)) == 0.0:
            raise ValueError("a fit needs finite observations that are not all the same")
        self._xs = xs
        self._spread = spread
        self._known = known
        self._sizes = SIZES if known is None else tuple(size for size in SIZES if len(known) <= size <= len(known) + 1)
        self._fitted: list[tuple[Chain, float]] = []
        self._begin()

    def __len__(self) -> int:
        """How many observations it goes through at each iteration."""
        return len(self._xs)

    def _begin(self) -> None:
        """Turn to the next size."""
        size = self._sizes[len(self._fitted)]
        carried = self._known is not None and size == len(self._known)
        self._at = self._known if carried and self._known is not None else first_guess(self._xs, size, spread=self._spread)
        self._before = -math.inf
        self._iterations = 0

    def step(self) -> bool:
        """One iteration; whether that was the last one."""
        if self.done:
            return True
        prior = self._known if self._known is not None and len(self._at) == len(self._known) else None
        better, likelihood = improved(self._xs, self._at, prior)
        self._iterations += 1
        if likelihood - self._before < ENOUGH or self._iterations >= ITERATIONS:
            self._fitted.append((self._at, likelihood))
            if not self.done:
                self._begin()
        else:
            self._at, self._before = better, likelihood
        return self.done

    @property
    def done(self) -> bool:
        """Whether every size is fitted."""
        return len(self._fitted) == len(self._sizes)

    def chosen(self) -> Chain | None:
        """The chain to go on with, once done; None where the series shows no regimes."""
        worth = self._worth()
        scores = [self._bic(chain, likelihood, worth) for chain, likelihood in self._fitted]
        if self._known is not None:
            scores = [
                score + CLEAR * (len(chain) > len(self._known)) for score, (chain, _) in zip(scores, self._fitted, strict=True)
            ]
        best = min(range(len(scores)), key=lambda place: (scores[place], place))
        chain = self._fitted[best][0]
        return chain if len(chain) > 1 else None

    def _worth(self) -> float:
        """Of the observations, the share that are worth their number: (1−ρ)/(1+ρ) of what the widest chain leaves over."""
        chain = self._fitted[-1][0]
        density = chain.log_density(self._xs)
        passed = forward(density, chain.start, chain.transition)
        gamma = passed.filtered * backward(density, chain.transition, passed.scales)
        left = (gamma * ((self._xs[:, None] - chain.means) / np.sqrt(chain.variances))).sum(axis=1)
        left = left - left.mean()
        spread = float((left * left).sum())
        rho = max(0.0, float((left[1:] * left[:-1]).sum()) / spread) if spread > 0.0 else 0.0
        return max(LEAST_WORTH, (1.0 - rho) / (1.0 + rho))

    def _bic(self, chain: Chain, likelihood: float, worth: float) -> float:
        """See the module's head; infinite for a chain with a state that is none. The known chain and one state always count."""
        size = len(chain)
        if size > (1 if self._known is None else len(self._known)):
            dwell = 1.0 / np.maximum(1.0 - np.diag(chain.transition), 1e-9)
            if float(dwell.min()) < DWELL / worth or float(stationary(chain.transition).min()) < LEAST:
                return math.inf
        parameters = size * (size - 1) + 2 * size + size - 1
        return -2.0 * worth * likelihood + parameters * math.log(max(math.e, worth * len(self._xs)))

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "xs": self._xs.tolist(),
            "spread": self._spread,
            "known": None if self._known is None else self._known.to_plain(),
            "fitted": [[chain.to_plain(), likelihood] for chain, likelihood in self._fitted],
            "at": self._at.to_plain(),
            "before": None if self._before == -math.inf else self._before,
            "iterations": self._iterations,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Fit:
        """The fit that gave ``plain``. Raises ValueError when it is not one of ours."""
        try:
            known = None if plain["known"] is None else Chain.from_plain(plain["known"])
            fit = cls(np.asarray(plain["xs"], dtype=np.float64), spread=bool(plain["spread"]), known=known)
            fit._fitted = [(Chain.from_plain(chain), float(likelihood)) for chain, likelihood in plain["fitted"]]
            fit._at = Chain.from_plain(plain["at"])
            fit._before = -math.inf if plain["before"] is None else float(plain["before"])
            fit._iterations = int(plain["iterations"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a fit: {error}") from None
        return fit
