"""Metrics of portfolios and circuits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from gateway.breaking import Breaker
from gateway.composition import Layout
from gateway.metrics.protection_part import CircuitsPart, PortfoliosPart
from tests.support.gateway import ADMIN, WAIT, running_brain
from tests.support.sqlite import START


def test_portfolios_are_counted_by_state_and_sight(tmp_path: Path) -> None:
    with running_brain(tmp_path) as brain:
        for name, value, simulated in (("a", 1000, False), ("a", 900, False), ("b", 5, False), ("s", 1, True)):
            ts = START + timedelta(minutes=10 if value == 900 else 5)
            told = {"portfolio": name, "ts": ts.isoformat(), "value": value, "net_deposits": 0, "simulated": simulated}
            assert brain.service.value_portfolio(ADMIN, told, WAIT).state == "applied"
        now = (START + timedelta(minutes=67)).timestamp()
        part = PortfoliosPart(Layout(tmp_path).insights, lambda: now)
        found = {sample.labels: sample.value for sample in part.samples()}
        part.close()
    assert {labels: count for labels, count in found.items() if count} == {("halt", "seen"): 1, ("ok", "blind"): 1, (): 0.1}


def test_circuits() -> None:
    now = [0.0]
    breaker = Breaker("model", clock=lambda: now[0])
    for _ in range(5):
        breaker.call(_failing, lambda error: 0)
    breaker.call(lambda: 1, lambda error: 0)
    values = {sample.labels: sample.value for sample in CircuitsPart([breaker]).samples()}
    assert {labels: value for labels, value in values.items() if value} == {
        ("model", "open"): 1.0, ("model", "failed"): 5, ("model", "refused"): 1,
    }  # fmt: skip


def _failing() -> int:
    raise OSError
