"""The commands as processes: MCP over real stdio and real HTTP, the API by real HTTP, keys shared, shut down cleanly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from gateway.cli import main
from gateway.keys import KeyStore, Tier
from tests.support import slim_cli
from tests.support.sqlite import START

ERAS = ("legacy", "auto")
SLIM = "tests.support.slim_cli"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def test_over_stdio(tmp_path: Path) -> None:
    """A client that starts the command on an empty folder can write and recall at once. The other era is in docs/mcp.md."""
    arguments = ["-m", SLIM, "--data-dir", str(tmp_path / "data"), "mcp", "--author", "desk"]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment())

    async def main() -> None:
        async with Client(stdio_client(parameters), mode="legacy") as client:
            note = await client.call_tool("remember", {"request_id": "1", "text": "The okapi pool is thin."})
            assert note.structured_content is not None
            assert (note.structured_content["state"], note.structured_content["event"]) == ("applied", "new")
            found = await client.call_tool("recall", {"query": "okapi pool"})
            assert found.structured_content is not None
            assert found.structured_content["memories"][0]["id"] == note.structured_content["insight_id"]

    anyio.run(main)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """A server in a process of its own; where it is. It must end at once and well when it is asked to."""
    command = [sys.executable, "-m", SLIM, "--data-dir", str(folder), *arguments, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://[\d.]+:\d+", line)
        assert found, line + process.stderr.read()
        yield found[0]
        process.send_signal(signal.SIGTERM)
        left = process.stderr.read()
        assert process.wait(30) == 0, left
        assert "Traceback" not in left, left
    finally:
        process.kill()
        process.wait()


def keys_of(folder: Path) -> dict[str, str]:
    with KeyStore(folder / "keys.db") as store:
        return {str(tier): store.create(f"{tier}-key", tier, START)[1] for tier in Tier}


async def session(url: str, key: str, era: str, work: Any) -> None:
    async with (
        httpx_client(key) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=era) as client,
    ):
        await work(client)


def httpx_client(key: str) -> Any:
    from mcp.shared._httpx_utils import create_mcp_http_client

    return create_mcp_http_client(headers={"authorization": f"Bearer {key}"} if key else {})


def test_over_http_beside_the_api(tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    with serving(tmp_path, "serve") as url:
        for era in ERAS:

            async def write(client: Client, era: str = era) -> None:
                arguments = {"request_id": era, "text": f"The {era} pool is thin.", "key": era}
                done = (await client.call_tool("remember", arguments)).structured_content
                assert done is not None
                assert (done["state"], done["event"]) == ("applied", "new")

            async def refused(client: Client, era: str = era) -> None:
                result = await client.call_tool("remember", {"request_id": era, "text": "x"})
                assert result.is_error
                assert "feedback key" in result.content[0].text  # type: ignore[union-attr]
                assert not (await client.call_tool("memory_stats", {})).is_error

            anyio.run(session, url, keys["feedback"], era, write)
            anyio.run(session, url, keys["read"], era, refused)
        listed = httpx.get(f"{url}/v1/insights", headers={"authorization": f"Bearer {keys['read']}"}).json()["items"]
        assert {(one["text"], one["author"]) for one in listed} == {
            ("The legacy pool is thin.", "feedback-key"),
            ("The auto pool is thin.", "feedback-key"),
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"accept": "application/json, text/event-stream"}
        for headers in ({}, {"authorization": "Bearer dbk_nobody"}):
            assert httpx.post(f"{url}/mcp", json=body, headers=accept | headers).status_code == 401
        assert httpx.get(f"{url}/v1/stats").status_code == 401
        with KeyStore(tmp_path / "keys.db") as store:
            store.revoke("read-key", START)
        good = accept | {"authorization": f"Bearer {keys['read']}"}
        assert httpx.post(f"{url}/mcp", json=body, headers=good).status_code == 401


def test_what_comes_too_often_or_is_too_large_is_refused_by_both_faces_together(tmp_path: Path) -> None:
    """Keys cannot be tried out at speed, not by turns at the two faces nor under made-up addresses; a good key has its own rate."""
    keys = keys_of(tmp_path)
    good = {"authorization": f"Bearer {keys['read']}", "accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with serving(tmp_path, "serve", "--rate", "0.001", "--burst", "12", "--max-body", "5000") as url:
        codes = []
        for number in range(14):
            headers = {"authorization": f"Bearer dbk_{number:012x}_{'A' * 43}", "x-forwarded-for": f"10.0.0.{number}"}
            headers |= {"accept": good["accept"]}
            target = f"{url}/mcp" if number % 2 else f"{url}/v1/stats"
            answer = httpx.post(target, json=body, headers=headers) if number % 2 else httpx.get(target, headers=headers)
            codes.append(answer.status_code)
        assert codes == [401] * 12 + [429] * 2
        assert answer.json()["code"] == "too_many_requests"
        assert int(answer.headers["retry-after"]) >= 1
        large = httpx.post(f"{url}/mcp", json=body | {"params": {"x": "y" * 6000}}, headers=good)
        assert large.status_code == 413

        async def too_often(client: Client) -> None:
            told = [await client.call_tool("memory_stats", {}) for _ in range(14)]
            assert [one.is_error for one in told] == [False] * 12 + [True] * 2
            assert "too many requests; try again in" in told[-1].content[0].text  # type: ignore[union-attr]

        anyio.run(session, url, keys["feedback"], "auto", too_often)
        assert httpx.get(f"{url}/v1/stats", headers={"authorization": f"Bearer {keys['feedback']}"}).status_code == 429
        assert httpx.get(f"{url}/v1/stats", headers=good).status_code == 200
        listing = good | {"authorization": f"Bearer {keys['admin']}"}
        told = [httpx.post(f"{url}/mcp", json=body, headers=listing).status_code for _ in range(26)]
        assert (told.count(429), told[-1]) == (2, 429)


def test_a_remote_address_has_to_be_meant(tmp_path: Path) -> None:
    with slim_cli.installed():
        for command in (["serve"], ["mcp", "--http"]):
            done = CliRunner().invoke(main, ["--data-dir", str(tmp_path), *command, "--host", "0.0.0.0", "--port", "0"])
            assert (done.exit_code, "--allow-remote" in done.stderr) == (1, True)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.cli.serve.find_spec", lambda name: None if name == "fastapi" else True)
    for command in ("serve", "mcp"):
        done = CliRunner().invoke(main, ["--data-dir", str(tmp_path), command])
        assert (done.exit_code, "defi-brain[gateway]" in done.stderr) == (1, True)
