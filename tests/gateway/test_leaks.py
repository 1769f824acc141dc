"""Nothing of one key reaches another: its writes, its answers, its secret. The memory itself is shared, with its authors."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from mcp import Client

from gateway.keys import Tier
from gateway.mcp.server import create_server
from gateway.rest.app import Limits, create_app
from tests.support.gateway import Brain, running_brain
from tests.support.sqlite import add


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        running.publish(add("i", text="Quokka pools are thin."))
        yield running


@pytest.fixture(scope="module")
def client(brain: Brain) -> Iterator[TestClient]:
    with TestClient(
        create_app(brain.service, brain.keys, Limits(rate=1e6, burst=1_000_000)), raise_server_exceptions=False
    ) as made:
        yield made


@pytest.fixture(scope="module")
def texts(brain: Brain) -> dict[str, str]:
    return {
        name: brain.key(name, tier) for name, tier in (("mine", Tier.FEEDBACK), ("theirs", Tier.FEEDBACK), ("boss", Tier.ADMIN))
    }


def of(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def test_what_became_of_a_write_is_told_to_its_author_alone(client: TestClient, texts: dict[str, str]) -> None:
    body = {"request_id": "w-1", "reason": "mine alone"}
    done = client.post("/v1/insights/i/downvote?wait=applied", json=body, headers=of(texts["mine"])).json()
    assert done["state"] == "applied"
    for name in ("theirs", "boss"):
        answer = client.get("/v1/operations/w-1", headers=of(texts[name]))
        assert (answer.status_code, "mine" in answer.text) == (404, False)
    other = client.post("/v1/insights/i/downvote?wait=applied", json=body, headers=of(texts["theirs"])).json()
    assert (other["duplicate"], other["operation_id"] != done["operation_id"]) == (False, True)


def test_an_answers_id_is_good_for_who_got_it_alone(client: TestClient, brain: Brain, texts: dict[str, str]) -> None:
    answer = client.post("/v1/recall", json={"query": "quokka pools"}, headers=of(texts["mine"])).json()
    use = {"request_id": "a-1", "used": ["i"], "recall_id": answer["recall_id"]}
    before = brain.insights.stats().uses
    refused = client.post("/v1/uses?wait=applied", json=use, headers=of(texts["theirs"]))
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert brain.insights.stats().uses == before
    assert client.post("/v1/uses?wait=applied", json=use, headers=of(texts["mine"])).status_code == 200


def test_a_key_stands_in_no_answer_no_log_and_no_file(
    client: TestClient, brain: Brain, texts: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does one that was refused, or one that was put where it does not belong."""
    secrets = [text.split("_", 2)[2] for text in texts.values()]
    wrong = f"dbk_000000000000_{'Z' * 43}"
    told: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for text in (*texts.values(), wrong):
            for method, path, body in (
                ("GET", "/v1/stats", None),
                ("GET", f"/v1/insights/{text}", None),
                ("GET", f"/v1/nothing/{'x' * 10}", None),
                ("POST", "/v1/recall", {"query": 1}),
                ("POST", "/v1/notes", {"request_id": "k"}),
                ("POST", "/v1/executions", {"request_id": "k", "execution": {}}),
            ):
                answer = client.request(method, path, json=body, headers=of(text))
                if text not in path:
                    told.append(answer.text + json.dumps(dict(answer.headers)))
    for secret in (*secrets, "Z" * 43):
        assert not [one for one in told if secret in one]
        assert not [one for one in caplog.records if secret in one.getMessage() and "/v1/insights/" not in one.getMessage()]
        for file in (one for one in brain.folder.rglob("*") if one.is_file()):
            assert secret.encode() not in file.read_bytes(), file


def test_tools_tell_nobody_about_others_calls(brain: Brain) -> None:
    """Two clients of one server: neither's request ids, answers nor progress come to the other."""
    from tests.support.gateway import AGENT, OTHER

    heard: list[Any] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async def main() -> None:
        one, other = (create_server(brain.service, lambda caller=caller: caller) for caller in (AGENT, OTHER))  # type: ignore[misc]
        async with Client(one) as mine, Client(other) as theirs:
            arguments = {"request_id": "t-1", "text": "The tapir pool is thin."}
            first = await mine.call_tool("remember", arguments)
            second = await theirs.call_tool("remember", arguments, progress_callback=progress)
            assert first.structured_content is not None
            assert second.structured_content is not None
            assert second.structured_content["duplicate"] is False
            assert second.structured_content["operation_id"] != first.structured_content["operation_id"]

    anyio.run(main)
    assert heard == ["sending", "applied"]
