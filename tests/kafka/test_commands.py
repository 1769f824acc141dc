"""The commands for Kafka, as a person gives them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.kafka.broker import free_port
from gateway.brain import open_service
from gateway.cli import main
from gateway.kafka import open_slots
from gateway.keys import Caller, Tier
from schemas.settings import Settings
from schemas.topics import SIGNALS_RAISED, TOOLS_EXECUTED
from streams.embedded.log import EmbeddedLog
from streams.kafka.client import group_of
from streams.kafka.log import KafkaLog
from streams.publisher import Publisher
from tests.support.streams import execution, read_all
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


def run(settings: Settings, *arguments: str, code: int = 0) -> Any:
    """A command's JSON document."""
    given = ["--broker", settings.broker, "--data-dir", str(settings.data_dir), *arguments, "--json"]
    done = CliRunner().invoke(main, given, env={"DEFI_BRAIN_KAFKA_APP": settings.kafka_app})
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def refused(settings: Settings, *arguments: str) -> list[str]:
    """What a command that is refused says, without the word before each line."""
    given = ["--broker", settings.broker, "--data-dir", str(settings.data_dir), *arguments]
    done = CliRunner().invoke(main, given, env={"DEFI_BRAIN_KAFKA_APP": settings.kafka_app})
    assert done.exit_code == 1, done.output
    told = [line.split(": ", 1) for line in done.stderr.splitlines()[-2:]]
    assert [line[0] for line in told] == ["error", "hint"]
    return [line[1] for line in told]


