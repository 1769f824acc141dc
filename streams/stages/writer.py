"""The insight writer: operations and signals into the store, each effect exactly once.

A batch goes through these steps; a process may die between any two of them and the result is the same:

0. *planned*: what is known of these records is read, the ledger is applied in memory, and the texts that need a vector are
   embedded — all before the transaction, because a model takes longer than others should wait. Nobody can have changed the store
   between the plan and the transaction: who does so has raised the epoch, and step 2 fails.
1. *begun*: ``BEGIN IMMEDIATE``.
2. *fenced*: is this still our epoch? Else nothing is written, now or later.
3. *claimed*: the operations' ids, each once; refused ones by their place.
4. *applied*: insights with text and vector, their history, signals.
5. *advanced*: the offsets of the input.
6. *sent*: an update for each applied operation into the outbox, with an id that follows from the operation's.
7. *committed*.

The store is the referee: its own offsets say where to go on, and the broker's commit is only advice. So a batch may come a second
time. A record below the store's offset is not applied again but answered as it was the first time: refused, if its place is among
the refusals; processed, if its id was first seen at this place; else a duplicate. A refused operation does not use its id up: sent
again later, it may apply.

The outbox is emptied by the relay (``streams/relay.py``), through :class:`InsightOutbox`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from schemas.identity import content_id
from schemas.insights import Insight, InsightStatus, InsightUpdate
from schemas.signals import Signal
from schemas.topics import BY_NAME, INSIGHTS_UPDATED, OPERATIONS, SIGNALS_RAISED, Topic
from stores.sqlite import HistoryEntry, RefusedOperation, StoreError, WritableInsightStore
from stores.sqlite.filters import microseconds
from stores.sqlite.writable import Hook, Place
from streams.log import LogMismatch
from workers import ledger
from workers.ledger import Operation, Rejected
from workers.ports import Embedder, Vectors
from workers.stage import Delivery, Emission, Outcome, Refusal

STEPS = ("planned", "begun", "fenced", "claimed", "applied", "advanced", "sent", "committed")
"""The names that the hook hears, in order."""


@dataclass(slots=True)
class _Change:
    """One operation that applies: the insight before and after."""

    operation: Operation
    place: Place
    before: Insight | None
    after: Insight


@dataclass(slots=True)
class _Plan:
    """What a batch will do. ``insights`` holds the final states; ``known`` those that were there before."""

    known: dict[str, Insight]
    insights: dict[str, Insight] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)
    refused: list[RefusedOperation] = field(default_factory=list)
    signals: list[tuple[Signal, Place]] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    processed: int = 0
    duplicates: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def empty(self) -> bool:
        """Whether there is nothing new in the batch."""
        return not self.offsets

    def outcome(self) -> Outcome:
        """What the driver is told."""
        return Outcome((), self.refusals, self.processed, self.duplicates, counts=dict(self.counts))

    def put(self, verdict: str | RefusedOperation, delivery: Delivery, name: str) -> None:
        """Count a record's verdict."""
        if isinstance(verdict, RefusedOperation):
            self.refusals.append(Refusal(delivery.position, verdict.reason, verdict.detail))
        elif verdict == "duplicate":
            self.duplicates += 1
        else:
            self.processed += 1
            self.counts[name] += 1

    def needing_vectors(self) -> list[Insight]:
        """Active insights whose text is new."""
        return [
            insight
            for insight in self.insights.values()
            if insight.status is InsightStatus.ACTIVE
            and (insight.id not in self.known or self.known[insight.id].text != insight.text)
        ]


