"""Writes while nobody applies them: in the log, not lost, not doubled, and told as pending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from fastapi.testclient import TestClient

from gateway.keys import Tier
from gateway.patience import Patience
from gateway.rest.app import Limits, create_app
from gateway.views import WriteView
from schemas.topics import OPERATIONS
from tests.support.gateway import Brain, running_brain


@pytest.fixture
def still(tmp_path: Path) -> Iterator[Brain]:
    with running_brain(tmp_path, works=False) as brain:
        yield brain


def test_a_write_that_is_not_applied_in_time_is_pending_and_applied_once_later(still: Brain, tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {still.key('desk', Tier.FEEDBACK)}"}
    body = {"request_id": "n-1", "text": "The okapi pool is thin."}
    with TestClient(create_app(still.service, still.keys, Limits(wait_s=0.05))) as client:
        for path in ("/v1/notes", "/v1/notes?wait=applied"):
            answer = client.post(path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["state"]) == (202, "pending")
        told = client.get("/v1/operations/n-1", headers=headers)
        assert (told.status_code, "pending" in told.json()["hint"]) == (404, True)
        assert client.get("/v1/stats", headers=headers).json()["waiting"] == 2
        wrong = client.post("/v1/notes?wait=never", json=body, headers=headers)
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_request")
    assert still.log.end_offsets(OPERATIONS.name)[0] == 2


def test_what_was_pending_is_applied_once_when_the_stages_run(tmp_path: Path) -> None:
    body = {"request_id": "n-1", "text": "The okapi pool is thin."}
    with running_brain(tmp_path, works=False) as brain, TestClient(create_app(brain.service, brain.keys)) as client:
        headers = {"authorization": f"Bearer {brain.key('desk', Tier.FEEDBACK)}"}
        for _ in range(2):
            assert client.post("/v1/notes", json=body, headers=headers).status_code == 202
    with running_brain(tmp_path) as brain, TestClient(create_app(brain.service, brain.keys)) as client:
        brain.settle()
        done = client.post("/v1/notes?wait=applied", json=body, headers=headers)
        assert (done.status_code, done.json()["duplicate"], done.json()["event"]) == (200, True, "new")
        assert len(brain.insights.history(done.json()["insight_id"])) == 1
        other = client.post("/v1/notes", json=body | {"text": "The okapi pool is deep."}, headers=headers)
        assert (other.status_code, other.json()["code"]) == (409, "request_id_reused")


@pytest.mark.parametrize("most", [100, 5])
def test_those_who_wait_do_not_stand_in_the_way_of_those_who_ask(still: Brain, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """However many writes wait for stages that stand still, a question is answered; too many writes are pending at once."""
    applied = threading.Event()
    waiting: list[float] = []

    def downvote(*_: Any, wait_s: float) -> WriteView:
        waiting.append(wait_s)
        done = wait_s > 0 and applied.wait(20)
        return WriteView(request_id="r", operation_id="o", state="applied" if done else "pending")

    monkeypatch.setattr(still.service, "downvote", downvote)
    app = create_app(still.service, still.keys, Limits(rate=1_000, burst=1_000))
    app.state.patience = Patience(10.0, most)
    headers = {"authorization": f"Bearer {still.key('desk', Tier.FEEDBACK)}"}

    async def main() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://brain", headers=headers) as client:
            body = {"request_id": "r", "reason": "wrong"}
            writes = [asyncio.create_task(client.post("/v1/insights/one/downvote?wait=applied", json=body)) for _ in range(60)]
            async with asyncio.timeout(60):  # a write that fails before it waits is no reason to wait for ever
                while len(waiting) < 60:
                    await asyncio.sleep(0.01)
            asked = await asyncio.wait_for(client.get("/v1/breakers"), 30)
            assert asked.status_code == 200
            assert not applied.is_set()
            applied.set()
            return [one.status_code for one in await asyncio.gather(*writes)]

    try:
        codes = asyncio.run(main())
    finally:
        applied.set()
    assert (codes.count(200), codes.count(202)) == ((60, 0) if most > 60 else (most, 60 - most))
