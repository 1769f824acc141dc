"""Signals are one union by ``kind``: what was written before there were several still decodes, and nothing is guessed at."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from schemas.codec import ContractError, decode, encode
from schemas.signals import DriftSignal, RegimeSignal
from tests.support.regimes import regime_signal

WRITTEN_BEFORE = (
    b'{"schema_version":"1.0","id":"0c1b","kind":"drift","level":"pair","stream":"pair:swap:1:a:cost_bps","key":"swap:1:a",'
    b'"metric":"cost_bps","ts":"2025-01-02T03:04:05Z","episode_id":"e1","mean_before":30.1,"mean_after":71.2,"width":240,'
    b'"delta":0.00166667,"simulated":false}'
)


def test_a_record_of_the_days_of_one_kind_decodes_and_is_written_the_same() -> None:
    signal = decode("signal", WRITTEN_BEFORE)
    assert isinstance(signal, DriftSignal)
    assert encode(signal) == WRITTEN_BEFORE


def test_a_change_of_regime_survives_the_wire() -> None:
    signal = regime_signal(3, previous=None)
    again = decode("signal", encode(signal))
    assert isinstance(again, RegimeSignal)
    assert again == signal
    assert encode(again) == encode(signal)


def refused(**changes: Any) -> str:
    plain = orjson.loads(encode(regime_signal(1)))
    with pytest.raises(ContractError) as caught:
        decode("signal", orjson.dumps(plain | changes))
    assert caught.value.reason == "contract_violation"
    return caught.value.detail


def test_another_kind_and_a_model_that_does_not_fit_itself_are_refused() -> None:
    assert "kind" in refused(kind="weather")
    model = orjson.loads(encode(regime_signal(1)))["model"]
    assert "number of states" in refused(model=model | {"start": [1.0]})
    assert "number of states" in refused(model=model | {"transition": model["transition"][:1]})
    assert "sd" in refused(model=model | {"states": [model["states"][0] | {"sd": 0.0}, *model["states"][1:]]})
