"""Backup and restore: taken under load it restores to the same brain; damaged, cut short or misplaced it restores nothing."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.backup import MANIFEST, read_manifest, restore, take
from gateway.cli import main
from gateway.composition import Layout, open_sinks, stage_slots
from gateway.fingerprint import fingerprint
from gateway.keys import KeyStore, Tier
from schemas.errors import BrainError
from schemas.events import ToolExecution
from schemas.settings import Settings
from schemas.topics import TOOLS_EXECUTED
from streams.embedded.driver import EmbeddedDriver
from streams.embedded.log import EmbeddedLog
from streams.publisher import Publisher
from tests.support.events import swap
from tests.support.gateway import WordEmbedder, running_brain
from tests.support.sqlite import add, at, note, op

NOW = datetime(2026, 1, 31, tzinfo=UTC)
EVENTS = 240


def events(first: int, count: int) -> list[ToolExecution]:
    return [
        ToolExecution.model_validate(swap(event_id=f"event-{n}", ts_executed=at(n / 30).isoformat(), chain_id=1 + n % 3))
        for n in range(first, first + count)
    ]


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedder that the running brain has; a restored one must have the same."""
    from contextlib import contextmanager

    @contextmanager
    def opened(settings: Settings):  # type: ignore[no-untyped-def]
        yield WordEmbedder()

    monkeypatch.setattr("gateway.backup.open_embedder", opened)


def run_on(settings: Settings) -> str:
    """Let the stages take up what they had not, and the fingerprint of what comes of it."""
    where, embedder = Layout(settings.data_dir), WordEmbedder()
    with EmbeddedLog(settings.log_path) as log, open_sinks(where, embedder) as sinks:
        with EmbeddedDriver(log, stage_slots(settings, embedder, sinks)) as driver:
            driver.run_until_idle()
        return fingerprint(sinks.episodes, sinks.insights).sha256


def test_a_backup_under_load_restores_to_the_same_brain(tmp_path: Path) -> None:
    """Backups are taken while a producer and every stage are at work; each, run on to its end, becomes what a brain becomes that
    was given the records that were in the log at that moment and nothing else."""
    settings = Settings(data_dir=tmp_path / "running", window_min_episodes=50)
    settings.data_dir.mkdir()
    taken: list[Path] = []
    with running_brain(settings.data_dir) as brain:
        with KeyStore(Layout(settings.data_dir).keys) as keys:
            _, secret = keys.create("agent", Tier.READ, NOW)
        producing = threading.Thread(target=lambda: [Publisher(brain.log).publish(event) for event in events(0, EVENTS)])
        producing.start()
        Publisher(brain.log).publish_many([add("a", text="One thing."), note("n", "Another thing."), op("UPVOTE", "a", "up")])
        while producing.is_alive():
            destination = tmp_path / f"backup-{len(taken)}"
            take(settings, destination, NOW)
            taken.append(destination)
        producing.join()
        brain.settle()
    final = run_on(settings)
    last = tmp_path / "last"
    take(settings, last, NOW)
    assert len(taken) > 1
    for number, backup in enumerate([taken[0], taken[-1], last]):
        target = Settings(data_dir=tmp_path / f"restored-{number}", window_min_episodes=50)
        done = restore(target, backup)
        grown = run_on(target)
        with EmbeddedLog(target.log_path) as log, EmbeddedLog(settings.log_path) as source:
            assert log.log_id == source.log_id
            published = sum(log.end_offsets(TOOLS_EXECUTED.name).values())
        assert published <= EVENTS
        if backup == last:
            assert done.fingerprint.sha256 == final
        # The producer's remaining records, published to the restored brain, make it the same as the one that was never restored.
        with EmbeddedLog(target.log_path) as log:
            Publisher(log).publish_many(events(0, EVENTS))
        assert run_on(target) == final, f"backup {number} with {published} records"
        assert number == 2 or grown != final or published == EVENTS
        with KeyStore(Layout(target.data_dir).keys) as keys:
            assert keys.verify(secret) is not None


