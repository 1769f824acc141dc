"""The command line on a small brain: every command, text and JSON, exit codes, one-line errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.composition import open_insights
from gateway.organiser import Organiser
from schemas.settings import Settings

EVENTS = 900


def run(*arguments: str, data: Path | None = None) -> Result:
    """Run a command in this process."""
    before = ("--data-dir", str(data)) if data else ()
    return CliRunner().invoke(main, [*before, *arguments])


def document(*arguments: str, data: Path) -> dict[str, object]:
    """A command's JSON document; the command must succeed."""
    done = run(*arguments, "--json", data=data)
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A brain that ran the demo."""
    data = tmp_path_factory.mktemp("brain")
    done = run("demo", "--events", str(EVENTS), "--json", data=data)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["simulated"], found["events"], found["episodes"]) == (True, EVENTS, EVENTS)
    return data


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group with its path."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.mark.parametrize("path", [path for path, _ in commands(main)], ids=" ".join)
def test_every_command_has_help_and_stands_in_the_docs(path: tuple[str, ...]) -> None:
    done = run(*path, "--help")
    assert done.exit_code == 0
    assert len(done.output.splitlines()) > 3
    docs = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert f"`{' '.join(path)}" in docs


def test_status_accounts_for_every_record(brain: Path) -> None:
    stages = document("status", data=brain)["stages"]
    assert isinstance(stages, dict)
    assert set(stages) == {"embed", "episodes", "signals", "distil", "levels", "breakers", "writer"}
    for stage in stages.values():
        assert stage["received"] == stage["processed"] + stage["duplicates"] + stage["late"] + stage["rejected"]
        assert stage["lag"] == 0


def test_what_was_learned_is_organised_without_an_up(brain: Path) -> None:
    """``demo`` and ``ingest`` organise at their end, and the stages have read that as well."""
    assert document("links", "list", data=brain)["links"]
    with open_insights(Settings(data_dir=brain)) as store:
        assert Organiser(store, None).round() == 0


def test_ingest_organises_what_a_file_taught(tmp_path: Path) -> None:
    file, data = tmp_path / "market.jsonl", tmp_path / "data"
    document("simulate", "--seed", "7", "--events", str(EVENTS), "--out", str(file), data=tmp_path)
    document("ingest", str(file), "--format", "tool-executions", data=data)
    assert document("links", "list", data=data)["links"]


def test_insights_can_be_listed_shown_and_followed(brain: Path) -> None:
    listed = document("insights", "list", data=brain)["insights"]
    assert isinstance(listed, list)
    assert listed, "a market of this length teaches something"
    shown = document("insights", "show", listed[0]["id"][:8], data=brain)
    assert shown["insight"] == listed[0]
    history = shown["history"]
    assert isinstance(history, list)
    assert [change["revision"] for change in history] == list(range(1, listed[0]["revision"] + 1))
    assert listed[0]["text"] in run("insights", "list", data=brain).stdout
    followed = run("insights", "follow", "--from-start", "--jsonl", "--timeout", "0", data=brain)
    updates = [json.loads(line) for line in followed.stdout.splitlines()]
    mine = [update["revision"] for update in updates if update["insight"]["id"] == listed[0]["id"]]
    assert mine == sorted(mine)
    assert mine[-1] == listed[0]["revision"]


@pytest.mark.parametrize(
    "query", ["large swap high cost", "0x5100000000000000000000000000000000000002", "Alice')) OR true--", "''", "换"]
)
def test_episodes_can_be_searched_with_any_text(brain: Path, query: str) -> None:
    hits = document("episodes", "search", query, data=brain)["hits"]
    assert isinstance(hits, list)
    if query.isascii() and query != "''":
        assert hits
    if hits:
        assert document("episodes", "show", hits[0]["id"][:12], data=brain)["reflection"] == hits[0]["reflection"]


def test_what_is_not_there_is_one_line_with_a_hint(brain: Path, tmp_path: Path) -> None:
    for arguments, data in (
        (("insights", "show", "nope"), brain),
        (("episodes", "show", "nope"), brain),
        (("dlq", "show", "nope"), brain),
        (("insights", "list"), tmp_path),
        (("episodes", "search", "x"), tmp_path),
        (("status",), tmp_path),
    ):
        done = run(*arguments, data=data)
        assert done.exit_code == 1, arguments
        lines = done.stderr.splitlines()
        assert [line.split(":")[0] for line in lines] == ["error", "hint"], done.stderr


def test_wrong_usage_is_exit_code_2(brain: Path) -> None:
    assert run("insights", "list", "--category", "nonsense", data=brain).exit_code == 2
    assert run("ingest", "no-such-file", "--format", "tool-executions", data=brain).exit_code == 2
    assert run("no-such-command").exit_code == 2
    assert run("rebuild", "--into", str(brain), data=brain).exit_code == 2


def test_a_wrong_format_is_refused_by_name(brain: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("{}\n")
    done = run("ingest", str(file), "--format", "csv", data=brain)
    assert done.exit_code == 2
    assert "csv" in done.stderr
    assert "tool-executions" in done.stderr


def test_rebuild_gives_the_same_fingerprint(brain: Path, tmp_path: Path) -> None:
    found = document("rebuild", "--into", str(tmp_path / "new"), data=brain)
    assert found["equal"] is True
    assert found["running"] == document("fingerprint", data=brain)
    assert document("fingerprint", data=tmp_path / "new") == found["rebuilt"]


def test_the_doctor_finds_a_healthy_brain_and_a_sick_one(brain: Path, tmp_path: Path) -> None:
    assert document("doctor", data=brain)["healthy"] is True
    (tmp_path / "log.db").write_text("this is no database " * 100)
    done = run("doctor", "--json", data=tmp_path)
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert [check["name"] for check in found["checks"] if not check["ok"]] == ["log"]


def test_signals_and_dead_letters_are_lists(brain: Path) -> None:
    assert isinstance(document("signals", data=brain)["signals"], list)
    assert document("dlq", "list", data=brain) == {"total": 0, "reasons": {}, "letters": []}


def test_simulate_writes_events_and_truth(tmp_path: Path) -> None:
    out, truth = tmp_path / "market.jsonl", tmp_path / "truth.json"
    found = document("simulate", "--seed", "4", "--events", "50", "--out", str(out), "--truth", str(truth), data=tmp_path)
    assert found["simulated"] is True
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(events) == 50
    assert all(event["simulated"] for event in events)
    assert json.loads(truth.read_text())["effects"]


def test_ingest_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    run("simulate", "--seed", "4", "--events", "20", "--out", str(file), data=tmp_path)
    lines = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([*lines, lines[0], b"not json", b'{"tool": "\xff"}', b"{}"]) + b"\n")
    found = document("ingest", str(file), "--format", "tool-executions", data=tmp_path / "data")
    assert (found["records"], found["processed"], found["duplicates"], found["rejected"]) == (24, 20, 1, 3)
    assert found["reasons"] == {"contract_violation": 1, "not_json": 1, "not_utf8": 1}
    letters = document("dlq", "list", data=tmp_path / "data")["letters"]
    assert isinstance(letters, list)
    raw = run("dlq", "show", letters[0]["id"], "--raw", data=tmp_path / "data")
    assert raw.stdout_bytes in (b"not json", b'{"tool": "\xff"}', b"{}")
