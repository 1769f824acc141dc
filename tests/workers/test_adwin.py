"""river's detector without river: the same alarms, and a state that can be trusted or refused."""

from __future__ import annotations

import base64
import hashlib
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river.drift import ADWIN

from workers.adwin import Adwin


class RiverLike:
    """``Adwin`` with river's habit of starting anew on the update after an alarm."""

    def __init__(self, delta: float, clock: int) -> None:
        self.delta, self.clock = delta, clock
        self.adwin, self.alarmed = Adwin(delta, clock), False

    def update(self, value: float) -> bool:
        if self.alarmed:
            self.adwin = Adwin(self.delta, self.clock)
        self.alarmed = self.adwin.update(value)
        return self.alarmed


def test_golden_values() -> None:
    rng = random.Random(12345)
    one = rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)
    rng = random.Random(42)
    two = [x for low, high in ((0, 2), (4, 8), (0, 2), (4, 8)) for x in rng.choices(range(low, high), k=1000)]
    for stream, expected in ((one, [1023]), (two, [1023, 2015, 3007])):
        ours = RiverLike(0.002, 32)
        assert [i for i, x in enumerate(stream) if ours.update(x)] == expected


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([1, 32]), st.sampled_from([0.002, 0.05, 0.5]), st.floats(0.5, 20))
def test_it_is_rivers(seed: int, clock: int, delta: float, jump: float) -> None:
    rng = random.Random(seed)
    ours, rivers = RiverLike(delta, clock), ADWIN(delta=delta, clock=clock)
    for i in range(600):
        value = rng.gauss(0.0, 1.0) + (jump if i // 150 % 2 else 0.0)
        rivers.update(value)
        assert ours.update(value) == rivers.drift_detected
        assert ours.adwin.width == rivers.width
        assert ours.adwin.total == rivers.total


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_would_silence_it_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Adwin(0.01).update(value)


@given(st.integers(0, 10**6), st.integers(0, 400))
def test_a_restored_detector_goes_on_as_if_it_had_never_stopped(seed: int, place: int) -> None:
    rng = random.Random(seed)
    stream = [rng.random() + (i > 200) for i in range(400)]
    whole, cut = Adwin(0.01), Adwin(0.01)
    expected = [whole.update(x) for x in stream]
    first = [cut.update(x) for x in stream[:place]]
    after = Adwin.from_plain(cut.to_plain())
    assert first + [after.update(x) for x in stream[place:]] == expected
    assert after.to_plain() == whole.to_plain()


def _broken(change: dict[str, Any]) -> dict[str, Any]:
    adwin = Adwin(0.01)
    for x in range(100):
        adwin.update(float(x % 3))
    return {**adwin.to_plain(), **change}


@pytest.mark.parametrize(
    "change",
    [
        {"river": "0.0.1"},
        {"state": "not base64!"},
        {"state": base64.b64encode(b"\x00" * 400).decode()},
        {"sha256": hashlib.sha256(b"").hexdigest()},
        {"state": 7},
        {"delta": "x"},
    ],
)
def test_a_state_that_is_not_ours_never_reaches_the_detector(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not an ADWIN state"):
        Adwin.from_plain(_broken(change))


def test_a_state_without_its_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="not an ADWIN state"):
        Adwin.from_plain({})


def test_it_brings_none_of_what_river_would() -> None:
    code = "import sys, workers.drift; print([name for name in ('pandas', 'scipy.stats', 'river.drift') if name in sys.modules])"
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
