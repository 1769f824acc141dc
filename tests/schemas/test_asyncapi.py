"""The committed AsyncAPI document is what the topics say, and every reference in it leads somewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas import asyncapi
from schemas.codec import FROM_OUTSIDE
from schemas.topics import CHECKPOINTS, TOPICS


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def test_it_is_committed_as_generated() -> None:
    assert asyncapi.main(["--check"]) == 0


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi.document()
    found = list(references(document))
    assert len(found) > 20
    for reference in found:
        if reference.startswith("#/"):
            node: Any = document
            for step in reference[2:].split("/"):
                node = node[step]
        else:
            schema = json.loads((asyncapi.FILE.parent / reference).read_text())
            assert schema["$schema"].endswith("2020-12/schema")


def test_every_topic_but_our_own_is_in_it() -> None:
    channels = asyncapi.document()["channels"].values()
    described = {channel["address"]: channel["bindings"]["kafka"]["partitions"] for channel in channels}
    assert described == {topic.name: topic.partitions for topic in TOPICS if topic != CHECKPOINTS}


def test_outsiders_send_what_producers_may_write_and_receive_the_rest() -> None:
    """A producer's rights (docs/kafka.md) and what is read as from outside are the same, but for what the gateway alone sends."""
    operations = asyncapi.document()["operations"]
    sent = {operation["channel"]["$ref"].rpartition("/")[2] for operation in operations.values() if operation["action"] == "send"}
    assert sent == FROM_OUTSIDE
    rights = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text().partition("| producer | ")[2].partition("|")[0]
    assert {topic.carries for topic in TOPICS if f"`{topic.name}`" in rights} == sent | {"model-said"}
