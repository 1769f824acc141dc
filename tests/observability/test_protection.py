"""A real Prometheus over what protects a brain and what it depends on: portfolios' breakers, circuits, groups on a cluster."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.prometheus.server import free_port, missing
from gateway.breaking import Breaker
from gateway.composition import Layout
from gateway.llm.port import Answer, Ask, ModelRefused
from gateway.llm.wiring import NAME, open_model
from gateway.metrics.observe import Observation
from gateway.metrics.protection_part import CircuitsPart, PortfoliosPart
from schemas.portfolio import PortfolioValuation
from schemas.settings import Settings
from streams.publisher import Publisher
from tests.support.kafka import fresh_topics, settings_for, shared_broker
from tests.support.kafka_watch import Stranger, workers_on_kafka
from tests.support.llm import endpoint, saying
from tests.support.metrics import brain, probe
from tests.support.prometheus import Watcher
from tests.support.streams import Store, execution, pipeline
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@contextmanager
def valued(folder: Path, watcher: Watcher) -> Iterator[tuple[str, Callable[[str, dict[str, object]], None]]]:
    """A brain at work on portfolios, watched: its instance, and a function that says what a portfolio is worth at this moment."""
    with brain(folder) as (one, _):
        part = PortfoliosPart(Layout(folder).insights)
        observation = Observation(one.log, one.driver, one.meter, [part])

        def tell(portfolio: str, fields: dict[str, object]) -> None:
            told = {"portfolio": portfolio, "ts": datetime.now(UTC), "net_deposits": 1000, "value": 1000, **fields}
            Publisher(one.log).publish(PortfolioValuation.model_validate(told))
            one.driver.run_until_idle()

        with watcher.watching(observation) as instance:
            yield instance, tell
        part.close()


@pytest.mark.slow
def test_a_portfolio_that_falls(watcher: Watcher, tmp_path: Path) -> None:
    """By 3 %, 7 % and 13 %, and back; a simulated one that has lost everything alarms nobody."""
    with valued(tmp_path, watcher) as (instance, tell):
        tell("steady", {})
        tell("toy", {"simulated": True})
        tell("toy", {"simulated": True, "value": 0})
        for value in (1000, 960):
            tell("main", {"value": value})
        warned = f'defi_brain_portfolios{{instance="{instance}",state="warn",sight="seen"}}'
        until(lambda: watcher.value(warned) == 1, "the portfolio is seen to have fallen")
        assert not {name for name, where in watcher.prometheus.alerts() if where == instance and "Portfolio" in name}
        tell("main", {"value": 920})
        watcher.fires("DefiBrainPortfolioHalted", instance)
        assert not watcher.firing("DefiBrainPortfolioStopped", instance)
        tell("main", {"value": 860})
        watcher.fires("DefiBrainPortfolioStopped", instance)
        watcher.quiet("DefiBrainPortfolioHalted", instance)
        tell("main", {"value": 1000})
        watcher.quiet("DefiBrainPortfolioStopped", instance)
        assert not watcher.firing("DefiBrainPortfolioBlind", instance)


@pytest.mark.slow
def test_a_portfolio_that_nobody_sees(watcher: Watcher, tmp_path: Path) -> None:
    """Prices that are missing; then valuations that just do not come any more."""
    with valued(tmp_path, watcher) as (instance, tell):
        tell("main", {})
        tell("main", {"value": 500, "missing": ("WETH",)})
        watcher.fires("DefiBrainPortfolioBlind", instance)
        assert not watcher.firing("DefiBrainPortfolioStopped", instance), "what cannot be judged trips nothing"
        tell("main", {})
        watcher.quiet("DefiBrainPortfolioBlind", instance)
        tell("main", {"heartbeat_s": 1})
        watcher.fires("DefiBrainPortfolioBlind", instance)


@pytest.mark.slow
def test_a_circuit_that_stays_open(watcher: Watcher, tmp_path: Path) -> None:
    """A model's endpoint that is not there: five calls fail, and so does the probe half a minute later; then it comes up."""
    ahead, ask = [0.0], Ask("be brief", "what fell?", {"type": "object"}, "nothing", 10)
    breaker = Breaker(NAME, clock=lambda: time.monotonic() + ahead[0], innocent=(ModelRefused,))
    with probe(tmp_path, parts=[CircuitsPart([breaker])]) as one, watcher.watching(one.observation) as instance:

        def called(url: str) -> Answer | None:
            with open_model(Settings(data_dir=tmp_path, llm_url=url)) as model:
                return breaker.call(lambda: model.complete(ask), lambda error: None)

        nowhere = f"http://127.0.0.1:{free_port()}/v1"
        for _ in range(4):
            assert called(nowhere) is None
        until(lambda: watcher.value(f'sum(defi_brain_circuit_calls_total{{instance="{instance}"}})') == 4, "the calls are seen")
        assert not watcher.firing("DefiBrainCircuitOpen", instance)
        called(nowhere)
        watcher.fires("DefiBrainCircuitOpen", instance)
        ahead[0] += 30
        called(nowhere)
        refused = f'defi_brain_circuit_calls_total{{instance="{instance}",outcome="failed"}}'
        until(lambda: watcher.value(refused) == 6, "the probe's end is seen")
        assert watcher.firing("DefiBrainCircuitOpen", instance)
        ahead[0] += 30
        with endpoint(saying("all of it")) as model:
            answer = called(model.url)
        assert answer is not None
        assert answer.text == "all of it"
        watcher.quiet("DefiBrainCircuitOpen", instance)


@pytest.mark.slow
@pytest.mark.kafka
def test_a_group_that_somebody_else_is_in(watcher: Watcher, tmp_path: Path) -> None:
    """The cluster refuses the sink's commits while a stranger is in its group; a clock pretends that it has done so for long."""
    settings = settings_for(shared_broker(), tmp_path)
    fresh_topics(settings)
    store, ahead = Store(tmp_path / "store.db"), [0.0]
    with (
        workers_on_kafka(settings, pipeline(store), clock=lambda: time.time() + ahead[0]) as (log, loop, observation),
        watcher.watching(observation) as instance,
    ):
        lag = f'sum(kafka_consumergroup_lag{{instance="{instance}",consumergroup="store"}})'
        received = f'defi_brain_stage_received_records_total{{instance="{instance}",stage="store"}}'
        count = itertools.count()

        def publish() -> bool:
            return bool(Publisher(log).publish_many(execution(next(count)) for _ in range(5)))

        publish()
        until(lambda: (watcher.value(received) or 0) >= 5 and watcher.value(lag) == 0, "the store's group has moved on")
        stranger = Stranger(settings, loop)
        until(lambda: publish() and (watcher.value(lag) or 0) > 0, "commits are refused")
        assert not watcher.firing("DefiBrainCommitsRefused", instance)
        ahead[0] += 400
        until(lambda: publish() and watcher.firing("DefiBrainCommitsRefused", instance), "the alert fires")
        watcher.fires("DefiBrainCommitsRefused", instance)
        assert not watcher.firing("DefiBrainStageStuck", instance)
        stranger.leave()
        until(lambda: publish() and not watcher.firing("DefiBrainCommitsRefused", instance), "commits are taken again")
        until(lambda: watcher.value(lag) == 0, "the group has caught up")
    store.close()