class InsightWriter:
    """The sink of operations and signals. ``step`` is called with each of ``STEPS`` as it is done, for tests that stop there.

    Raises, when it is made:
        StoreError: the embedder is not the store's.
    """

    name = "writer"
    inputs: tuple[Topic, ...] = (OPERATIONS, SIGNALS_RAISED)
    outputs: tuple[Topic, ...] = (INSIGHTS_UPDATED,)

    def __init__(self, store: WritableInsightStore, embedder: Embedder, *, step: Hook = lambda _: None) -> None:
        if (embedder.model_id, embedder.dimension) != (store.model_id, store.dimension):
            raise StoreError(
                f"the store needs vectors of {store.model_id}, not of {embedder.model_id}", hint="open both with one model"
            )
        self._store = store
        self._embedder = embedder
        self._step = step

    @property
    def outbox(self) -> InsightOutbox:
        """The store's announcements, for a relay."""
        return InsightOutbox(self._store)

    def bind(self, log_id: str) -> None:
        """See :class:`streams.log.OwnsOffsets`.

        Raises:
            LogMismatch: the store was filled from another log.
        """
        try:
            self._store.bind(log_id)
        except StoreError as error:
            raise LogMismatch(str(error), hint=error.hint) from error

    def next_offsets(self) -> Mapping[tuple[str, int], int]:
        """Where the store goes on, by topic and partition."""
        return self._store.next_offsets()

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """Apply a batch.

        Raises:
            FencedOut: another writer took over.
            StoreError: the store is gone.
        """
        plan = self._planned(batch)
        if plan.empty:
            self._store.check_epoch()
            return plan.outcome()
        vectors = self._embedded(plan.needing_vectors())
        self._step("planned")
        self._write(plan, vectors)
        self._step("committed")
        return plan.outcome()

    # --- planning

    def _planned(self, batch: Sequence[Delivery]) -> _Plan:
        operations = [delivery for delivery in batch if delivery.position.topic == OPERATIONS.name]
        alarms = [delivery for delivery in batch if delivery.position.topic == SIGNALS_RAISED.name]
        committed = self._store.next_offsets()
        plan = _Plan(known=self._store.current(delivery.message.insight_id for delivery in operations))
        self._plan_operations(plan, operations, committed)
        self._plan_signals(plan, alarms, committed)
        return plan

    def _plan_operations(self, plan: _Plan, batch: Sequence[Delivery], committed: Mapping[tuple[str, int], int]) -> None:
        seen = self._store.applied_at(delivery.message.op_id for delivery in batch)
        before = self._refused_before(batch, committed)
        for delivery in batch:
            operation = cast(Operation, delivery.message)
            place = _place(delivery)
            verdict: str | RefusedOperation
            if place[2] < committed.get(place[:2], 0):
                verdict = before.get(place) or ("processed" if seen.get(operation.op_id) == place else "duplicate")
            else:
                plan.offsets[place[:2]] = place[2] + 1
                verdict = "duplicate" if operation.op_id in seen else self._apply(plan, operation, place)
                if verdict == "processed":
                    seen[operation.op_id] = place
            plan.put(verdict, delivery, operation.kind)

    def _apply(self, plan: _Plan, operation: Operation, place: Place) -> str | RefusedOperation:
        before = plan.insights.get(operation.insight_id) or plan.known.get(operation.insight_id)
        after = ledger.apply(before, operation)
        if isinstance(after, Rejected):
            refused = RefusedOperation(place, operation.op_id, after.reason, after.detail)
            plan.refused.append(refused)
            return refused
        plan.insights[after.id] = after
        plan.changes.append(_Change(operation, place, before, after))
        return "processed"

    def _refused_before(self, batch: Sequence[Delivery], committed: Mapping[tuple[str, int], int]) -> dict[Place, RefusedOperation]:
        """The refusals that were committed, among the batch's places."""
        found: dict[Place, RefusedOperation] = {}
        for partition in {delivery.position.partition for delivery in batch}:
            offsets = [delivery.position.offset for delivery in batch if delivery.position.partition == partition]
            if min(offsets) < committed.get((OPERATIONS.name, partition), 0):
                found |= self._store.refused_from(OPERATIONS.name, partition, min(offsets), max(offsets))
        return found

    def _plan_signals(self, plan: _Plan, batch: Sequence[Delivery], committed: Mapping[tuple[str, int], int]) -> None:
        seen = self._store.signals_at(delivery.message.id for delivery in batch)
        for delivery in batch:
            signal = cast(Signal, delivery.message)
            place = _place(delivery)
            if place[2] >= committed.get(place[:2], 0):
                plan.offsets[place[:2]] = place[2] + 1
                if signal.id not in seen:
                    seen[signal.id] = place
                    plan.signals.append((signal, place))
            plan.put("processed" if seen.get(signal.id) == place else "duplicate", delivery, f"signal.{signal.kind}")

    def _embedded(self, insights: Sequence[Insight]) -> dict[str, Vectors]:
        """Vectors by insight, each distinct text embedded once."""
        texts = list(dict.fromkeys(insight.text for insight in insights))
        if not texts:
            return {}
        rows = dict(zip(texts, self._embedder.embed(texts), strict=True))
        return {insight.id: rows[insight.text] for insight in insights}

    # --- writing

    def _write(self, plan: _Plan, vectors: Mapping[str, Vectors]) -> None:
        with self._store.transaction(self._step) as transaction:
            transaction.claim_operations([(change.operation.op_id, change.place) for change in plan.changes])
            transaction.refuse(plan.refused)
            self._step("claimed")
            for insight in plan.insights.values():
                transaction.put(insight, vectors.get(insight.id))
            transaction.record([_history(change) for change in plan.changes])
            transaction.add_signals(plan.signals)
            self._step("applied")
            transaction.advance(plan.offsets)
            self._step("advanced")
            transaction.send([_message(change) for change in plan.changes])
            self._step("sent")


class InsightOutbox:
    """The store's announcements, for the relay.

    A store rebuilt from the same log announces the same operations in the same order, so its numbers mean the same and the name
    stays.
    """

    name = "insights"

    def __init__(self, store: WritableInsightStore) -> None:
        self._store = store

    def pending(self, after: int, limit: int) -> Sequence[tuple[int, Emission]]:
        """See :class:`streams.relay.Outbox`."""
        return [
            (
                row.seq,
                Emission(BY_NAME[row.topic], row.key, InsightUpdate.model_validate_json(row.value), row.message_id, row.ts_ms),
            )
            for row in self._store.pending(after, limit)
        ]

    def mark_sent(self, upto: int) -> None:
        """See :class:`streams.relay.Outbox`.

        Raises:
            FencedOut: another writer took over.
        """
        self._store.mark_sent(upto)


def _place(delivery: Delivery) -> Place:
    return (delivery.position.topic, delivery.position.partition, delivery.position.offset)


def _history(change: _Change) -> HistoryEntry:
    operation = change.operation
    return HistoryEntry(
        change.after.id,
        change.after.revision,
        operation.op_id,
        operation.kind,
        operation.ts,
        operation.author,
        operation.reason,
        change.before.confidence if change.before else None,
        change.after.confidence,
        getattr(operation, "evidence", None),
    )


def _message(change: _Change) -> tuple[str, str, str, int, bytes]:
    operation = change.operation
    update = InsightUpdate(
        insight=change.after,
        revision=change.after.revision,
        operation_id=operation.op_id,
        kind=operation.kind,
        reason=operation.reason,
        ts=operation.ts,
    )
    message_id = content_id("insight-update", operation.op_id)
    return (INSIGHTS_UPDATED.name, change.after.id, message_id, microseconds(operation.ts) // 1000, update.to_wire())
