"""Makers of claims, insights and operations, and an embedder without a model, for tests of the insight store and its writer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from schemas.claims import Category, Claim, Condition, Evidence
from schemas.insights import Insight
from schemas.operations import (
    AddInsight,
    ArchiveInsight,
    DownvoteInsight,
    EditInsight,
    UpvoteInsight,
)
from schemas.signals import DriftSignal
from schemas.topics import OPERATIONS, SIGNALS_RAISED, Topic
from stores.sqlite import Backend, EmbedderInfo, InsightFilter, WritableInsightStore
from workers.ledger import Operation
from workers.ports import Vectors
from workers.stage import Delivery, Outcome, Position, Refusal

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "swap:1:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48/0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2"
MODEL = ("hash-vectors", 16)


def at(hours: float) -> datetime:
    """A moment that many hours after the start."""
    return START + timedelta(hours=hours)


class HashEmbedder:
    """Unit vectors drawn from a text's hash: equal texts are equal, others nearly orthogonal. ``calls`` holds what was asked."""

    def __init__(self, model_id: str = MODEL[0], dimension: int = MODEL[1]) -> None:
        self.model_id = model_id
        self.dimension = dimension
        self.calls: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text."""
        self.calls.append(tuple(texts))
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> Vectors:
        """The row of one text."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        row = np.random.default_rng(seed).normal(size=self.dimension)
        return (row / np.linalg.norm(row)).astype(np.float32)


def claim(key: str = KEY, threshold: float = 0.01, metric: str = "cost_bps", feature: str = "size_share") -> Claim:
    """Large trades cost more."""
    condition = Condition(feature=feature, op=">=", value=threshold)
    return Claim(key=key, metric=metric, conditions=(condition,), direction="higher")


def evidence(effect: float = 0.5, hours: float = 4) -> Evidence:
    """A confirmation over the window that ends at ``hours``."""
    return Evidence(
        kind="cliffs_delta",
        effect=effect,
        low=effect - 0.1,
        high=effect + 0.1,
        n_inside=40,
        n_outside=60,
        inside=12.5,
        outside=4.25,
        unit="bps",
        p=0.001,
        q=0.01,
        first_ts=at(hours - 4),
        last_ts=at(hours),
        episode_ids=("e1", "e2"),
    )


def add(insight_id: str, op_id: str = "", text: str = "", **fields: Any) -> AddInsight:
    """An ADD; whatever is not given is plausible."""
    plain: dict[str, Any] = {
        "op_id": op_id or f"add-{insight_id}",
        "insight_id": insight_id,
        "ts": at(0),
        "author": "distil",
        "reason": "confirmed",
        "text": text or f"Insight {insight_id} holds.",
        "category": Category.SLIPPAGE,
        "key": KEY,
        "label": "swap USDC/WETH",
    }
    return AddInsight(**{**plain, **fields})


_OTHERS: dict[str, Any] = {"UPVOTE": UpvoteInsight, "DOWNVOTE": DownvoteInsight, "EDIT": EditInsight, "ARCHIVE": ArchiveInsight}


def op(kind: str, insight_id: str, op_id: str, hours: float = 4, **fields: Any) -> Any:
    """An operation on an insight that exists."""
    return _OTHERS[kind](op_id=op_id, insight_id=insight_id, ts=at(hours), author="distil", reason="evidence", **fields)


def insight(number: int, **fields: Any) -> Insight:
    """An insight whose fields follow from a number."""
    plain: dict[str, Any] = {
        "id": f"i{number:04}",
        "text": f"Insight number {number} about pool {number % 7}.",
        "category": tuple(Category)[number % 3],
        "confidence": Decimal(number % 21) / 20,
        "revision": 1,
        "key": KEY,
        "label": "swap USDC/WETH",
        "created_ts": at(0),
        "validated_ts": at(number % 50),
        "author": "distil",
    }
    return Insight(**{**plain, **fields})


def signal(number: int, **fields: Any) -> DriftSignal:
    """A drift alarm."""
    plain: dict[str, Any] = {
        "id": f"s{number:04}",
        "level": "pair",
        "stream": f"{KEY}|cost_bps",
        "key": KEY,
        "metric": "cost_bps",
        "ts": at(number),
        "episode_id": f"e{number}",
        "mean_before": 0.5,
        "mean_after": 0.75,
        "width": 100,
        "delta": 0.002,
    }
    return DriftSignal(**{**plain, **fields})


