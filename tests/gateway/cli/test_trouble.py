"""What goes wrong around a command, told in a line with a hint, never as a traceback; and what the doctor says of it."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner, Result

from gateway.brain import open_service
from gateway.cli import main
from gateway.cli.output import pass_warnings_on
from gateway.composition import open_pipeline
from gateway.keys import Caller, Tier
from gateway.settings import load_settings
from stores.sqlite import connection

EXECUTION = '{"tool": "probe", "agent_id": "a", "status": "success", "ts_executed": "2025-01-01T12:00:00Z", "reward": "1.5"}'


def run(folder: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(main, ["--data-dir", str(folder), *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trouble")
    file = folder / "one.jsonl"
    file.write_text(EXECUTION)
    assert run(folder / "data", "ingest", str(file), "--format", "tool-executions").exit_code == 0
    assert run(folder / "data", "recall-tune", "set", "min_score", "0.0").exit_code == 0
    assert run(folder / "data", "keys", "create", "desk").exit_code == 0
    return folder / "data"


@pytest.fixture
def brain(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


@contextmanager
def unconfigured() -> Iterator[None]:
    """The root logger as a fresh process has it: pytest puts handlers of its own there."""
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = before


def _is_text(path: Path) -> None:
    path.write_text("this is no database " * 200)
    Path(f"{path}-wal").unlink(missing_ok=True)


def _is_gone(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def _is_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _is_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no folder")


def _lacks_an_index(path: Path) -> None:
    for index in path.glob("*/_indices/*"):
        for file in index.iterdir():
            file.unlink()


@pytest.mark.parametrize(
    ("name", "spoil", "finding", "hint"),
    [
        ("log.db", _is_text, "log", "name another file"),
        ("log.db", _is_folder, "log", "move it away"),
        ("defi-brain.db", _is_text, "insights", "defi-brain up"),
        ("episodes", _is_file, "episodes", "move it away"),
        ("episodes", shutil.rmtree, "episodes", "defi-brain up"),
        ("defi-brain.db", _is_gone, "insights", "defi-brain up"),
        ("episodes", _lacks_an_index, "episodes", "defi-brain up"),
        ("vectors.db", _is_text, "vectors", "delete it"),
        ("keys.db", _is_text, "keys", "make new keys"),
    ],
)
def test_the_doctor_names_what_is_damaged(brain: Path, name: str, spoil: Callable[[Path], None], finding: str, hint: str) -> None:
    spoil(brain / name)
    done = run(brain, "doctor", "--json")
    (wrong,) = [check for check in json.loads(done.stdout)["checks"] if not check["ok"]]
    assert (done.exit_code, wrong["name"]) == (3, finding)
    assert hint in wrong["hint"]


@pytest.mark.parametrize(
    ("name", "finding", "library"), [("log.db", "log", sqlite3.connect), ("defi-brain.db", "insights", apsw.Connection)]
)
def test_the_doctor_names_a_file_that_is_held(
    brain: Path, name: str, finding: str, library: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held by the library that opens it: two copies of SQLite in one process do not see each other's locks."""
    monkeypatch.setattr(connection, "BUSY_MS", 10)
    monkeypatch.setattr("streams.embedded.schema.BUSY_TIMEOUT_S", 0.01)
    with closing(library(str(brain / name))) as other:
        other.execute("BEGIN IMMEDIATE")
        checks = json.loads(run(brain, "doctor", "--json").stdout)["checks"]
    (wrong,) = [check for check in checks if not check["ok"]]
    assert wrong["name"] == finding
    assert "another process" in wrong["hint"]


@pytest.mark.parametrize(
    ("variable", "value", "finding", "told"),
    [
        ("DEFI_BRAIN_WINDOW_HOUR", "3", "settings", "did you mean window_hours?"),
        ("DEFI_BRAIN_BREAKER_WARN_BPS", "900", "settings", "thresholds rise"),
        ("DEFI_BRAIN_RECALL_DEFAULT_LIMIT", "30", "settings", "default_limit"),
        ("DEFI_BRAIN_MODEL_DIR", "nowhere", "model", "does not exist"),
    ],
)
def test_the_doctor_names_settings_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, finding: str, told: str
) -> None:
    monkeypatch.setenv(variable, value)
    checks = json.loads(run(tmp_path, "doctor", "--json").stdout)["checks"]
    wrong = [check for check in checks if not check["ok"]]
    assert finding in [check["name"] for check in wrong]
    assert any(told in f"{check['detail']} {check['hint']}" for check in wrong)


