"""A running ``up``: others publish, follow and look while it works; it stops when told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.test_cli import document, run

COMMAND = (sys.executable, "-c", "from gateway.cli import main; main()")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the pipeline in ``tmp_path/data``, ready for records."""
    process = subprocess.Popen([*COMMAND, "--data-dir", str(tmp_path / "data"), "up"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "running on" in process.stderr.readline()
    yield process
    process.kill()
    process.wait()


def test_ingest_leaves_the_work_to_a_running_up_and_waits_for_it(tmp_path: Path, up: subprocess.Popen[str]) -> None:
    market, data = tmp_path / "market.jsonl", tmp_path / "data"
    run("simulate", "--seed", "3", "--events", "300", "--out", str(market))
    found = document("ingest", str(market), "--format", "tool-executions", data=data)
    assert (found["records"], found["processed"], found["duplicates"], found["rejected"]) == (300, 300, 0, 0)
    assert json.loads(run("status", "--json", data=data).stdout)["driver_pid"] == up.pid
    up.send_signal(signal.SIGTERM)
    assert up.wait(timeout=60) == 0
    assert document("rebuild", "--into", str(tmp_path / "new"), data=data)["equal"] is True


def test_a_second_up_is_refused_in_one_line(tmp_path: Path, up: subprocess.Popen[str]) -> None:
    second = run("up", data=tmp_path / "data")
    assert second.exit_code == 1
    assert [line.split(":")[0] for line in second.stderr.splitlines()] == ["error", "hint"]
    assert str(up.pid) in second.stderr