def deliveries(messages: Iterable[Operation | DriftSignal], topic: Topic, first: int = 0, partition: int = 0) -> list[Delivery]:
    """Messages as a driver hands them over, at successive offsets."""
    return [
        Delivery(Position(topic.name, partition, first + place), b"key", message, 1_767_225_600_000 + place)
        for place, message in enumerate(messages)
    ]


def operations(*messages: Operation, first: int = 0) -> list[Delivery]:
    """Operations as deliveries."""
    return deliveries(messages, OPERATIONS, first)


def signals(*messages: DriftSignal, first: int = 0, partition: int = 0) -> list[Delivery]:
    """Signals as deliveries."""
    return deliveries(messages, SIGNALS_RAISED, first, partition)


@contextmanager
def writing(path: Path, backend: Backend | None = None, model: EmbedderInfo = MODEL) -> Iterator[WritableInsightStore]:
    """A store open for writing."""
    with WritableInsightStore.open(path, model, backend=backend) as store:
        yield store


def fill(store: WritableInsightStore, insights: Iterable[Insight], embedder: HashEmbedder | None = None) -> None:
    """Put insights in, with the vectors of their texts."""
    by = embedder or HashEmbedder()
    with store.transaction() as transaction:
        for one in insights:
            transaction.put(one, by.vector(one.text))


def everything(store: WritableInsightStore) -> dict[str, Any]:
    """All that a run leaves behind and that must not depend on how it went."""
    ids = [one.id for one in store.list(InsightFilter(status=None), limit=1000).items]
    return {
        "fingerprint": list(store.fingerprint_parts()),
        "history": [store.history(found) for found in sorted(ids)],
        "offsets": store.next_offsets(),
        "outbox": store.pending(limit=100_000),
        "counts": [(stats := store.stats()).operations, stats.refused, stats.signals, stats.vectors],
    }


def workload(seed: int = 7, count: int = 60, insights: int = 5) -> list[Operation | DriftSignal]:
    """Operations of every kind and signals, with duplicates, refused ones and refused ones sent again; the same for a seed."""
    rng = Random(seed)
    made: list[Operation | DriftSignal] = []
    for number in range(count):
        name = f"i{rng.randrange(insights)}"
        kind = rng.choice(("ADD", "ADD", "UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE", "SIGNAL", "AGAIN", "AGAIN"))
        if kind == "AGAIN" and made:
            made.append(rng.choice(made))
        elif kind in ("SIGNAL", "AGAIN"):
            made.append(signal(number))
        elif kind == "ADD":
            made.append(add(name, f"op{number}", f"{name} as of {number}.", ts=at(number)))
        else:
            fields = {"text": f"{name} edited at {number}."} if kind == "EDIT" else {}
            made.append(op(kind, name, f"op{number}", number, **fields))
    return made


def in_log(messages: Sequence[Operation | DriftSignal]) -> list[Delivery]:
    """Messages with the places that a log would give them: operations in one partition, signals over four."""
    ends: Counter[tuple[str, int]] = Counter()
    placed: list[Delivery] = []
    for number, message in enumerate(messages):
        where = (SIGNALS_RAISED, number % 4) if isinstance(message, DriftSignal) else (OPERATIONS, 0)
        placed += deliveries([message], where[0], ends[where[0].name, where[1]], where[1])
        ends[where[0].name, where[1]] += 1
    return placed


def cut(records: Sequence[Delivery], size: int) -> list[list[Delivery]]:
    """Batches of a size."""
    return [list(records[start : start + size]) for start in range(0, len(records), size)]


def summed(outcomes: Iterable[Outcome]) -> tuple[int, int, list[Refusal], Counter[str]]:
    """Processed, duplicates, refusals and counts of several outcomes."""
    kept = list(outcomes)
    counts: Counter[str] = Counter()
    for outcome in kept:
        counts.update(outcome.counts)
    refusals = [refusal for outcome in kept for refusal in outcome.refusals]
    return sum(one.processed for one in kept), sum(one.duplicates for one in kept), refusals, counts
