"""An episode as a row of the table, and back.

The columns are what is filtered, searched and judged by. The rest of the episode is in ``payload`` as its wire JSON, so that a
later field of the contract needs no new column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from pydantic_core import from_json

from schemas.base import compact
from schemas.episodes import Episode
from stores.episodes.merge import Kept

if TYPE_CHECKING:
    import pyarrow as pa

JUDGED = ("id", "status", "retracted", "block_hash", "places")
SHOWN = (
    "id", "key", "tool", "chain", "pair", "label", "ts", "action", "status", "failed", "importance", "regime", "simulated",
    "retracted", "reflection", "sentence",
)  # fmt: skip
REMEMBERED = ("id", "payload", "reflection", "sentence", "retracted")
WHOLE = ("payload", "reflection", "sentence", "vector")
_OWN_COLUMN = {"reflection", "sentence", "vector"}
_NORM_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Row:
    """An episode and what the store knows of it beside."""

    episode: Episode
    kept: Kept


def schema(dimension: int) -> pa.Schema:
    """The table's columns. ``ts`` is event time in microseconds UTC; ``places`` those of ``merge.py`` as ``partition:offset``.

    ``words`` is what full-text search reads: the sentence's bands before the reflection's exact numbers, so that "large swap, high
    cost" is found as well as an address (``docs/recall.md`` has what that is worth).
    """
    import pyarrow as pa

    text = {name: pa.string() for name in ("id", "key", "tool", "chain", "pair", "label")}
    columns = [
        *text.items(),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("action", pa.string()),
        ("status", pa.string()),
        ("failed", pa.bool_()),
        ("importance", pa.float64()),
        ("simulated", pa.bool_()),
        ("retracted", pa.bool_()),
        ("reflection", pa.string()),
        ("sentence", pa.string()),
        ("words", pa.string()),
        ("vector", pa.list_(pa.float32(), dimension)),
        ("payload", pa.binary()),
        ("places", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
    ]
    optional = [("regime", pa.string()), ("block_hash", pa.string())]
    return pa.schema([pa.field(*column, nullable=False) for column in columns] + [pa.field(*column) for column in optional])


def fault(episode: Episode, model_id: str, dimension: int) -> str | None:
    """Why an episode cannot be stored, or None. LanceDB takes null and NaN vectors without a word and never finds them again."""
    if episode.model != model_id:
        return f"its vector was made by {episode.model}, the store's are made by {model_id}"
    if len(episode.vector) != 4 * dimension:
        return f"its vector has {len(episode.vector)} bytes, not {4 * dimension}"
    norm = float(np.linalg.norm(np.frombuffer(episode.vector, dtype="<f4")))
    if not abs(norm - 1.0) <= _NORM_TOLERANCE:
        return f"its vector has norm {norm:.6g}, not 1"
    return None


def to_table(rows: Sequence[Row], dimension: int) -> pa.Table:
    """Rows as an Arrow table."""
    import pyarrow as pa

    vectors = np.frombuffer(b"".join(row.episode.vector for row in rows), dtype="<f4").astype(np.float32)
    columns: dict[str, Any] = {"vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), dimension)}
    plain = [_plain(row) for row in rows]
    target = schema(dimension)
    for field in target:
        if field.name != "vector":
            columns[field.name] = pa.array([one[field.name] for one in plain], type=field.type)
    return pa.table([columns[field.name] for field in target], schema=target)


def _plain(row: Row) -> dict[str, Any]:
    episode, event = row.episode, row.episode.event
    partition, offset = row.kept.places[-1]
    return {
        "id": episode.id,
        "key": episode.key,
        "tool": event.tool,
        "chain": event.chain,
        "pair": event.pair_id,
        "label": episode.label,
        "ts": event.ts_executed,
        "action": str(event.action),
        "status": str(event.status),
        "failed": episode.metrics.get("failed", 0.0) > 0.0,
        "importance": episode.importance,
        "regime": episode.regime,
        "simulated": event.simulated,
        "retracted": row.kept.retracted,
        "reflection": episode.reflection,
        "sentence": episode.sentence,
        "words": f"{episode.sentence}. {episode.reflection}",
        "payload": compact(episode.model_dump(mode="json", exclude=_OWN_COLUMN, exclude_none=True)),
        "places": " ".join(f"{one}:{at}" for one, at in row.kept.places),
        "log_partition": partition,
        "log_offset": offset,
        "block_hash": row.kept.block_hash,
    }


def to_kept(row: dict[str, Any]) -> Kept:
    """What ``JUDGED`` says of a row."""
    return Kept(
        pending=row["status"] == "pending",
        retracted=row["retracted"],
        block_hash=row["block_hash"],
        places=tuple((int(one), int(at)) for one, _, at in (place.partition(":") for place in row["places"].split())),
    )


def to_episode(row: dict[str, Any]) -> Episode:
    """The episode that ``WHOLE`` holds, equal to the one that was stored."""
    plain = from_json(row["payload"])
    vector = np.asarray(row["vector"], dtype="<f4").tobytes()
    return Episode.from_plain({**plain, "reflection": row["reflection"], "sentence": row["sentence"], "vector": vector})


def canonical(row: dict[str, Any]) -> bytes:
    """What the fingerprint takes of a row (``REMEMBERED``): the content, not where in the log it stood nor how it was embedded."""
    episode = orjson.loads(row["payload"])
    taken = {name: episode.get(name) for name in ("id", "key", "metrics", "features", "importance", "regime")}
    taken |= {name: row[name] for name in ("reflection", "sentence", "retracted")}
    taken |= {"ts": episode["event"]["ts_executed"], "status": episode["event"]["status"]}
    return orjson.dumps(taken, option=orjson.OPT_SORT_KEYS)
