"""Hostile arguments: whatever a client sends, a tool's answer is an error that says what to try, and never a fault.

A fault's answer names the tool and nothing else, and is logged as unexpected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError

from gateway.keys import Caller, Tier
from gateway.mcp.server import create_server
from schemas.topics import TOPICS
from tests.support.events import swap
from tests.support.gateway import AGENT, READER, Brain, running_brain
from tests.support.sqlite import add

ERAS = ("legacy", "auto")


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running


def connected(brain: Brain, era: str, caller: Caller) -> Client:
    return Client(create_server(brain.service, lambda: caller, wait_s=0.0), mode=era)


def records(brain: Brain) -> int:
    return sum(sum(brain.log.end_offsets(topic.name).values()) for topic in TOPICS)


def no_fault(name: str, result: Any, sent: object) -> None:
    for part in result.content if result.is_error else ():
        assert part.text != f"Error executing tool {name}", sent


HOSTILE: tuple[Any, ...] = (
    *(None, "", "\x00", "'; DROP TABLE insights; --", "Alice')) OR true--", "../../etc/passwd", "x" * 300_000, "\u202e", "{{7*7}}"),
    *(-1, 0, 2**63, 1e308, True, [], {}, [[[]]], {"$ne": None}, ["x"] * 1000, "NaN", "2026-13-45T00:00:00Z", "2026-01-01"),
)


@pytest.mark.parametrize(("era", "caller"), [("legacy", READER), ("auto", AGENT)], ids=ERAS)
def test_hostile_arguments_are_errors_and_never_faults(
    brain: Brain, era: str, caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    """Every argument of every tool with each of these; a fault's answer names the tool and nothing else, and is logged."""
    brain.publish(add(f"host-{era}"))
    before = len(brain.insights.history(f"host-{era}"))

    async def main() -> int:
        calls = 0
        async with connected(brain, era, caller) as client:
            for tool in (await client.list_tools()).tools:
                known = tool.input_schema["properties"]
                base = {name: value for name, value in FINE.items() if name in known}
                base |= {name: f"host-{era}" for name in ("insight_id", "memory_id") if name in known}
                for name in known:
                    for value in HOSTILE:
                        result = await client.call_tool(tool.name, base | {"request_id": f"h{calls}", name: value})
                        calls += 1
                        no_fault(tool.name, result, (name, value))
        return calls

    assert anyio.run(main) > 1000
    assert not [record for record in caplog.records if "unexpected" in record.getMessage()]
    brain.settle()
    written = len(brain.insights.history(f"host-{era}")) - before
    assert (written == 0) == (caller is READER)


FINE: dict[str, Any] = {
    "query": "x",
    "text": "t",
    "feedback_type": "goal_adjustment",
    "used": ["a"],
    "execution": swap(agent_id="agent"),
    "confidence": 0.5,
    "reason": "r",
    "wait": False,
}


def schemas(brain: Brain) -> dict[str, list[str]]:
    """The tools and the names of their arguments."""

    async def main() -> dict[str, list[str]]:
        async with connected(brain, "auto", AGENT) as client:
            return {tool.name: sorted(tool.input_schema["properties"]) for tool in (await client.list_tools()).tools}

    return anyio.run(main)


_PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40) | st.sampled_from(HOSTILE)
_JSON = st.recursive(_PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4))


@pytest.mark.parametrize("tier", [Tier.READ, Tier.ADMIN], ids=str)
def test_generated_arguments_are_no_faults_and_a_reader_writes_nothing(
    brain: Brain, tier: Tier, caplog: pytest.LogCaptureFixture
) -> None:
    tools = schemas(brain)
    brain.settle()
    before = records(brain)
    calls = st.sampled_from(sorted(tools)).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.fixed_dictionaries({}, optional=dict.fromkeys(tools[name], _JSON)),
            st.sampled_from(tools[name] or ["x"]) | st.text(max_size=10),
            _JSON,
        )
    )

    @settings(max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.lists(calls, min_size=4, max_size=10))
    def send(batch: list[tuple[str, dict[str, Any], str, Any]]) -> None:
        async def main() -> None:
            async with connected(brain, "auto", Caller(f"made-{tier}", tier)) as client:
                for name, some, extra, value in batch:
                    good = {one: FINE[one] for one in tools[name] if one in FINE}
                    for arguments in (some, good | some, good | {"request_id": "g", extra: value}):
                        no_fault(name, await client.call_tool(name, arguments), arguments)

        anyio.run(main)

    send()
    assert not [record for record in caplog.records if "unexpected" in record.getMessage()]
    brain.settle()
    assert (records(brain) == before) == (tier is Tier.READ)


def test_a_tool_that_is_none_and_a_resource_that_is_none(brain: Brain) -> None:
    async def told(client: Client, name: str) -> str:
        try:
            return str((await client.call_tool(name, {})).content)
        except MCPError as error:
            return str(error)

    async def main() -> None:
        async with connected(brain, "auto", READER) as client:
            for name in ("", "drop_table", "recall\x00", "../recall", "R" * 10_000):
                assert "nknown tool" in await told(client, name)
            for uri in ("memory://insights/%00", "memory://insights/..%2F..", "file:///etc/passwd", "memory://insights/' OR 1=1"):
                with pytest.raises(MCPError, match=r"no insight|[Uu]nknown|not found|[Ii]nvalid"):
                    await client.read_resource(uri)

    anyio.run(main)
