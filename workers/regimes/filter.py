"""The filter of one chain, online: what an observation makes of the probabilities. Plain floats, for a handful of states quicker
than arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workers.regimes.chain import Array, forward
from workers.regimes.fit import Chain


class Filter:
    """``p_t(j) ∝ N(x_t; μ_j, σ_j²) · Σ_i p_{t−1}(i)·A_ij``, normalised at every step.

    >>> chain = Chain(np.array([1.0, 0.0]), np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    >>> running = Filter(chain, [0.1])
    >>> for x in (2.9, 3.2, 3.0): running.learn(x)
    >>> [round(p, 4) for p in running.probabilities]
    [0.0012, 0.9988]
    """

    __slots__ = ("_columns", "_norms", "_states", "chain", "probabilities")

    def __init__(self, chain: Chain, history: Sequence[float] | Array = (), probabilities: Sequence[float] | None = None) -> None:
        self.chain = chain
        self._columns = [tuple(column) for column in chain.transition.T.tolist()]
        self._states = list(zip(chain.means.tolist(), chain.variances.tolist(), strict=True))
        self._norms = [-0.5 * math.log(variance) for _, variance in self._states]
        self.probabilities: list[float] = chain.start.tolist()
        """Of the states, in their order."""
        if probabilities is not None:
            self.probabilities = list(probabilities)
        elif len(history):
            xs = np.asarray(history, dtype=np.float64)
            self.probabilities = forward(chain.log_density(xs), chain.start, chain.transition).filtered[-1].tolist()

    def learn(self, x: float) -> None:
        """Take an observation."""
        before = self.probabilities
        logs = []
        for column, (mean, variance), norm in zip(self._columns, self._states, self._norms, strict=True):
            moved = sum(p * a for p, a in zip(before, column, strict=True))
            off = x - mean
            logs.append(norm - 0.5 * off * off / variance + (math.log(moved) if moved > 0.0 else -math.inf))
        largest = max(logs)
        weights = [math.exp(one - largest) for one in logs]
        total = sum(weights)
        self.probabilities = [weight / total for weight in weights]
