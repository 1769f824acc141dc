"""Recall's settings that an operator changed: what is kept of them, and reading it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from schemas.operations import TuneRecall
from stores.sqlite.connection import Connection
from stores.sqlite.filters import microseconds
from stores.sqlite.rows import from_microseconds


@dataclass(frozen=True, slots=True)
class Tuned:
    """A setting that was changed: its value, and who changed it last, when (event time) and why."""

    value: bool | int | float | str
    author: str
    reason: str
    ts: datetime


def put_tunings(connection: Connection, operations: Sequence[TuneRecall]) -> None:
    """Apply changes of settings in order. Inside a transaction."""
    for operation in operations:
        if operation.reset:
            connection.execute("DELETE FROM tunings")
        connection.executemany(
            "INSERT INTO tunings (name, value, author, reason, ts_us) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET value = excluded.value, author = excluded.author, reason = excluded.reason, ts_us = excluded.ts_us",
            [
                (name, orjson.dumps(value).decode(), operation.author, operation.reason, microseconds(operation.ts))
                for name, value in operation.changes.items()
            ],
        )


def tuned(connection: Connection) -> dict[str, Tuned]:
    """The settings that differ from the defaults, by name."""
    rows = connection.execute("SELECT name, value, author, reason, ts_us FROM tunings ORDER BY name")
    return {row[0]: Tuned(orjson.loads(row[1]), row[2], row[3], from_microseconds(row[4])) for row in rows}


def tuning_lines(connection: Connection) -> Iterator[dict[str, Any]]:
    """Every changed setting, for the fingerprint."""
    for name, one in tuned(connection).items():
        yield {"tuning": [name, one.value, one.author]}
