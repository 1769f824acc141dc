"""The insights with their vectors, whole and by what changed: for whoever keeps them in memory.

The store has read the log's operations up to an offset, and knows at which offset each operation stood that changed an insight. So
"what changed since an offset" is one question to an index, and who asks it whenever the offset has moved is never behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from schemas.insights import Insight
from stores.sqlite.connection import Connection
from stores.sqlite.rows import insight_of

Vector = npt.NDArray[np.float32]

_PAGE = 1_000
_BY_ID = (
    "SELECT json, vector FROM insights JOIN documents USING (n) LEFT JOIN vectors USING (n)"
    " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
)
_WHOLE = (
    "SELECT n, json, vector FROM insights JOIN documents USING (n) JOIN vectors USING (n)"
    " WHERE status = 'active' AND n > ? ORDER BY n LIMIT ?"
)
_CHANGED = (
    "SELECT json, vector FROM insights JOIN documents USING (n) LEFT JOIN vectors USING (n) WHERE id IN"
    " (SELECT insight_id FROM processed JOIN history USING (op_id) WHERE topic = ? AND partition = ? AND position >= ?) ORDER BY id"
)


@dataclass(frozen=True, slots=True)
class Standing:
    """An insight as it is now; ``vector`` is None where it is not active."""

    insight: Insight
    vector: Vector | None


def whole(connection: Connection) -> Iterator[Standing]:
    """Every active insight. Read inside a snapshot, page by page."""
    last = -1
    while rows := connection.execute(_WHOLE, (last, _PAGE)):
        yield from (_standing(json, vector) for _, json, vector in rows)
        last = rows[-1][0]


def changed_since(connection: Connection, topic: str, partition: int, offset: int) -> list[Standing]:
    """Insights that operations from an offset on changed, active or not, as they are now."""
    return [_standing(json, vector) for json, vector in connection.execute(_CHANGED, (topic, partition, offset))]


def standing(connection: Connection, insight_ids: Iterable[str]) -> list[Standing]:
    """Insights by their ids, as they are now; those that there are."""
    return [
        _standing(json, vector) for json, vector in connection.execute(_BY_ID, (orjson.dumps(sorted(set(insight_ids))).decode(),))
    ]


def _standing(json: str, vector: Any) -> Standing:
    return Standing(insight_of(json), None if vector is None else np.frombuffer(vector, dtype=np.float32))