@pytest.fixture
def backed_up(tmp_path: Path) -> tuple[Settings, Path]:
    settings = Settings(data_dir=tmp_path / "data")
    settings.data_dir.mkdir()
    with running_brain(settings.data_dir) as brain:
        brain.publish(*events(0, 5), add("a", text="One thing."))
    take(settings, tmp_path / "backup", NOW)
    return settings, tmp_path / "backup"


def test_a_damaged_backup_is_not_restored(backed_up: tuple[Settings, Path], tmp_path: Path) -> None:
    _, backup = backed_up
    whole = (backup / "log.db").read_bytes()
    target = Settings(data_dir=tmp_path / "restored")
    for damaged in (whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], b""):
        (backup / "log.db").write_bytes(damaged)
        with pytest.raises(BrainError, match="not what was backed up"):
            restore(target, backup)
        assert not target.data_dir.exists()
    (backup / "log.db").unlink()
    with pytest.raises(BrainError, match="not what was backed up"):
        restore(target, backup)


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "\x00"])
def test_a_bad_manifest_is_told(backed_up: tuple[Settings, Path], text: str) -> None:
    _, backup = backed_up
    (backup / MANIFEST).write_text(text)
    with pytest.raises(BrainError, match=r"damaged, or of a later version"):
        read_manifest(backup)


def test_nothing_is_overwritten(backed_up: tuple[Settings, Path], tmp_path: Path) -> None:
    settings, backup = backed_up
    with pytest.raises(BrainError, match="exists"):
        take(settings, backup, NOW)
    with pytest.raises(BrainError, match="is there already"):
        restore(settings, backup)


@pytest.mark.parametrize("name", ["log.db", "keys.db"])
def test_nothing_is_restored_onto_what_a_killed_process_left(backed_up: tuple[Settings, Path], tmp_path: Path, name: str) -> None:
    target = Settings(data_dir=tmp_path / "target")
    target.data_dir.mkdir()
    (target.data_dir / f"{name}-wal").write_bytes(b"pages of a database that is gone")
    with pytest.raises(BrainError, match=rf"{name} is gone, but {name}-wal"):
        restore(target, backed_up[1])
    assert [path.name for path in target.data_dir.iterdir()] == [f"{name}-wal"]


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    settings.data_dir.mkdir()
    settings.log_path.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    with pytest.raises(BrainError):
        take(settings, tmp_path / "backup", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_cannot_be_backed_up_is_said_in_a_line(tmp_path: Path) -> None:
    run = CliRunner()
    for arguments, told in (
        (["--data-dir", str(tmp_path / "none"), "backup", str(tmp_path / "b")], "there is no log"),
        (["--broker", "kafka://127.0.0.1:1", "backup", str(tmp_path / "b")], "Kafka cluster"),
        (["--data-dir", str(tmp_path / "new"), "restore", str(tmp_path)], "is no backup"),
    ):
        result = run.invoke(main, arguments)
        assert result.exit_code == 1
        assert told in result.stderr
        assert "hint: " in result.stderr
        assert "Traceback" not in result.stderr


def test_the_commands_tell_what_they_did(backed_up: tuple[Settings, Path], tmp_path: Path) -> None:
    settings, _ = backed_up
    run = CliRunner()
    made = run.invoke(main, ["--data-dir", str(settings.data_dir), "backup", str(tmp_path / "again"), "--json"])
    assert made.exit_code == 0, made.output
    manifest = json.loads(made.stdout)
    assert manifest["records"] == sum(sum(ends) for ends in manifest["ends"].values())
    assert set(manifest["files"]) == {"log.db", "keys.db"}
    back = run.invoke(main, ["--data-dir", str(tmp_path / "new"), "restore", str(tmp_path / "again"), "--json"])
    assert back.exit_code == 0, back.output
    assert json.loads(back.stdout)["fingerprint"]["sha256"] == run_on(settings)
    assert (tmp_path / "again").stat().st_mode & 0o077 == 0
    assert (tmp_path / "new" / "log.db").stat().st_mode & 0o077 == 0
