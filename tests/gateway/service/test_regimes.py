"""Regimes from executions to callers: the pipeline tells them, REST, MCP and the command line show them, a rebuild agrees."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient

from gateway.cli import main
from gateway.composition import Layout, open_sinks
from gateway.errors import NotFound
from gateway.keys import Tier
from gateway.rest.app import create_app
from schemas.events import ToolExecution
from stores.episodes import EpisodeFilter
from stores.recall.filters import RecallFilters
from stores.recall.memories import Kind
from stores.sqlite import SignalFilter
from streams.rebuild import fold
from tests.support import slim_cli
from tests.support.episodes import WordEmbedder
from tests.support.gateway import READER, Brain, running_brain
from tests.support.sqlite import at

EVERY, COUNT = 90, 420


def executions() -> list[ToolExecution]:
    """A plain tool whose market's volatility goes up and down every fifteen hours."""
    rng = Random(1)
    return [
        ToolExecution.model_validate(
            {
                "event_id": f"x{n}", "tool": "route", "agent_id": "a", "status": "success", "chain_id": 1, "pair": "A/B",
                "ts_executed": at(0) + timedelta(minutes=10 * n),
                "features": {"volatility": (0.4, 1.6)[n // EVERY % 2] * math.exp(rng.gauss(0.0, 0.15))},
            }
        )
        for n in range(COUNT)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        running.publish(*executions())
        running.settle()
        yield running


KEY = executions()[0].key


def truth(when: Any) -> str:
    return ("calm", "turbulent")[round((when - at(0)) / timedelta(minutes=10)) // EVERY % 2]


def test_the_pipeline_tells_them(brain: Brain) -> None:
    line = brain.service.regime_history(READER, KEY)
    assert (line.metric, [state.name for state in line.states]) == ("volatility", ["calm", "turbulent"])
    assert [state.typical for state in line.states] == pytest.approx([0.4, 1.6], rel=0.1)
    assert len(line.items) >= 3
    (now,) = brain.service.regimes(READER)
    assert (now.key, now.until, now.regime) == (KEY, None, truth(executions()[-1].ts_executed))
    assert brain.service.regimes(READER, regime="none") == ()
    assert brain.service.regimes(READER, now=at(1)) == ()
    with pytest.raises(NotFound, match="no regime of 'x'"):
        brain.service.regime_history(READER, "x")
    kinds = {one.kind for one in brain.service.signals(READER, SignalFilter(kind="regime"), limit=100).items}
    assert kinds == {"regime"}


def test_episodes_are_of_the_regime_of_their_time(brain: Brain) -> None:
    first = min(one.since for one in brain.insights.stretches(KEY))
    for name in ("calm", "turbulent"):
        hits = brain.service.latest_episodes(READER, EpisodeFilter(regime=name), 1000)
        assert {hit.regime for hit in hits} == {name}
        right = sum(truth(hit.ts) == name for hit in hits)
        assert right >= 0.95 * len(hits) > 50
        found = brain.service.search_episodes(READER, "route", EpisodeFilter(regime=name, since=first), 20)
        assert {hit.regime for hit in found} == {name}
        only = RecallFilters(regime=name, kinds=frozenset({Kind.EPISODE}))
        recalled = brain.service.recall(READER, "route A/B success", only, 10).result.hits
        assert {hit.memory.regime for hit in recalled} <= {name}
    facets = brain.service.episode_facets(READER, EpisodeFilter(regime="calm"))
    assert facets["tool"]["route"] == len(brain.service.latest_episodes(READER, EpisodeFilter(regime="calm"), 1000))


def test_over_rest(brain: Brain) -> None:
    with TestClient(create_app(brain.service, brain.keys)) as client:
        client.headers["authorization"] = f"Bearer {brain.key('reader', Tier.READ)}"
        (now,) = client.get("/v1/regimes").json()["items"]
        assert now["key"] == KEY
        told = client.get("/v1/regimes/history", params={"key": KEY}).json()
        assert told["items"][-1] == now
        assert client.get("/v1/regimes/history", params={"key": "none"}).status_code == 404
        assert client.get("/v1/regimes/history").status_code == 422
        found = client.get("/v1/episodes/search", params={"q": "route", "regime": "calm"})
        assert {one["regime"] for one in found.json()["items"]} == {"calm"}
        signals = client.get("/v1/signals", params={"kind": "regime"}).json()["items"]
        assert {one["kind"] for one in signals} == {"regime"}
        assert client.get("/v1/signals", params={"kind": "weather"}).status_code == 422


def run(brain: Brain, *arguments: str, code: int = 0) -> str:
    with slim_cli.installed():
        result = CliRunner().invoke(main, ["--data-dir", str(brain.folder), *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_on_the_command_line(brain: Brain) -> None:
    listed = json.loads(run(brain, "regimes", "list", "--json"))["regimes"]
    assert [one["key"] for one in listed] == [KEY]
    assert KEY in run(brain, "regimes", "list")
    assert run(brain, "regimes", "list", "--regime", "none") == "no market is in that regime\n"
    assert json.loads(run(brain, "regimes", "now", "--json"))["now"] == [
        {"regime": listed[0]["regime"], "simulated": False, "markets": 1}
    ]
    assert "last change" in run(brain, "regimes", "now")
    told = json.loads(run(brain, "regimes", "history", KEY, "--json"))
    assert told["items"][-1] == listed[0]
    assert "typical volatility" in run(brain, "regimes", "history", KEY)
    assert "no regime of 'none' is known" in run(brain, "regimes", "history", "none", code=1)
    assert " regime " in run(brain, "signals", "--kind", "regime")


def test_a_rebuild_agrees(brain: Brain, tmp_path: Path) -> None:
    with open_sinks(Layout(tmp_path), WordEmbedder()) as sinks:
        fold(brain.log, (sinks.episode_sink, sinks.writer), lambda _: None)
        assert sinks.insights.stretches() == brain.insights.stretches()
        assert list(sinks.insights.fingerprint_parts()) == list(brain.insights.fingerprint_parts())


def test_a_brain_that_knows_none_says_so(tmp_path: Path) -> None:
    with running_brain(tmp_path) as empty:
        assert empty.service.regimes(READER) == ()
        assert run(empty, "regimes", "list") == "no regimes yet\n"
        assert run(empty, "regimes", "now") == "no regimes yet\n"
