"""A census of the insight store: the few counts that monitoring asks for again and again, of one state."""

from __future__ import annotations

from dataclasses import dataclass

from stores.sqlite.connection import Connection
from stores.sqlite.regimes import Tally, tally

BANDS: tuple[tuple[int, str], ...] = ((300_000, "0.0-0.3"), (500_000, "0.3-0.5"), (700_000, "0.5-0.7"), (900_000, "0.7-0.9"))
"""Upper ends (millionths, exclusive) and names of the bands of confidence. 0.5 is where an insight is good enough to inject."""
TOP_BAND = "0.9-1.0"
BAND_NAMES: tuple[str, ...] = (*(name for _, name in BANDS), TOP_BAND)

_BAND = " ".join(f"WHEN confidence_ppm < {end} THEN '{name}'" for end, name in BANDS)
_INSIGHTS = f"""
    SELECT category, status, CASE {_BAND} ELSE '{TOP_BAND}' END AS band, count(*) FROM insights GROUP BY category, status, band
"""  # noqa: S608 - constants
_ALARMS = "SELECT level, metric, count(*) FROM signals WHERE json ->> '$.kind' = 'drift' GROUP BY level, metric"


@dataclass(frozen=True, slots=True)
class Census:
    """``insights`` by category, status and band of confidence; applied ``operations`` by kind, ``refused`` ones in all;
    verdicts on ``notes`` by event; drift ``alarms`` by level and metric; ``regimes`` of keys; ``outbox``, the announcements not yet
    marked as sent; the writer's ``epoch``."""

    insights: dict[tuple[str, str, str], int]
    operations: dict[str, int]
    notes: dict[str, int]
    refused: int
    alarms: dict[tuple[str, str], int]
    regimes: Tally
    outbox: int
    epoch: int


def take_census(connection: Connection) -> Census:
    """Count. A reader's connection is enough; reads every insight's row once, about 3 ms a thousand."""
    with connection.snapshot():
        return Census(
            insights={(category, status, band): count for category, status, band, count in connection.execute(_INSIGHTS)},
            operations=dict(connection.execute("SELECT kind, count(*) FROM history GROUP BY kind")),
            notes=dict(connection.execute("SELECT event, count(*) FROM verdicts GROUP BY event")),
            refused=int(connection.one("SELECT count(*) FROM refused")),
            alarms={(level, metric): count for level, metric, count in connection.execute(_ALARMS)},
            regimes=tally(connection),
            outbox=int(connection.one("SELECT count(*) FROM outbox")),
            epoch=int(connection.one("SELECT epoch FROM writer")),
        )
