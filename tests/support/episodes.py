"""Helpers for tests of embedding and of the episode store: episodes, and an embedder that needs no model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from schemas.episodes import Episode, episode_id
from schemas.events import ToolExecution

DIMENSION = 16
MODEL = f"words/{DIMENSION}"
INFO = (MODEL, DIMENSION)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ADDRESS = "0x" + "ab12" * 10


@dataclass(frozen=True, slots=True)
class At:
    """A place in the log."""

    offset: int
    partition: int = 0
    topic: str = "test"


class WordEmbedder:
    """Texts that share words get near vectors. ``calls`` are the batches that it was asked for."""

    def __init__(self, dimension: int = DIMENSION, name: str = "words") -> None:
        self.model_id = f"{name}/{dimension}"
        self.dimension = dimension
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.stack([self._one(text) for text in texts]) if texts else np.empty((0, self.dimension), np.float32)

    def embed_query(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.embed(texts)

    def _one(self, text: str) -> npt.NDArray[np.float32]:
        total = np.zeros(self.dimension, np.float64)
        for word in re.findall(r"\w+", text.lower()) or [""]:
            total += np.random.default_rng(crc32(word.encode())).standard_normal(self.dimension)
        return (total / np.linalg.norm(total)).astype(np.float32)


EMBEDDER = WordEmbedder()


def execution(n: int = 0, **fields: Any) -> ToolExecution:
    """The n-th execution; ``fields`` replace or add."""
    plain: dict[str, Any] = {
        "event_id": f"event-{n}",
        "tool": "probe",
        "agent_id": "tester",
        "status": "success",
        "ts_executed": START + timedelta(minutes=n),
        "pair": "A/B",
    }
    return ToolExecution(**{**plain, **fields})


def episode(
    n: int = 0,
    reflection: str | None = None,
    *,
    vector: bytes | None = None,
    model: str = MODEL,
    importance: float = 0.25,
    regime: str | None = None,
    metrics: dict[str, float] | None = None,
    **fields: Any,
) -> Episode:
    """The n-th episode; ``fields`` are its event's."""
    event = execution(n, **fields)
    text = f"probe number {n} went well" if reflection is None else reflection
    return Episode(
        id=episode_id(event),
        key=event.key,
        label=event.pair_label,
        event=event,
        metrics={"n": float(n), "failed": float(event.status not in ("success", "pending")), **(metrics or {})},
        features={"hour": 12.0, "router": "alpha", "cold": False},
        reflection=text,
        sentence=text,
        vector=EMBEDDER.embed([text])[0].astype("<f4").tobytes() if vector is None else vector,
        model=model,
        importance=importance,
        regime=regime,
    )


def batch(first: int, count: int, offset: int | None = None) -> list[tuple[At, Episode]]:
    """Episodes ``first`` … with consecutive places."""
    start = first if offset is None else offset
    return [(At(start + n), episode(first + n)) for n in range(count)]
