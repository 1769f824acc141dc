"""What was learned above the pair reaches whoever asks for a pair, by every face that filters; another tool's does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from mcp import Client

from gateway.keys import Tier
from gateway.mcp.server import create_server
from gateway.middleware.loop import MemoryLoop, Situation
from gateway.rest.app import create_app
from stores.recall.filters import RecallFilters
from stores.recall.memories import Kind
from stores.sqlite import InsightFilter
from tests.support.gateway import AGENT, READER, WAIT, Brain, running_brain
from tests.support.sqlite import add, directive

KEYS = {
    "pair": "swap:1:X",
    "tool": "swap:*:*",
    "all": "*",
    "paper-pair": "swap:1-simulated:X",
    "paper-tool": "swap:*-simulated:*",
    "paper-all": "*-simulated",
    "lend-pair": "lend:1:X",
    "lend-tool": "lend:*:*",
}
HERE = {"pair", "tool", "all"}
ON_PAPER = {"paper-pair", "paper-tool", "paper-all", "tool", "all"}
PLACES = [("1", HERE), ("1-simulated", ON_PAPER)]
QUESTION = "walrus router fees"


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        told = {name: f"The walrus router fees are high for {name}." for name in KEYS}
        running.publish(*(add(name, text=told[name], key=key, simulated="paper" in name) for name, key in KEYS.items()))
        running.publish(
            *(directive(f"d-{name}", f"Mind {name}.", key=KEYS[name]) for name in ("pair", "tool", "all", "lend-tool", "paper-all"))
        )
        yield running


@pytest.mark.parametrize(("chain", "expected"), PLACES)
def test_recall_and_lists(brain: Brain, chain: str, expected: set[str]) -> None:
    only = RecallFilters(kinds=frozenset({Kind.INSIGHT}), tool="swap", chain=chain, pair="X")
    for as_of in (None, brain.clock()):
        found = brain.service.recall(READER, QUESTION, only, 20, as_of=as_of)
        assert {hit.id for hit in found.result.hits} == expected
    listed = brain.service.insights(READER, InsightFilter(tool="swap", chain=chain, pair="X")).items
    assert {one.id for one in listed if one.directive is None} == expected


@pytest.mark.parametrize(("chain", "expected"), PLACES)
def test_rest(brain: Brain, chain: str, expected: set[str]) -> None:
    key = {"authorization": f"Bearer {brain.key('r' + chain, Tier.READ)}"}
    where = {"tool": "swap", "chain": chain, "pair": "X"}
    with TestClient(create_app(brain.service, brain.keys)) as client:
        body = {"query": QUESTION, "limit": 20, "filters": {**where, "kinds": ["insight"]}}
        answer = client.post("/v1/recall", json=body, headers=key)
        assert answer.status_code == 200, answer.text
        assert {one["id"] for one in answer.json()["memories"]} == expected
        listed = client.get("/v1/insights", params={**where, "category": "slippage"}, headers=key).json()
        assert {one["id"] for one in listed["items"]} == expected
        told = client.get("/v1/directives", params={"key": f"swap:{chain}:X"}, headers=key).json()
        assert {one["id"] for one in told["items"]} == {f"d-{name}" for name in expected} & set(_directives(brain))


@pytest.mark.parametrize(("chain", "expected"), PLACES)
def test_mcp(brain: Brain, chain: str, expected: set[str]) -> None:
    where: dict[str, Any] = {"tool": "swap", "chain": chain, "pair": "X", "limit": 20}

    async def asked(name: str, **arguments: Any) -> dict[str, Any]:
        async with Client(create_server(brain.service, lambda: AGENT, wait_s=WAIT)) as client:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            return dict(result.structured_content or {})

    recalled = anyio.run(lambda: asked("recall", query=QUESTION, **where))
    assert {one["id"] for one in recalled["memories"]} == expected
    for kept in (
        anyio.run(lambda: asked("retrieve_insights", **where)),
        anyio.run(lambda: asked("retrieve_insights", query=QUESTION, **where)),
    ):
        assert {one["id"] for one in kept["insights"]} == expected
    told = anyio.run(lambda: asked("list_directives", key=f"swap:{chain}:X"))
    assert {one["id"] for one in told["directives"]} == {f"d-{name}" for name in expected} & set(_directives(brain))


def test_the_memory_around_a_tool(brain: Brain) -> None:
    with MemoryLoop(brain.service, READER, timeout_s=WAIT) as loop:
        swapping = loop.retrieve(Situation("swap", QUESTION, chain_id=1, pair="X"))
        lending = loop.retrieve(Situation("lend", QUESTION, chain_id=1, pair="X"))
    assert swapping.available, swapping.problem
    assert {one.id for one in swapping.insights} == HERE
    assert {one.id for one in swapping.directives} == {"d-pair", "d-tool", "d-all"}
    assert {one.id for one in lending.insights} == {"lend-pair", "lend-tool", "all"}
    assert {one.id for one in lending.directives} == {"d-lend-tool", "d-all"}


def _directives(brain: Brain) -> list[str]:
    return [one.id for one in brain.service.directives(READER)]