@contextmanager
def running(settings: Settings, errors: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process of its own, told to stop at the end; it must end well."""
    command = [sys.executable, "-c", "from gateway.cli import main; main()", "--broker", settings.broker]
    with errors.open("wb") as told:
        process = subprocess.Popen(
            [*command, "--data-dir", str(settings.data_dir), *arguments],
            stdout=subprocess.PIPE,
            stderr=told,
            env={**os.environ, "DEFI_BRAIN_KAFKA_APP": settings.kafka_app, **environment},
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert process.returncode == 0, errors.read_text()


def page(port: int, path: str) -> str | None:
    """A page of a metrics port; None while there is none, or it says no."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def test_every_command_on_a_cluster(kafka: Settings, tmp_path: Path) -> None:
    """One brain, from the first record to an operator's word, by commands alone; first without, then with an ``up`` beside."""
    market, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    run(kafka, "simulate", "--seed", "3", "--events", "120", "--out", str(market))
    second.write_bytes(b"\n".join([*market.read_bytes().splitlines()[:50], b"{"]))
    found = run(kafka, "ingest", str(market), "--format", "tool-executions")
    assert (found["records"], found["processed"], found["duplicates"], found["rejected"]) == (120, 120, 0, 0)
    looked = run(kafka, "status")
    assert (looked["episodes"], looked["stages"]["embed"]["received"], looked["log_bytes"]) == (120, 120, None)
    assert {one["lag"] for one in looked["stages"].values()} == {0}
    assert {one["name"]: one["ok"] for one in run(kafka, "doctor")["checks"]}["log"] is True
    rebuilt = run(kafka, "rebuild", "--into", str(tmp_path / "rebuilt"))
    assert rebuilt["equal"] is True
    assert run(kafka, "fingerprint") == rebuilt["running"]
    port = free_port()
    with running(kafka, tmp_path / "errors", "up", DEFI_BRAIN_METRICS_PORT=str(port)) as up:
        until(lambda: page(port, "/readyz") is not None, "it is ready", living=up)
        found = run(kafka, "ingest", str(second), "--format", "tool-executions")
        assert (found["records"], found["processed"], found["duplicates"], found["rejected"]) == (51, 0, 50, 1)
        assert found["reasons"] == {"not_json": 1}
        run(kafka, "simulate", "--seed", "4", "--events", "30", "--publish")
        submitted = run(kafka, "directives", "submit", "No leverage over 2x", "--type", "market_context")
        assert submitted["state"] == "applied"
        until(lambda: run(kafka, "status")["episodes"] == 150, "all are episodes", living=up)
        assert {one["members"] for one in run(kafka, "status")["stages"].values()} == {1, None}
        with open_service(kafka) as service:
            operator = Caller("operator", Tier.ADMIN)
            noted = service.remember(operator, "note", "WBTC pools are thin on Sundays", wait_s=30)
            assert (noted.state, noted.event) == ("applied", "new")
            assert service.stats(operator).pipeline == "elsewhere"
        given = ["insights", "follow", "--group", "desk", "--from-start", "--jsonl", "--timeout", "0"]
        for expected in (True, False):
            done = CliRunner().invoke(
                main, ["--broker", kafka.broker, "--data-dir", str(kafka.data_dir), *given],
                env={"DEFI_BRAIN_KAFKA_APP": kafka.kafka_app},
            )  # fmt: skip
            texts = [json.loads(line)["insight"]["text"] for line in done.stdout.splitlines()]
            assert ("No leverage over 2x" in texts) is expected, "a group gets each update once"
        metrics = page(port, "/metrics") or ""
        assert 'defi_brain_kafka_assigned_partitions{stage="embed"} 4.0' in metrics
        assert 'kafka_consumergroup_lag{consumergroup="writer",partition="0",topic="brain.insights.operations.v1"} 0.0' in metrics
        assert "defi_brain_writer_epoch 2.0" in metrics


def test_what_cannot_be_is_said_in_a_line(kafka: Settings, tmp_path: Path) -> None:
    embedded = kafka.model_copy(update={"broker": f"embedded://{tmp_path / 'log.db'}"})
    for arguments in (("worker", "all"), ("replay", "embed", "--from-offset", "0")):
        assert "works on Kafka" in refused(embedded, *arguments)[0]
    assert "set broker to kafka://" in refused_without_hint(embedded, "topics", "check")
    nobody = kafka.model_copy(update={"broker": f"kafka://127.0.0.1:{free_port()}"})
    assert "cannot be reached" in refused(nobody, "status")[0]
    with open_slots(kafka, ["writer"]):
        assert "is being written by process" in refused(kafka, "worker", "writer")[0]
        market = tmp_path / "market.jsonl"
        run(kafka, "simulate", "--seed", "3", "--events", "5", "--out", str(market))
        assert "is being written" in refused(kafka, "ingest", str(market), "--format", "tool-executions")[0]
    with KafkaLog(kafka) as log:
        assert read_all(log, TOOLS_EXECUTED.name) == [], "who cannot see records through does not publish them"


def refused_without_hint(settings: Settings, *arguments: str) -> str:
    """The one line of a command that is refused and has no advice."""
    given = ["--broker", settings.broker, "--data-dir", str(settings.data_dir), *arguments]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.splitlines()
    return line


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
    port = free_port()
    environment = {**os.environ, "DEFI_BRAIN_KAFKA_APP": kafka.kafka_app, "DEFI_BRAIN_METRICS_PORT": str(port)}
    with (tmp_path / "errors").open("wb") as errors, KafkaLog(kafka) as log:
        worker = subprocess.Popen(
            [*command, "worker", "embed", "signals", "--json"], stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        try:
            until(lambda: sum(log.committed(group_of(kafka, "signals")).values()) >= 40, "all have been read", living=worker)
            metrics = page(port, "/metrics") or ""
            parts = re.findall(r"scrape_errors_total{part=.(\w+).} 0.0", metrics)
            assert parts == ["log", "meter", "cluster", "files", "info", "embedder"], "every part could be read"
            assert 'defi_brain_stage_received_records_total{stage="signals"} 40.0' in metrics
            assert set(json.loads(page(port, "/healthz") or "")["stages"]) == {"embed", "signals"}
            assert refused(settings, "replay", "signals", "--from-offset", "1")[0] == "a worker signals is running"
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
