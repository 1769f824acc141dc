"""One writer at a time, in two ways that fail differently (law 2).

The **lock** is an ``flock`` on a file beside the store. It ends with the process, however that ends, and gives a second writer a
clear message before it does anything. It can be got around: the lock file removed, a network file system, a restored folder.

The **epoch** is a row in the store. Who opens for writing raises it and remembers its own; every transaction first touches the row
*where the epoch is still its own*. A writer that was stopped, or lost its lock, and wakes up after another took over touches no
row, is fenced out and writes nothing. This one cannot be got around: it is checked inside the transaction whose effects it guards.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from stores.sqlite.connection import Connection
from stores.sqlite.errors import FencedOut, StoreError


class WriterLock:
    """The lock beside a store, held from construction to ``release``."""

    def __init__(self, store: Path) -> None:
        """Take it, or say who has it.

        Raises:
            StoreError: another process writes the store.
        """
        self.path = store.with_name(f"{store.name}.writer.lock")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StoreError(
                f"{store} is being written by process {holder}", hint="stop it, or read only: one writer at a time"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, str(os.getpid()).encode())

    def release(self) -> None:
        """Let it go. The file stays: removing it would let two processes lock two different files of one name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def take_over(connection: Connection) -> int:
    """Raise the epoch; the new one is the caller's. Earlier writers are fenced out from here on."""
    with connection.transaction():
        return int(connection.one("UPDATE writer SET epoch = epoch + 1, seen = 0 WHERE id = 1 RETURNING epoch"))


def check(connection: Connection, epoch: int) -> None:
    """Inside a transaction: is this still our epoch? Counts the transaction in ``seen``.

    Raises:
        FencedOut: it is not.
    """
    if connection.changed("UPDATE writer SET seen = seen + 1 WHERE epoch = ?", (epoch,)) != 1:
        look(connection, epoch)


def look(connection: Connection, epoch: int) -> None:
    """Is this still our epoch, without writing anything?

    Raises:
        FencedOut: it is not.
    """
    now = connection.one("SELECT epoch FROM writer")
    if now != epoch:
        raise FencedOut(
            f"{connection.path} was taken over: this writer has epoch {epoch}, the store is at {now}",
            hint="another process writes the store now; stop this one",
        )
