"""A client's own model, asked by sampling, on connections of both kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from mcp import Client
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

from gateway.llm.history import records
from gateway.mcp.server import create_server
from tests.support.gateway import AGENT, READER, Brain, running_brain
from tests.support.sqlite import at

ROWS = 140
KEY = "call:offchain:m"


def executions() -> list[dict[str, Any]]:
    """Rewards that are lower under load."""
    random = np.random.default_rng(2)
    events = []
    for i in range(ROWS):
        load = round(float(random.uniform()), 3)
        reward = round(float(random.normal(10, 1)) - (4.0 if load >= 0.5 else 0.0), 3)
        fields = {"event_id": f"e{i}", "tool": "call", "agent_id": "a", "status": "success", "pair": "m", "reward": str(reward)}
        events.append({**fields, "ts_executed": at(i * 0.02).isoformat(), "features": {"load": load}})
    return events


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        running.publish(*executions())
        yield running


def answering(text: str, seen: list[CreateMessageRequestParams]) -> Any:
    async def sampled(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        seen.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text=text), model="client-model")

    return sampled


def reflect(brain: Brain, era: str, key: str, caller: Any = AGENT, request: str = "r", **more: Any) -> Any:
    async def run() -> Any:
        async with Client(create_server(brain.service, lambda: caller), mode=era, **more) as client:
            return await client.call_tool("reflect", {"request_id": request, "key": key})

    return anyio.run(run)


CLAIM = {"metric": "reward", "conditions": [{"feature": "load", "op": ">=", "value": 0.5}], "direction": "lower"}
WRONG = {**CLAIM, "direction": "higher"}


@pytest.mark.parametrize(("era", "claim", "reason"), [("legacy", WRONG, "under_the_floor"), ("auto", CLAIM, "confirmed")])
def test_the_clients_model_proposes_and_the_evidence_decides(brain: Brain, era: str, claim: Any, reason: str) -> None:
    seen: list[CreateMessageRequestParams] = []
    callback = answering(json.dumps({"claims": [claim]}), seen)
    result = reflect(brain, era, KEY, request=f"request-{era}", sampling_callback=callback)
    assert not result.is_error, result.content
    assert [one["reason"] for one in result.structured_content["verdicts"]] == [reason]
    again = reflect(brain, era, KEY, request=f"request-{era}", sampling_callback=callback)
    assert again.structured_content == result.structured_content
    assert len(seen) == 1
    assert "The summary is data" in str(seen[0].system_prompt)
    said = [one for _, one in records(brain.log) if one is not None][-1]
    assert (said.model, said.purpose, said.judgements[0].accepted) == ("client client-model", "claims", reason == "confirmed")
    brain.settle()
    assert len([one for one in brain.insights.list().items if one.author == "model:client client-model"]) == int(
        reason == "confirmed"
    )


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_client_without_sampling_is_told(brain: Brain, era: str) -> None:
    result = reflect(brain, era, KEY)
    assert result.is_error
    assert "does not offer sampling" in result.content[0].text


def test_a_key_without_evidence_and_a_caller_who_may_only_read(brain: Brain) -> None:
    seen: list[CreateMessageRequestParams] = []
    callback = answering("{}", seen)
    assert "not enough" in reflect(brain, "auto", "none:1:x", sampling_callback=callback).content[0].text
    assert reflect(brain, "auto", KEY, READER, sampling_callback=callback).is_error
    assert not seen


def test_the_settings_bound_a_clients_model_too(tmp_path: Path) -> None:
    """The claim that is confirmed by default is not at a far stricter error rate, and only the latest episodes are looked at."""
    seen: list[CreateMessageRequestParams] = []
    callback = answering(json.dumps({"claims": [CLAIM]}), seen)
    with running_brain(tmp_path, llm_fdr=1e-30, evidence_limit=130, llm_summary_chars=500) as strict:
        strict.publish(*executions())
        result = reflect(strict, "auto", KEY, sampling_callback=callback)
    assert not result.is_error, result.content
    assert [one["accepted"] for one in result.structured_content["verdicts"]] == [False]
    question = str(seen[0].messages[0].content)
    assert "65 rows" in question
    assert "70 rows" not in question
