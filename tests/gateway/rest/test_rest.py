"""The API: keys and tiers, problems, paging, ETags, idempotent writes, updates as events, limits."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, get_args

import anyio
import anyio.to_thread
import httpx
import pytest
from fastapi.testclient import TestClient

from gateway.keys import Tier
from gateway.rest.app import Limits, create_app
from gateway.rest.guards import RateLimit, TooMany
from schemas.identity import content_id
from schemas.signals import Signal
from schemas.topics import INSIGHTS_UPDATED, OPERATIONS, SIGNALS_RAISED
from streams.publisher import Publisher
from tests.support.events import swap
from tests.support.gateway import ADMIN, READER, Brain
from tests.support.sqlite import add, directive, signal

Headers = dict[str, dict[str, str]]


def post(client: TestClient, path: str, headers: dict[str, str], /, wait: bool = True, **body: Any) -> Any:
    return client.post(f"/v1{path}{'?wait=applied' if wait else ''}", json=body, headers=headers)


def test_every_route_but_the_document_needs_a_key(client: TestClient) -> None:
    document = client.get("/v1/openapi.json").json()
    assert len(document["paths"]) > 15
    for path, operations in document["paths"].items():
        for method in operations:
            for headers in ({}, {"authorization": "Bearer dbk_x"}, {"authorization": "Basic eDp5"}):
                answer = client.request(method, path.replace("{", "").replace("}", ""), headers=headers, json={})
                assert answer.status_code == 401, (path, method)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["code"] == "no_key"


WRITES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/insights/tier/downvote", {"request_id": "t"}, "feedback"),
    ("/insights/tier/archive", {"request_id": "t"}, "feedback"),
    ("/insights/tier/confidence", {"request_id": "t", "confidence": 0.5}, "feedback"),
    ("/insights/tier/forget", {"request_id": "t"}, "admin"),
    ("/directives", {"request_id": "t", "text": "x", "feedback_type": "market_context"}, "feedback"),
    ("/notes", {"request_id": "t", "text": "x"}, "feedback"),
    ("/uses", {"request_id": "t", "used": ["x"]}, "feedback"),
    ("/executions", {"request_id": "t", "execution": swap()}, "feedback"),
)


@pytest.mark.parametrize(("path", "body", "needed"), WRITES, ids=[path for path, _, _ in WRITES])
def test_no_write_without_a_key_of_the_tier(
    client: TestClient, brain: Brain, keys: Headers, path: str, body: dict[str, Any], needed: str
) -> None:
    brain.settle()
    before = brain.log.changes()[1]
    for tier in Tier:
        if not tier.allows(Tier(needed)):
            answer = post(client, path, keys[str(tier)], wait=False, **body)
            assert (answer.status_code, answer.json()["code"]) == (403, "tier_too_low")
    assert brain.log.changes()[1] == before


def test_a_revoked_key_is_refused_at_once(client: TestClient, brain: Brain) -> None:
    headers = {"authorization": f"Bearer {brain.key('soon-gone', Tier.READ)}"}
    assert client.get("/v1/stats", headers=headers).status_code == 200
    brain.keys.revoke("soon-gone", brain.clock.now)
    assert client.get("/v1/stats", headers=headers).status_code == 401


def test_a_life_over_the_api(client: TestClient, brain: Brain, keys: Headers) -> None:
    brain.publish(add("life", text="Giraffe pools are thin at noon."))
    found = client.post("/v1/recall", json={"query": "giraffe pools"}, headers=keys["read"]).json()
    assert [one["id"] for one in found["memories"]] == ["life"]
    assert set(found["memories"][0]["why"]["sources"]) == {"dense", "lexical"}
    done = post(client, "/insights/life/downvote", keys["feedback"], request_id="life-1", reason="it was not")
    assert (done.status_code, done.json()["state"], done.json()["confidence"]) == (200, "applied", 0.45)
    again = post(client, "/insights/life/downvote", keys["feedback"], request_id="life-1", reason="it was not").json()
    assert (again["duplicate"], again["confidence"]) == (True, 0.45)
    other = post(client, "/insights/life/archive", keys["feedback"], request_id="life-1")
    assert (other.status_code, other.json()["code"]) == (409, "request_id_reused")
    assert client.get("/v1/operations/life-1", headers=keys["feedback"]).json()["insight_id"] == "life"
    assert client.get("/v1/operations/life-1", headers=keys["admin"]).status_code == 404
    history = client.get("/v1/insights/life/history", headers=keys["read"]).json()["items"]
    assert [(one["kind"], one["author"]) for one in history] == [("ADD", "distil"), ("DOWNVOTE", "feedback-key")]
    assert (
        post(client, "/insights/life/confidence", keys["feedback"], request_id="life-2", delta="0.2").json()["confidence"] == 0.65
    )
    used = post(client, "/uses", keys["feedback"], request_id="life-3", used=["life"], ended="success")
    assert (used.status_code, used.json()["state"]) == (200, "applied")
    assert post(client, "/insights/life/archive", keys["feedback"], request_id="life-4").status_code == 200
    assert client.post("/v1/recall", json={"query": "giraffe pools"}, headers=keys["read"]).json()["memories"] == []
    assert post(client, "/insights/life/forget", keys["admin"], request_id="life-5").status_code == 200
    gone = client.get("/v1/insights/life", headers=keys["read"])
    assert (gone.status_code, gone.json()["code"]) == (410, "forgotten")
    assert post(client, "/insights/life/downvote", keys["feedback"], request_id="life-6").json()["code"] == "forgotten"


def test_notes_and_directives_and_executions(client: TestClient, keys: Headers) -> None:
    first = post(client, "/notes", keys["feedback"], request_id="n1", text="The okapi limit is 30 gwei.").json()
    second = post(client, "/notes", keys["feedback"], request_id="n2", text="The okapi limit is 40 gwei.").json()
    assert (first["event"], second["event"], second["insight_id"]) == ("new", "updated", first["insight_id"])
    fields = {"text": "Only okapi pools.", "feedback_type": "strategy_preference", "priority": "high"}
    directive = post(client, "/directives", keys["feedback"], request_id="d1", **fields).json()
    shown = client.get("/v1/directives", headers=keys["read"]).json()["items"]
    assert [(one["id"], one["directive"]["priority"]) for one in shown] == [(directive["insight_id"], "high")]
    execution = {name: value for name, value in swap(event_id="rest-1").items() if name != "agent_id"}
    done = post(client, "/executions", keys["feedback"], request_id="x1", execution=execution)
    assert (done.status_code, done.json()["state"]) == (200, "applied")
    episode = client.get(f"/v1/episodes/{done.json()['insight_id']}", headers=keys["read"]).json()
    assert (episode["episode"]["event"]["agent_id"], "vector" in episode["episode"]) == ("feedback-key", False)
    hits = client.get("/v1/episodes/search", params={"q": "swap WETH"}, headers=keys["read"]).json()["items"]
    assert [one["id"] for one in hits] == [episode["id"]]
    refused = post(client, "/executions", keys["feedback"], request_id="x2", execution={"tool": "Not A Name"})
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


def test_pages_follow_each_other_without_gap_or_repeat(client: TestClient, brain: Brain, keys: Headers) -> None:
    brain.publish(*(add(f"page-{number}", key="paging:1:x") for number in range(7)))
    seen: list[str] = []
    params: dict[str, Any] = {"key": "paging:1:x", "limit": 3}
    while True:
        page = client.get("/v1/insights", params=params, headers=keys["read"]).json()
        seen += [one["id"] for one in page["items"]]
        if page["cursor"] is None:
            break
        params["cursor"] = page["cursor"]
    assert sorted(seen) == [f"page-{number}" for number in range(7)]
    wrong = client.get("/v1/insights", params={"cursor": "bm8"}, headers=keys["read"])
    assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_query")


def test_signals_come_in_pages_too(client: TestClient, brain: Brain, keys: Headers) -> None:
    for one in map(signal, range(5)):
        Publisher(brain.log).publish_raw(SIGNALS_RAISED, one.stream.encode(), one.to_wire())
    brain.settle()
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        page = client.get("/v1/signals", params=params, headers=keys["read"]).json()
        assert len(page["items"]) <= 2
        seen += [one["id"] for one in page["items"]]
        if page["cursor"] is None:
            break
        params["cursor"] = page["cursor"]
    assert seen == [signal(number).id for number in sorted(range(5), key=lambda number: signal(number).ts, reverse=True)]
    of_insights = client.get("/v1/insights", params={"cursor": params["cursor"]}, headers=keys["read"])
    assert (of_insights.status_code, of_insights.json()["code"]) == (400, "bad_query")


@pytest.mark.parametrize("kind", [one.model_fields["kind"].default for one in get_args(get_args(Signal)[0])])
def test_every_kind_of_signal_can_be_asked_for(client: TestClient, keys: Headers, kind: str) -> None:
    assert client.get("/v1/signals", params={"kind": kind}, headers=keys["read"]).status_code == 200


def test_how_a_memory_was_used_is_told_wherever_it_is_shown(client: TestClient, brain: Brain, keys: Headers) -> None:
    brain.publish(directive("helped", "Keep some gas."))
    use = {"request_id": "helped-1", "used": ["helped"], "ended": "success"}
    assert client.post("/v1/uses?wait=applied", json=use, headers=keys["feedback"]).json()["state"] == "applied"
    for path in ("/v1/insights/helped", "/v1/insights?category=operator_directive", "/v1/directives"):
        told = client.get(path, headers=keys["read"]).json()
        (one,) = [one for one in told.get("items", [told]) if one["id"] == "helped"]
        assert one["helpful"] == 1, path


def test_etags(client: TestClient, brain: Brain, keys: Headers) -> None:
    brain.publish(add("tagged", key="tagged:1:x"))
    for path in ("/v1/insights/tagged", "/v1/insights?key=tagged:1:x", "/v1/insights/tagged/history"):
        first = client.get(path, headers=keys["read"])
        known = keys["read"] | {"if-none-match": f'"other", {first.headers["etag"]}'}
        assert (client.get(path, headers=known).status_code, client.get(path, headers=known).content) == (304, b"")
    post(client, "/insights/tagged/downvote", keys["feedback"], request_id="tag-1")
    assert client.get("/v1/insights/tagged", headers=keys["read"] | {"if-none-match": '"1"'}).headers["etag"] == '"2"'


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Ids and data of a stream of events."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields:
            found.append((fields["id"], json.loads(fields["data"])))
    return found


def test_updates_as_events_go_on_where_they_stopped(client: TestClient, brain: Brain, keys: Headers) -> None:
    start = client.get("/v1/updates?start=beginning&idle_s=0", headers=keys["read"])
    assert start.headers["content-type"].startswith("text/event-stream")
    brain.publish(add("evented"))
    post(client, "/insights/evented/downvote", keys["feedback"], request_id="ev-1")
    brain.settle()
    all_of_them = events(client.get("/v1/updates?start=beginning&idle_s=0", headers=keys["read"]).text)
    mine = [(one["kind"], one["revision"]) for _, one in all_of_them if one["insight"]["id"] == "evented"]
    assert mine == [("ADD", 1), ("DOWNVOTE", 2)]
    for place, (event_id, _) in enumerate(all_of_them):
        rest = client.get("/v1/updates?idle_s=0", headers=keys["read"] | {"last-event-id": event_id})
        assert events(rest.text) == all_of_them[place + 1 :]
    assert events(client.get("/v1/updates?idle_s=0", headers=keys["read"]).text) == []
    wrong = client.get("/v1/updates?idle_s=0", headers=keys["read"] | {"last-event-id": "1.x"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_request")


def test_a_place_of_a_longer_log_is_refused(client: TestClient, brain: Brain, keys: Headers) -> None:
    """After a restore the log is shorter: who went on at the old place would hear nothing until it is as long again."""
    ends = brain.log.end_offsets(INSIGHTS_UPDATED.name)
    for partition in ends:
        beyond = ".".join(str(end + (one == partition)) for one, end in sorted(ends.items()))
        answer = client.get("/v1/updates?idle_s=0", headers=keys["read"] | {"last-event-id": beyond})
        assert (answer.status_code, answer.json()["code"]) == (400, "beyond_the_end")


def test_many_streams_wait_in_one_thread_and_all_hear(
    brain: Brain, keys: Headers, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = brain.log.wait
    waiting: list[int] = []
    most: list[int] = []

    def counted(seen: Any, timeout_s: float) -> Any:
        if not threading.current_thread().name.startswith("asyncio"):
            return wait(seen, timeout_s)
        waiting.append(1)
        most.append(len(waiting))
        try:
            return wait(seen, timeout_s)
        finally:
            waiting.pop()

    monkeypatch.setattr(brain.log, "wait", counted)

    async def main() -> list[str]:
        transport = httpx.ASGITransport(app=client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=keys["read"], timeout=60) as streams:
            asked = [asyncio.create_task(streams.get("/v1/updates?start=beginning&idle_s=2")) for _ in range(25)]
            while not most:
                await asyncio.sleep(0.01)
            await anyio.to_thread.run_sync(brain.publish, add("heard-by-all"))
            return [(await one).text for one in asked]

    texts = asyncio.run(main())
    assert ["heard-by-all" in text for text in texts] == [True] * 25
    assert max(most) == 1


def test_what_else_comes_into_the_log_wakes_no_stream(
    brain: Brain, keys: Headers, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executions come by the hundred a second; a stream of updates that looked at each of them would do nothing else."""
    brain.settle()
    read, reads = brain.log.read, []

    def counted(topic: str, *more: Any) -> Any:
        reads.append(topic)
        return read(topic, *more)

    monkeypatch.setattr(brain.log, "read", counted)
    listening = threading.Thread(target=client.get, args=("/v1/updates?idle_s=1",), kwargs={"headers": keys["read"]})
    listening.start()
    publisher = Publisher(brain.log)
    for number in range(50):
        publisher.publish(swap(event_id=f"busy-{number}"))
    listening.join()
    assert INSIGHTS_UPDATED.name not in reads


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{not json", 422),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"query": 1}', 422),
        (b'{"query": "a", "surprise": 1}', 422),
        (b'{"query": "a", "filters": {"since": "2026-01-01T00:00:00"}}', 422),
        (b'{"query": "a", "filters": {"tooll": "swap"}}', 422),
        (b'{"query": "a", "limit": 0}', 422),
        (b'{"query": "a", "limit": -1}', 422),
        (b'{"query": "a", "filters": {"min_confidence": NaN}}', 422),
        (b"\xff", 422),
        (b'{"query": "' + b"x" * 600_000 + b'"}', 413),
        (b'{"query": "' + b"x" * 100_000 + b'"}', 200),
        (b'{"query": "\\u0000 \\"\' -- \xe4\xbd\xa0\xe5\xa5\xbd"}', 200),
        (b"[" * 100_000, 422),
        (b'{"query": "a", "now": "0001-01-01T00:00:00+14:00"}', 422),
        (b'{"query": "a", "filters": {"until": "9999-12-31T23:59:59-14:00"}}', 422),
    ],
    ids=range(17),
)
def test_what_is_sent_is_checked(client: TestClient, keys: Headers, body: bytes, code: int) -> None:
    answer = client.post("/v1/recall", content=body, headers=keys["read"] | {"content-type": "application/json"})
    assert answer.status_code in ((code, 400) if code == 422 else (code,)), answer.text[:300]
    if code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code


