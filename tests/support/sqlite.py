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
    AdjustInsight,
    ArchiveInsight,
    DownvoteInsight,
    EditInsight,
    ForgetInsight,
    RememberNote,
    RestoreInsight,
    Similar,
    SubmitDirective,
    UpvoteInsight,
)
from schemas.signals import DriftSignal
from schemas.topics import MEMORY_USED, OPERATIONS, SIGNALS_RAISED, Topic
from schemas.usage import MemoryUsed
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
        return np.stack([self.vector(text) for text in texts]) if texts else np.empty((0, self.dimension), dtype=np.float32)

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


_OTHERS: dict[str, Any] = {
    "UPVOTE": UpvoteInsight,
    "DOWNVOTE": DownvoteInsight,
    "EDIT": EditInsight,
    "ARCHIVE": ArchiveInsight,
    "RESTORE": RestoreInsight,
    "ADJUST": AdjustInsight,
    "FORGET": ForgetInsight,
}


def op(kind: str, insight_id: str, op_id: str, hours: float = 4, **fields: Any) -> Any:
    """An operation on an insight that exists."""
    return _OTHERS[kind](op_id=op_id, insight_id=insight_id, ts=at(hours), author="distil", reason="evidence", **fields)


def note(insight_id: str, text: str = "Gas is high on Mondays.", hours: float = 4, **fields: Any) -> RememberNote:
    """A note; whatever is not given is plausible. ``similar`` may be pairs of an id and a cosine."""
    plain: dict[str, Any] = {
        "op_id": f"remember-{insight_id}",
        "insight_id": insight_id,
        "ts": at(hours),
        "author": "agent",
        "reason": "seen",
        "text": text,
    }
    near = tuple(Similar(insight_id=one, similarity=cosine) for one, cosine in fields.pop("similar", ()))
    return RememberNote(**{**plain, **fields, "similar": near})


def directive(insight_id: str, text: str = "Trade less.", hours: float = 4, **fields: Any) -> SubmitDirective:
    """A directive; whatever is not given is plausible."""
    plain: dict[str, Any] = {
        "op_id": f"direct-{insight_id}",
        "insight_id": insight_id,
        "ts": at(hours),
        "author": "operator",
        "reason": "risk",
        "text": text,
        "feedback_type": "strategy_preference",
    }
    return SubmitDirective(**{**plain, **fields})


def use(use_id: str, *used: str, recalled: Sequence[str] = (), hours: float = 4, agent: str = "agent") -> MemoryUsed:
    """A use of the memory."""
    return MemoryUsed(use_id=use_id, agent_id=agent, ts=at(hours), used=used, recalled=tuple(recalled), ended="success")


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


Message = Operation | DriftSignal | MemoryUsed


def deliveries(messages: Iterable[Message], topic: Topic, first: int = 0, partition: int = 0) -> list[Delivery]:
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


def uses(*messages: MemoryUsed, first: int = 0, partition: int = 0) -> list[Delivery]:
    """Uses as deliveries."""
    return deliveries(messages, MEMORY_USED, first, partition)


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
        "counts": [(stats := store.stats()).operations, stats.refused, stats.signals, stats.vectors, stats.uses],
        "uses": store.use_counts(f"i{number}" for number in range(20)),
    }


NOTES = ("Gas is 30 gwei.", "Gas is 40 gwei.", "Gas is not 30 gwei.", "gas is  30 gwei.", "Pools are deep.", "Pools are shallow.")
"""Texts of notes in the workload: some say the same, some the opposite."""


def workload(seed: int = 7, count: int = 60, insights: int = 5) -> list[Message]:
    """Operations of every kind, signals, uses; duplicates, refused ones and refused ones sent again; the same for a seed."""
    rng = Random(seed)
    made: list[Message] = []
    for number in range(count):
        if number == count // 2:  # drawn at random, what is archived is hardly ever restored before it is forgotten
            life = (("ARCHIVE", {"cause": "expired"}), ("RESTORE", {"cause": "expired"}), ("ARCHIVE", {"cause": "explained"}))
            made += [
                add("r", "opr", "r as of then."),
                *(op(kind, "r", f"opr{step}", **more) for step, (kind, more) in enumerate(life)),
            ]
        name = f"i{rng.randrange(insights)}"
        kind = rng.choice(KINDS)
        if kind == "AGAIN" and made:
            made.append(rng.choice(made))
        elif kind in ("SIGNAL", "AGAIN"):
            made.append(signal(number))
        elif kind == "USE":
            made.append(use(f"use{number}", name, recalled=[name, "i0"], hours=number))
        elif kind == "NOTE":
            made.append(_some_note(rng, number))
        elif kind == "DIRECTIVE":
            made.append(directive(f"d{number % 4}", f"Directive {number}.", number, op_id=f"op{number}"))
        elif kind == "ADD":
            made.append(add(name, f"op{number}", f"{name} as of {number}.", ts=at(number)))
        else:
            more: dict[str, Any] = {
                "EDIT": {"text": f"{name} edited at {number}."},
                "ADJUST": {"confidence": "0.35"},
                "UPVOTE": {"evidence": evidence(hours=number + 4)},
                "ARCHIVE": {"cause": ("expired", "explained", "stated")[number % 3]},
            }
            owner = (
                rng.choice((name, name, f"n{rng.randrange(number + 1)}", f"d{number % 4}"))
                if kind in ("ARCHIVE", "FORGET")
                else name
            )
            made.append(op(kind, owner, f"op{number}", number, **more.get(kind, {})))
    return made


KINDS = (
    *("ADD", "ADD", "UPVOTE", "DOWNVOTE", "EDIT", "ARCHIVE", "RESTORE", "SIGNAL", "AGAIN", "AGAIN"),
    *("ADJUST", "NOTE", "NOTE", "NOTE", "DIRECTIVE", "FORGET", "USE"),
)


def _some_note(rng: Random, number: int) -> RememberNote:
    """A note that may stand near earlier ones, be an echo of one, or correct one."""
    near = [(f"n{rng.randrange(number + 1)}", rng.choice((0.8, 0.9, 0.97))) for _ in range(rng.randrange(4))]
    more: dict[str, Any] = {"author": rng.choice(("agent", "other")), "op_id": f"op{number}"}
    if near and rng.random() < 0.2:
        more["recalled"] = (near[0][0],)
    if near and rng.random() < 0.1:
        more["corrects"] = near[0][0]
    return note(f"n{number}", rng.choice(NOTES), number, similar=near, **more)


def in_log(messages: Sequence[Message]) -> list[Delivery]:
    """Messages with the places that a log would give them: operations in one partition, the rest over four."""
    ends: Counter[tuple[str, int]] = Counter()
    placed: list[Delivery] = []
    for number, message in enumerate(messages):
        topic = {DriftSignal: SIGNALS_RAISED, MemoryUsed: MEMORY_USED}.get(type(message), OPERATIONS)
        where = (topic, number % 4 if topic is not OPERATIONS else 0)
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
