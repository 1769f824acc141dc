"""The store's folder: a header that says what it is, a lock that says who writes, and one LanceDB table a segment.

The header is replaced whole and atomically, so a reader sees the old one or the new one. A segment is in the header before its
first row, and a table that is in no header (the process died in between) is taken up when its turn comes.

The lock is the operating system's, so it dies with its holder. The holder also writes its process id into the lock's file and
empties it when it leaves in order: a file that is not empty when the lock is free means that the last writer was killed.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stores.episodes.errors import EpisodeStoreError

HEADER = "store.json"
LOCK = "writer.lock"
REBUILD = "move the folder away: the pipeline (defi-brain up) makes it again from the log"


class Header(BaseModel):
    """What a folder of episodes is. ``segments`` are tables in the order in which they were begun; the last takes new rows.
    ``purge`` are those that still have to be written anew, because something in them was forgotten."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    model_id: str
    dimension: int = Field(ge=1)
    log_id: str | None = None
    segments: tuple[str, ...] = ()
    purge: tuple[str, ...] = ()

    @property
    def next_segment(self) -> str:
        """The name of the segment after the last."""
        return f"episodes-{len(self.segments) + 1:06d}"


def read_header(folder: Path) -> Header:
    """The header of a folder.

    Raises:
        EpisodeStoreError: there is none, or it is not one that this version reads.
    """
    path = folder / HEADER
    try:
        return Header.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise EpisodeStoreError(f"there are no episodes at {folder}", hint="run defi-brain demo or ingest first") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise EpisodeStoreError(f"{path} is not a header that this version reads: {where}: {first['msg']}", hint=REBUILD) from None


def write_header(folder: Path, header: Header) -> None:
    """Replace the header, durably."""
    temporary = folder / f"{HEADER}.new"
    with temporary.open("wb") as file:
        file.write(header.model_dump_json(indent=2).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / HEADER)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def header_stamp(folder: Path) -> tuple[int, int]:
    """Changes when the header is replaced."""
    status = os.stat(folder / HEADER)
    return status.st_ino, status.st_mtime_ns


class WriterLock:
    """The right to write. ``killed_before``: whether its last holder did not leave in order."""

    def __init__(self, descriptor: int, killed_before: bool) -> None:
        self._descriptor = descriptor
        self.killed_before = killed_before

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Take the lock, without waiting.

        Raises:
            EpisodeStoreError: another process, or another store object of this one, has it.
        """
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise EpisodeStoreError(
                f"process {holder or '?'} writes the episodes at {folder}", hint="only one process may; stop the other"
            ) from None
        killed_before = os.fstat(descriptor).st_size > 0
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor, killed_before)

    def release(self, *, in_order: bool = True) -> None:
        """Let others write; ``in_order=False`` when what a killed writer left is still as it was."""
        if in_order:
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