@pytest.mark.parametrize("depth", [60, 100, 300, 800])
def test_what_is_nested_too_deep_is_called_so(client: TestClient, keys: Headers, depth: int) -> None:
    execution = swap(event_id="", agent_id="feedback-key", later=json.loads("[" * depth + "]" * depth))
    answer = post(client, "/executions", keys["feedback"], wait=False, request_id=f"deep-{depth}", execution=execution)
    assert answer.status_code == (202 if depth < 64 else 422)
    assert depth < 64 or answer.json()["code"] == "too_deep"


def test_what_is_not_there(client: TestClient, keys: Headers) -> None:
    for path in ("/v1/insights/nobody", "/v1/insights/nobody/history", "/v1/episodes/nobody", "/v1/nothing", "/"):
        answer = client.get(path, headers=keys["read"])
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json"), path
    wrong = client.delete("/v1/stats", headers=keys["read"])
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")


def test_what_was_forgotten_is_gone_and_the_document_says_so(client: TestClient, brain: Brain, keys: Headers) -> None:
    brain.publish(add("to-go"), swap(event_id="to-go", agent_id="x"))
    episode = content_id("episode", "to-go")
    brain.service.forget(ADMIN, "go-1", "to-go", "wrong", 20.0)
    brain.service.forget_episode(ADMIN, "go-2", episode, "wrong", 20.0)
    paths = client.get("/v1/openapi.json").json()["paths"]
    for path, one in (("/v1/insights/{insight_id}", "to-go"), ("/v1/episodes/{episode_id}", episode)):
        answer = client.get(path.partition("{")[0] + one, headers=keys["read"])
        assert (answer.status_code, answer.json()["code"]) == (410, "forgotten")
        assert "410" in paths[path]["get"]["responses"]