def test_the_doctor_tells_a_model_that_does_not_load_and_stores_of_another(brain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = brain.parent / "model"
    folder.mkdir()
    (folder / "model.onnx").write_text("x")
    (folder / "tokenizer.json").write_text("{}")
    monkeypatch.setenv("DEFI_BRAIN_MODEL_DIR", str(folder))
    checks = json.loads(run(brain, "doctor", "--json").stdout)["checks"]
    assert [check["name"] for check in checks if not check["ok"]] == ["model", "insights", "episodes"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("insights", "restore", "abc"),
        ("confidence", "set", "abc", "0.5"),
        ("confidence", "decay", "abc"),
        ("confidence", "boost", "abc"),
        ("directives", "archive", "abc"),
        ("rl", "log", "abc"),
        ("rl", "train"),
        ("forget", "abc", "--yes"),
        ("keys", "list"),
        ("keys", "revoke", "abc"),
    ],
)
def test_what_is_about_something_known_makes_no_brain_of_a_misspelt_folder(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(tmp_path / "misspelt", *arguments)
    assert done.exit_code == 1
    assert "misspelt" in done.stderr
    assert "hint: " in done.stderr
    assert not (tmp_path / "misspelt").exists()


def test_a_note_is_no_directive(brain: Path) -> None:
    assert run(brain, "directives", "submit", "No swaps above 100 ETH.").exit_code == 0
    (one,) = json.loads(run(brain, "directives", "list", "--json").stdout)["directives"]
    assert run(brain, "directives", "archive", one["id"][:8]).exit_code == 0
    with open_service(load_settings(data_dir=str(brain))) as service:
        note = service.remember(Caller("desk", Tier.FEEDBACK), "n-1", "The blue pool reverts at noon.", wait_s=20)
    done = run(brain, "directives", "archive", str(note.insight_id))
    assert (done.exit_code, "is no directive" in done.stderr) == (1, True)
    assert json.loads(run(brain, "insights", "show", str(note.insight_id), "--json").stdout)["insight"]["status"] == "active"


def test_a_command_writes_no_library_s_and_no_record_s_log_lines(brain: Path) -> None:
    file = brain.parent / "bad.jsonl"
    file.write_text("not json\n[1]\n")
    with unconfigured():
        done = run(brain, "ingest", str(file), "--format", "tool-executions")
    assert done.stdout == "2 records: 0 processed, 0 duplicates, 2 rejected (1 not_json, 1 not_object)\n"
    assert done.stderr.splitlines() == ["hint: defi-brain dlq list shows what was wrong with each"]


def test_a_command_passes_warnings_of_this_program_on_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured():
        pass_warnings_on()
        logging.getLogger("stores.embedding").warning("vectors are remembered in memory only")
        logging.getLogger("streams.batch").warning("rejected", extra={"message_id": "m", "reason": "not_json"})
        logging.getLogger("aiokafka").error("Unable connect")
    assert capsys.readouterr().err == "warning: vectors are remembered in memory only\n"


def test_what_others_published_before_is_not_counted_as_ingested(brain: Path) -> None:
    assert run(brain, "simulate", "--seed", "1", "--events", "5", "--publish").exit_code == 0
    file = brain.parent / "another.jsonl"
    file.write_text(EXECUTION.replace("1.5", "2.5"))
    done = json.loads(run(brain, "ingest", str(file), "--format", "tool-executions", "--json").stdout)
    assert (done["records"], done["processed"], done["duplicates"], done["rejected"]) == (1, 1, 0, 0)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_file_of_which_every_record_is_rejected_fails(brain: Path, flags: tuple[str, ...]) -> None:
    file = brain.parent / "foreign.jsonl"
    file.write_text('{"foreign": 1}\n{"foreign": 2}\n')
    assert run(brain, "ingest", str(file), "--format", "tool-executions", *flags).exit_code == 1
    file.write_text(f'{{"foreign": 3}}\n{EXECUTION.replace("1.5", "3.5")}\n')
    done = run(brain, "ingest", str(file), "--format", "tool-executions", *flags)
    assert done.exit_code == 0
    assert flags or "dlq list" in done.stderr


def test_a_lost_store_is_made_again_elsewhere_and_in_place(brain: Path) -> None:
    whole = json.loads(run(brain, "fingerprint", "--json").stdout)
    shutil.rmtree(brain / "episodes")
    done = run(brain, "rebuild", "--into", str(brain.parent / "again"), "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["rebuilt"], told["running"], told["equal"]) == (0, whole, None, None)
    assert "nothing to compare with" in run(brain, "rebuild", "--into", str(brain.parent / "words")).stdout
    nothing = brain.parent / "nothing.jsonl"
    nothing.write_text("")
    assert run(brain, "ingest", str(nothing), "--format", "tool-executions").exit_code == 0
    assert json.loads(run(brain, "fingerprint", "--json").stdout) == whole


@pytest.mark.parametrize(
    "arguments",
    [
        ("insights", "follow", "--timeout", "nan"),
        ("insights", "list", "--min-confidence", "nan"),
        ("confidence", "set", "abc", "nan"),
        ("confidence", "decay", "abc", "--by", "nan"),
        ("serve", "--rate", "inf"),
    ],
)
def test_what_is_no_finite_number_is_wrong_usage(brain: Path, arguments: tuple[str, ...]) -> None:
    done = run(brain, *arguments)
    assert (done.exit_code, "is not a finite number" in done.stderr) == (2, True)


def test_the_help_names_every_format_of_ingest(tmp_path: Path) -> None:
    from streams.sources import FORMATS

    shown = run(tmp_path, "ingest", "--help").stdout
    assert [name for name in FORMATS if name not in shown] == []


def test_simulate_says_where_the_events_went_and_refuses_what_belongs_to_an_agent(tmp_path: Path) -> None:
    assert "5 simulated events published" in run(tmp_path, "simulate", "--seed", "1", "--events", "5", "--publish").stderr
    file = tmp_path / "market.jsonl"
    assert f"5 simulated events in {file}" in run(tmp_path, "simulate", "--seed", "1", "--events", "5", "--out", str(file)).stderr
    for option in (("--market", "drifting"), ("--orders", "10")):
        done = run(tmp_path, "simulate", "--seed", "1", "--events", "5", *option)
        assert (done.exit_code, done.stdout, "belong to --agent" in done.stderr) == (2, "", True)


def test_a_demo_whose_work_another_process_does_claims_no_counts(brain: Path) -> None:
    settings = load_settings(data_dir=str(brain))
    stop = threading.Event()
    with open_pipeline(settings) as pipeline:
        running = threading.Thread(target=pipeline.driver.run, args=(stop,))
        running.start()
        try:
            done = run(brain, "demo", "--events", "100")
        finally:
            stop.set()
            running.join()
    assert done.exit_code == 0
    assert done.stdout.startswith("a pipeline that runs already did the work")


def test_what_is_no_cluster_is_no_place_to_mirror_to(brain: Path) -> None:
    done = run(brain, "mirror", "--from", f"embedded://{brain / 'log.db'}", "--to", "elsewhere")
    assert (done.exit_code, "name it as kafka://HOST:PORT" in done.stderr) == (1, True)


def test_a_cluster_that_is_not_there_is_two_lines_and_a_finding(brain: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers
        broker = ("--broker", f"kafka://127.0.0.1:{taken.getsockname()[1]}")
        with unconfigured():
            done = run(brain, *broker, "status")
        checks = json.loads(run(brain, *broker, "doctor", "--json").stdout)["checks"]
    error, hint = done.stderr.splitlines()
    assert (done.exit_code, "cannot be reached" in error, hint.startswith("hint: does it run")) == (1, True, True)
    (wrong,) = [check for check in checks if not check["ok"]]
    assert (wrong["name"], bool(wrong["hint"])) == ("log", True)


def test_what_stands_in_the_way_of_a_folder_gets_a_hint(brain: Path) -> None:
    _is_file(brain / "episodes")
    done = run(brain, "directives", "submit", "No swaps above 100 ETH.")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "hint: move it away, or name another place")


def test_a_list_that_a_filter_empties_does_not_say_that_there_is_nothing_yet(brain: Path) -> None:
    assert run(brain, "insights", "list").stdout == "no insights yet\n"
    assert run(brain, "insights", "list", "--key", "swap:1:nothing").stdout == "no insights like that\n"
    assert run(brain, "regimes", "list", "--regime", "turbulent").stdout == "no market is in that regime\n"
