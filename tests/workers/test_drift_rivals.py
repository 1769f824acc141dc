"""The comparison with river's detectors: each of them is run as river runs it, and finds what nobody could miss."""

from __future__ import annotations

import random

import pytest
from river.drift import ADWIN

from bench.rivals import DETECTORS, rivers

STEP = 600


@pytest.mark.parametrize("name", [name for name in DETECTORS if "KSWIN" not in name])
def test_a_large_step_is_found_after_it(name: str) -> None:
    rng = random.Random(5)
    points = [(i * 600_000, rng.gauss(30.0, 1.0) + (40.0 if i >= STEP else 0.0)) for i in range(2 * STEP)]
    alarms = [i for i in DETECTORS[name]("cost_bps", points) if i >= STEP]
    assert alarms
    assert alarms[0] < STEP + 64


def test_rivers_default_is_rivers_own_golden_value() -> None:
    rng = random.Random(12345)
    values = rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)
    assert rivers(ADWIN)("", [(i, float(value)) for i, value in enumerate(values)]) == [1023]