def test_each_key_has_its_own_rate(brain: Brain) -> None:
    now = [0.0]
    app = create_app(brain.service, brain.keys, Limits(rate=1, burst=2), monotonic=lambda: now[0])
    one, other = ({"authorization": f"Bearer {brain.key(name, Tier.READ)}"} for name in ("rate-1", "rate-2"))
    with TestClient(app) as client:
        codes = [client.get("/v1/stats", headers=one).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        limited = client.get("/v1/stats", headers=one)
        assert (limited.json()["code"], int(limited.headers["retry-after"])) == ("too_many_requests", 2)
        assert client.get("/v1/stats", headers=other).status_code == 200
        now[0] += 1.0
        assert client.get("/v1/stats", headers=one).status_code == 200
        assert [client.get("/v1/stats").status_code for _ in range(3)] == [401, 401, 429]


def test_a_bucket_fills_to_its_brim_and_no_further() -> None:
    now = [0.0]
    limit = RateLimit(2.0, 3, lambda: now[0])
    now[0] = 1000.0
    for _ in range(3):
        limit.take("x")
    with pytest.raises(TooMany) as caught:
        limit.take("x")
    assert caught.value.wait_s == pytest.approx(0.5)


def test_a_refused_write_leaves_nothing_but_its_dead_letter(client: TestClient, brain: Brain, keys: Headers) -> None:
    brain.publish(add("direct-me"))
    text = {"text": "Fixed.", "feedback_type": "goal_adjustment"}
    made = post(client, "/directives", keys["feedback"], request_id="fix-1", **text).json()["insight_id"]
    before = brain.log.end_offsets(OPERATIONS.name)[0]
    refused = post(client, f"/insights/{made}/downvote", keys["feedback"], request_id="fix-2")
    assert (refused.status_code, refused.json()["code"]) == (409, "directive_fixed")
    assert brain.log.end_offsets(OPERATIONS.name)[0] == before + 1
    assert brain.service.insight(READER, made).revision == 1
