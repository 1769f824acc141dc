"""Ingest: whatever the size of a record, it is published or dead-lettered, and the account adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.ingest import Onlooker, outcome, publish_file
from schemas.codec import MAX_VALUE_BYTES
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.dead_letters import dead_letters
from tests.support.events import swap
from tests.support.gateway import running_brain
from tests.support.streams import read_all

GOOD = [json.dumps(swap(event_id=f"event-{n}")).encode() for n in range(3)]
REFUSED = json.dumps(swap(event_id="refused", note="x" * 900_000, status="reverted")).encode()
BEYOND = json.dumps(swap(event_id="beyond", note="x" * 2_000_000)).encode()
GROWS = json.dumps(swap(event_id="grows", note=[1])).replace("[1]", f"[{'1e15,' * 150_000}1]").encode()


@pytest.mark.parametrize("by", ["counts in the log", "looking on"])
def test_large_records_are_accounted_for(tmp_path: Path, by: str) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join([GOOD[0], REFUSED, GOOD[1], BEYOND, GROWS, GOOD[2]]))
    with running_brain(tmp_path / "data") as brain:
        onlooker, before = Onlooker(Settings(data_dir=tmp_path / "data"), brain.log), brain.log.tallies()
        published = publish_file(brain.log, file, "tool-executions", None)
        brain.settle()
        account = outcome(published, before, brain.log.tallies()) if by == "counts in the log" else onlooker.account(published)
        assert account == {
            "records": 6, "processed": 4, "duplicates": 0, "rejected": 2, "reasons": {"revert_without_gas": 1, "too_large": 1},
        }  # fmt: skip
        letters = {letter.reason: (letter.topic, letter.value) for letter in dead_letters(brain.log)}
        assert letters == {"revert_without_gas": (TOOLS_EXECUTED.name, REFUSED), "too_large": ("file:events.jsonl", BEYOND)}
        assert all(len(record.value or b"") <= MAX_VALUE_BYTES for record in read_all(brain.log, TOOLS_EXECUTED.name))
