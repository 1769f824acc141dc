"""Regimes for tests: signals of them, and series that cycle through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.signals import RegimeModel, RegimeSignal, RegimeState
from tests.support.sqlite import KEY, at
from workers.regimes.chain import Array, backward, forward

NAMES = ("calm", "normal", "turbulent")


def regime_model(**fields: Any) -> RegimeModel:
    """Three states that stay."""
    states = [
        RegimeState(name=name, mean=mean, sd=1.0, typical=20.0 + mean, share=share)
        for name, mean, share in zip(NAMES, (-1.0, 0.0, 2.0), (0.25, 0.5, 0.25), strict=True)
    ]
    plain: dict[str, Any] = {
        "id": "m1",
        "transform": "log",
        "center": 0.5,
        "scale": 2.0,
        "states": tuple(states),
        "start": (1.0, 0.0, 0.0),
        "transition": ((0.9, 0.1, 0.0), (0.05, 0.9, 0.05), (0.0, 0.1, 0.9)),
        "n": 256,
    }
    return RegimeModel(**{**plain, **fields})


def regime_signal(number: int, regime: str = "turbulent", previous: str | None = "calm", **fields: Any) -> RegimeSignal:
    """A change of regime at the hour ``number``."""
    plain: dict[str, Any] = {
        "id": f"r{number:04}",
        "stream": f"regime:{KEY}:volatility",
        "key": KEY,
        "metric": "volatility",
        "ts": at(number),
        "since": at(number),
        "episode_id": f"e{number}",
        "previous": previous,
        "regime": regime,
        "probability": 0.95,
        "filtered": (0.05, 0.0, 0.95),
        "model": regime_model(),
    }
    return RegimeSignal(**{**plain, **fields})


def smoothed(log_density: Array, start: Array, transition: Array) -> Array:
    """P(state at t | all observations), T × K, of both passes."""
    passed = forward(log_density, start, transition)
    return np.asarray(passed.filtered * backward(log_density, transition, passed.scales))
