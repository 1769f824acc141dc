"""How portfolios stand: the last standing of each, as the breakers decided it.

Nothing that memory does reaches this table: it is written from the topic of standings alone (law 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schemas.portfolio import PortfolioStanding
from stores.sqlite.connection import Connection
from stores.sqlite.filters import microseconds

_PUT = """
    INSERT INTO standings (key, ts_us, json) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET ts_us = excluded.ts_us, json = excluded.json WHERE excluded.ts_us >= standings.ts_us
"""


def put_standings(connection: Connection, standings: Sequence[PortfolioStanding]) -> None:
    """Keep the latest of each portfolio; an older one than is kept changes nothing. Inside a transaction."""
    connection.executemany(_PUT, [(one.key, microseconds(one.ts), one.to_wire().decode()) for one in standings])


def standings(connection: Connection) -> tuple[PortfolioStanding, ...]:
    """Every portfolio's, by key."""
    rows = connection.execute("SELECT json FROM standings ORDER BY key")
    return tuple(PortfolioStanding.model_validate_json(row[0]) for row in rows)


def standing_lines(connection: Connection) -> Iterator[dict[str, Any]]:
    """What belongs into the fingerprint."""
    for one in standings(connection):
        yield {"standing": one.model_dump(mode="json")}
