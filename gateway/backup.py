"""Backup and restore: the log and the keys are copied, the stores are made again.

The stores follow from the log (law 1), so a copy of the log is a copy of everything that was ever learned, and it is consistent by
itself: one state of one file, taken while producers and stages go on. A copied store would only be faster to restore; it would also
have to match the log to the record. The keys are no content of the log and are copied beside it. A manifest holds the size and
SHA-256 of each file and where each topic ended, so a backup that was damaged or cut short is not restored.

A backup appears under its name only when it is whole: it is made beside it and renamed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.composition import Layout, layout, open_embedder, open_sinks
from gateway.fingerprint import Fingerprint, fingerprint
from gateway.keys import KeyStore
from schemas.errors import BrainError
from schemas.settings import Settings
from schemas.topics import TOPICS
from schemas.types import iso
from streams.embedded.copying import copy_log
from streams.embedded.log import EmbeddedLog
from streams.embedded.schema import refuse_orphan
from streams.rebuild import fold

LOG, KEYS, MANIFEST = "log.db", "keys.db", "manifest.json"
_CHUNK = 1 << 20


class FileEntry(BaseModel):
    """A file of a backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What a backup holds. ``ends`` are the offsets after each partition's last record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    version: str
    taken: str
    log_id: str
    records: int
    ends: dict[str, tuple[int, ...]]
    files: dict[str, FileEntry]


@dataclass(frozen=True, slots=True)
class Restored:
    """A brain that was restored."""

    manifest: Manifest
    records: int
    fingerprint: Fingerprint


def take(settings: Settings, destination: Path, now: datetime) -> Manifest:
    """Back a brain up into a new folder, while it runs or not.

    Raises:
        BrainError: there is no embedded log, the folder exists, or something cannot be copied; nothing is left behind then.
    """
    if settings.on_kafka:
        raise BrainError(
            f"{settings.broker} is a Kafka cluster, whose topics are the truth",
            hint="back the cluster up with its own means; defi-brain rebuild makes the stores again",
        )
    if not settings.log_path.is_file():
        raise BrainError(f"there is no log at {settings.log_path}", hint="name the folder with --data-dir")
    if destination.exists():
        raise BrainError(f"{destination} exists", hint="name a new folder: a backup never overwrites another")
    draft = destination.with_name(f".{destination.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    try:
        manifest = _copy(settings, draft, now)
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")
        for name in (*manifest.files, MANIFEST):
            _sync(draft / name)
        _sync(draft)
        draft.rename(destination)
        _sync(destination.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return manifest


def _copy(settings: Settings, draft: Path, now: datetime) -> Manifest:
    copy_log(settings.log_path, draft / LOG)
    with EmbeddedLog(draft / LOG) as log:
        log_id, ends = log.log_id, {topic.name: tuple(log.end_offsets(topic.name).values()) for topic in TOPICS}
    names = [LOG]
    keys = layout(settings).keys
    if keys.is_file():
        with KeyStore(keys) as store:
            store.copy_to(draft / KEYS)
        names.append(KEYS)
    return Manifest(
        version=_version(),
        taken=iso(now),
        log_id=log_id,
        records=sum(sum(one) for one in ends.values()),
        ends=ends,
        files={name: FileEntry(bytes=(draft / name).stat().st_size, sha256=_sha256(draft / name)) for name in names},
    )


def read_manifest(source: Path) -> Manifest:
    """A backup's manifest, after every file was compared with it.

    Raises:
        BrainError: it is no backup, of a later format, or damaged.
    """
    path = source / MANIFEST
    if not path.is_file():
        raise BrainError(f"{source} is no backup: it has no {MANIFEST}", hint="name the folder that defi-brain backup made")
    try:
        manifest = Manifest.model_validate_json(path.read_text())
    except (ValidationError, ValueError):
        raise BrainError(f"{path} is damaged, or of a later version", hint="take another backup, or a newer program") from None
    for name, entry in manifest.files.items():
        file = source / Path(name).name
        if not file.is_file() or file.stat().st_size != entry.bytes or _sha256(file) != entry.sha256:
            raise BrainError(f"{file} is not what was backed up", hint="it was damaged or changed; take another backup")
    return manifest


def restore(settings: Settings, source: Path, on_progress: Callable[[int], None] = lambda records: None) -> Restored:
    """Make a brain of a backup, in a data folder that has none.

    The log goes on where it was when it was copied: what the stages had not taken up by then they take up at the next start.

    Raises:
        BrainError: the backup is damaged, or there is a brain already, or what a killed process left of one.
    """
    if settings.on_kafka:
        raise BrainError("a backup is restored into the embedded log", hint="defi-brain mirror moves it on to the cluster")
    manifest = read_manifest(source)
    where = layout(settings)
    present = [path for path in (settings.log_path, where.insights, where.episodes, where.keys) if path.exists()]
    if present:
        raise BrainError(f"{present[0]} is there already", hint="restore into a new --data-dir; nothing is overwritten")
    for path in (settings.log_path, where.keys):
        refuse_orphan(path)
    where.root.mkdir(parents=True, exist_ok=True)
    settings.log_path.parent.mkdir(parents=True, exist_ok=True)
    for name, target in ((LOG, settings.log_path), (KEYS, where.keys)):
        if name in manifest.files:
            _put(source / name, target)
    return _refilled(settings, where, manifest, on_progress)


def _refilled(settings: Settings, where: Layout, manifest: Manifest, on_progress: Callable[[int], None]) -> Restored:
    with EmbeddedLog(settings.log_path) as log, open_embedder(settings) as embedder, open_sinks(where, embedder) as sinks:
        records = fold(log, (sinks.episode_sink, sinks.writer), on_progress)
        return Restored(manifest, records, fingerprint(sinks.episodes, sinks.insights))


def _put(source: Path, target: Path) -> None:
    """Copy a file, readable by its owner only, so that it appears whole or not at all."""
    draft = target.with_name(f".{target.name}.partial")
    with source.open("rb") as reading, open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as writing:
        shutil.copyfileobj(reading, writing, _CHUNK)
        writing.flush()
        os.fsync(writing.fileno())
    draft.rename(target)
    _sync(target.parent)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _version() -> str:
    try:
        return version("defi-brain")
    except PackageNotFoundError:
        return "unknown"
