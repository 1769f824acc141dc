"""The commands for Kafka, as a person gives them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway.cli import main
from schemas.settings import Settings
from schemas.topics import SIGNALS_RAISED, TOOLS_EXECUTED
from streams.embedded.log import EmbeddedLog
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.publisher import Publisher
from tests.support.streams import execution, read_all

pytestmark = pytest.mark.kafka


def run(settings: Settings, *arguments: str, code: int = 0) -> Any:
    """A command's JSON document."""
    given = ["--broker", settings.broker, "--data-dir", str(settings.data_dir), *arguments, "--json"]
    done = CliRunner().invoke(main, given, env={"DEFI_BRAIN_KAFKA_APP": settings.kafka_app})
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_topics_are_checked_and_made(kafka: Settings) -> None:
    assert run(kafka, "topics", "check") == {"findings": []}
    assert run(kafka, "topics", "apply") == {"done": []}


def test_a_log_moves_a_worker_runs_and_letters_are_sent_again(kafka: Settings, tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log.db") as log:
        publisher = Publisher(log)
        publisher.publish_many(execution(n, key=n % 7) for n in range(40))
        publisher.publish_raw(TOOLS_EXECUTED, b"bad", b"{")
    moved = run(kafka, "mirror", "--from", f"embedded://{tmp_path / 'log.db'}", "--to", kafka.broker)
    assert moved["copied"] == 41
    settings = kafka.model_copy(update={"data_dir": tmp_path / "data"})
    command = [
        sys.executable,
        "-c",
        "from gateway.cli import main; main()",
        "--broker",
        kafka.broker,
        "--data-dir",
        str(settings.data_dir),
    ]
    environment = {**os.environ, "DEFI_BRAIN_KAFKA_APP": kafka.kafka_app}
    with (tmp_path / "errors").open("wb") as errors, KafkaLog(kafka) as log:
        worker = subprocess.Popen(
            [*command, "worker", "embed", "signals", "--json"], stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        try:
            deadline = time.monotonic() + 90
            while sum(log.committed(group_of(kafka, "signals")).values()) < 40:
                assert worker.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            worker.send_signal(signal.SIGTERM)
            out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, (tmp_path / "errors").read_text()
        assert json.loads(out)
        letters = run(settings, "dlq", "list")
        assert letters["reasons"] == {"not_json": 1}
        (sent,) = run(settings, "dlq", "replay", letters["letters"][0]["id"])["sent"]
        (again,) = [
            one for one in read_all(log, TOOLS_EXECUTED.name) if (one.partition, one.offset) == (sent["partition"], sent["offset"])
        ]
        assert (again.key, again.value) == (b"bad", b"{")
        replayed = run(settings, "replay", "signals", "--from-offset", "1")
        assert {one["offset"] for one in replayed["offsets"]} <= {0, 1}
        assert log.committed(group_of(kafka, "signals")) == {
            (one["topic"], one["partition"]): one["offset"] for one in replayed["offsets"]
        }
        assert read_all(log, SIGNALS_RAISED.name) == []
