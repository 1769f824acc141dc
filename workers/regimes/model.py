"""A fitted chain as it is published: rounded, its states in order and named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.identity import content_id
from schemas.signals import RegimeModel, RegimeState
from workers.metrics import rounded
from workers.regimes.chain import Array, stationary
from workers.regimes.fit import Chain
from workers.regimes.series import Series

NAMES: dict[int, tuple[str, ...]] = {
    2: ("calm", "turbulent"),
    3: ("calm", "normal", "turbulent"),
    4: ("calm", "normal", "turbulent", "extreme"),
    5: ("calm", "normal", "unsettled", "turbulent", "extreme"),
}
"""The states' names in their order, by how many there are."""

_MAD = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


def robust(raw: Sequence[float]) -> tuple[float, float] | None:
    """Median and robust standard deviation; None where most values are one and the same."""
    values = np.asarray(raw, dtype=np.float64)
    center = float(np.median(values))
    scale = _MAD * float(np.median(np.abs(values - center)))
    return (rounded(center), rounded(scale)) if rounded(scale) > 0.0 else None


def settled(chain: Chain) -> Chain:
    """The chain with every number to six significant digits: what is filtered with is what is published."""

    def settle(values: Array) -> Array:
        return np.array([rounded(value) for value in values.flat]).reshape(values.shape)

    return Chain(settle(chain.start), settle(chain.transition), settle(chain.means), settle(chain.variances))


def described(
    chain: Chain, typicals: Sequence[float], series: Series, yardstick: tuple[float, float], n: int, fits: int
) -> RegimeModel:
    """The contract of a settled chain whose states are in order; ``typicals`` are theirs."""
    shares = stationary(chain.transition).tolist()
    states = tuple(
        RegimeState(name=name, mean=mean, sd=rounded(math.sqrt(variance)), typical=typical, share=rounded(share))
        for name, mean, variance, typical, share in zip(
            NAMES[len(chain)], chain.means.tolist(), chain.variances.tolist(), typicals, shares, strict=True
        )
    )
    plain: dict[str, Any] = {
        "transform": "log" if series.logarithm else "identity",
        "center": yardstick[0],
        "scale": yardstick[1],
        "states": states,
        "start": tuple(chain.start.tolist()),
        "transition": tuple(tuple(row) for row in chain.transition.tolist()),
        "n": n,
        "fits": fits,
    }
    return RegimeModel(id=content_id("regime-model", series.name, *yardstick, n, fits, chain.to_plain()), **plain)
