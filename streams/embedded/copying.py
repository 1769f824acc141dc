"""A copy of the log while it is at work: one state of it, as of the moment the copy began, whatever is appended meanwhile.

``VACUUM INTO`` reads inside one transaction and writes a file without free pages. In WAL mode it blocks nobody. The copy is
put into WAL mode too, as every log file is.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from streams.embedded.schema import BUSY_TIMEOUT_S
from streams.log import LogError


def copy_log(source: Path, target: Path) -> None:
    """Copy a log file; the target must not exist.

    Raises:
        LogError: it cannot be read or written, for want of space for instance.
    """
    try:
        with closing(sqlite3.connect(source, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("VACUUM INTO ?", (str(target),))
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise LogError(
            f"{source} cannot be copied to {target}: {error}", hint="is there space, and may the folder be written?"
        ) from None
