"""The insight writer: operations, signals and uses of the memory into the store, each effect exactly once.

A batch goes through these steps; a process may die between any two of them and the result is the same:

0. *planned*: what is known of these records is read, the ledger is applied in memory, and the texts that need a vector are
   embedded — all before the transaction, because a model takes longer than others should wait. Nobody can have changed the store
   between the plan and the transaction: who does so has raised the epoch, and step 2 fails.
1. *begun*: ``BEGIN IMMEDIATE``.
2. *fenced*: is this still our epoch? Else nothing is written, now or later.
3. *claimed*: the operations' ids, each once; refused ones by their place.
4. *applied*: insights with text and vector, their history, verdicts on notes, signals, uses.
5. *advanced*: the offsets of the input.
6. *sent*: an update for each changed insight into the outbox, with an id that follows from the operation's.
7. *committed*.

The store is the referee: its own offsets say where to go on, and the broker's commit is only advice. So a batch may come a second
time. A record below the store's offset is not applied again but answered as it was the first time: refused, if its place is among
the refusals; processed, if its id was first seen at this place; else a duplicate. A refused operation does not use its id up: sent
again later, it may apply.

What an agent notes (REMEMBER) may change another note, or nothing: see ``streams/stages/planning.py``.

The outbox is emptied by the relay (``streams/relay.py``), through :class:`InsightOutbox`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.identity import content_id
from schemas.insights import Insight, InsightStatus, InsightUpdate
from schemas.topics import BY_NAME, INSIGHTS_UPDATED, MEMORY_USED, OPERATIONS, PORTFOLIO_STANDING, SIGNALS_RAISED, Topic
from stores.sqlite import HistoryEntry, OutboxRow, StoreError, WritableInsightStore
from stores.sqlite.filters import microseconds
from stores.sqlite.rows import changed_fields
from stores.sqlite.writable import Hook
from streams.log import LogMismatch
from streams.stages.planning import Change, Plan, plan_batch
from workers.ports import Embedder, Vectors
from workers.stage import Delivery, Emission, Outcome

STEPS = ("planned", "begun", "fenced", "claimed", "applied", "advanced", "sent", "committed")
"""The names that the hook hears, in order."""


class InsightWriter:
    """The sink of operations, signals and uses. ``step`` is called with each of ``STEPS`` as it is done, for tests that stop there.

    Raises, when it is made:
        StoreError: the embedder is not the store's.
    """

    name = "writer"
    inputs: tuple[Topic, ...] = (OPERATIONS, SIGNALS_RAISED, MEMORY_USED, PORTFOLIO_STANDING)
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
        plan = plan_batch(self._store, batch)
        if plan.empty:
            self._store.check_epoch()
            return plan.outcome()
        vectors = self._embedded(plan.needing_vectors())
        self._step("planned")
        self._write(plan, vectors)
        self._step("committed")
        self._forget(plan)
        return plan.outcome()

    def _forget(self, plan: Plan) -> None:
        """A cache before the embedder forgets the words as well, and so does the store's write-ahead file."""
        forget = getattr(self._embedder, "forget", None)
        gone = [one for one in plan.insights.values() if one.status is InsightStatus.FORGOTTEN]
        if gone:
            self._store.forgot()
        if forget is not None and gone:
            forget(sorted({change.before.text for change in plan.changes if change.before is not None and change.after in gone}))

    def _embedded(self, insights: Sequence[Insight]) -> dict[str, Vectors]:
        """Vectors by insight, each distinct text embedded once."""
        texts = list(dict.fromkeys(insight.text for insight in insights))
        if not texts:
            return {}
        rows = dict(zip(texts, self._embedder.embed(texts), strict=True))
        return {insight.id: rows[insight.text] for insight in insights}

    # --- writing

    def _write(self, plan: Plan, vectors: Mapping[str, Vectors]) -> None:
        forgotten = [insight.id for insight in plan.insights.values() if insight.status is InsightStatus.FORGOTTEN]
        with self._store.transaction(self._step) as transaction:
            transaction.claim_operations(plan.claimed)
            transaction.refuse(plan.refused)
            self._step("claimed")
            for insight in plan.insights.values():
                transaction.put(insight, vectors.get(insight.id))
            transaction.merge([(change.before, change.after) for change in plan.changes])
            transaction.record([_history(change) for change in plan.changes])
            transaction.add_verdicts(plan.verdicts)
            transaction.put_beside(plan.beside)
            transaction.scrub(forgotten)
            transaction.add_signals(plan.signals)
            transaction.add_uses(plan.uses)
            transaction.stand(plan.standings)
            transaction.tune(plan.tunings)
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
        """See :class:`streams.relay.Outbox`. Asked after every batch and now and then in between, so the store cleans up here."""
        self._store.clean()
        return [
            (
                row.seq,
                _announcement(row),
            )
            for row in self._store.pending(after, limit)
        ]

    def mark_sent(self, upto: int) -> None:
        """See :class:`streams.relay.Outbox`.

        Raises:
            FencedOut: another writer took over.
        """
        self._store.mark_sent(upto)


def _history(change: Change) -> HistoryEntry:
    operation = change.operation
    return HistoryEntry(
        change.after.id,
        change.after.revision,
        operation.op_id,
        operation.kind,
        operation.ts,
        operation.author,
        change.reason,
        change.before.confidence if change.before else None,
        change.after.confidence,
        getattr(operation, "evidence", None),
        changed_fields(change.before, change.after, getattr(operation, "evidence", None)),
    )


def _announcement(row: OutboxRow) -> Emission:
    update = InsightUpdate.model_validate_json(row.value)
    return Emission(BY_NAME[row.topic], row.key, update, row.message_id, row.ts_ms, row.trace)


def _message(change: Change) -> tuple[str, str, str, int, bytes, str | None]:
    operation = change.operation
    update = InsightUpdate(
        insight=change.after,
        revision=change.after.revision,
        operation_id=operation.op_id,
        kind=operation.kind,
        reason=change.reason,
        ts=operation.ts,
    )
    own = change.after.id == operation.insight_id
    message_id = content_id("insight-update", operation.op_id, *(() if own else (change.after.id,)))
    return (INSIGHTS_UPDATED.name, change.after.id, message_id, microseconds(operation.ts) // 1000, update.to_wire(), change.trace)
