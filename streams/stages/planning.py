"""What a batch of records does to the insight store, worked out before anything is written.

A record below the store's offset is not planned again but answered as it was the first time. What an agent notes may change
another note, or nothing; ``workers/notes.py`` decides, from what the operation itself says stood near and from the notes of the
same words. No model is asked, so a rebuild decides the same, however its batches are cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from schemas.identity import content_id, said_id
from schemas.insights import Insight, InsightStatus
from schemas.operations import (
    AddInsight,
    ArchiveInsight,
    EditInsight,
    LinkInsights,
    OrganiseInsight,
    RememberNote,
    TeachRanker,
    TuneRecall,
    UpvoteInsight,
)
from schemas.portfolio import PortfolioStanding
from schemas.signals import Signal
from schemas.topics import MEMORY_USED, OPERATIONS, PORTFOLIO_STANDING, SIGNALS_RAISED
from schemas.usage import MemoryUsed
from stores.recall.errors import BadRecall
from stores.recall.tuned import tuned
from stores.sqlite import NoteVerdict, Place, RefusedOperation, WritableInsightStore
from workers import ledger, notes
from workers.contradiction import Relation, claims, resolve
from workers.ledger import Beside, Operation, Rejected, Single
from workers.stage import Delivery, Outcome, Refusal

WITH_EVIDENCE = (AddInsight, EditInsight, UpvoteInsight)
CONTRARY = (notes.Event.SUPERSEDED, notes.Event.REPLACED, notes.Event.CONTESTED)
Offsets = Mapping[tuple[str, int], int]
Settings = dict[str, bool | int | float | str]


@dataclass(slots=True)
class Change:
    """What one operation does to one insight: before and after. ``reason`` is the operation's, with a note's event before it."""

    operation: Operation
    before: Insight | None
    after: Insight
    reason: str
    trace: str | None = None


@dataclass(slots=True)
class Plan:
    """What a batch will do. ``insights`` holds the final states; ``known`` those that were there before; ``said`` the active notes
    of the batch's words, by those words."""

    known: dict[str, Insight]
    insights: dict[str, Insight] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    claimed: list[tuple[str, Place]] = field(default_factory=list)
    verdicts: list[NoteVerdict] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    uses: list[tuple[MemoryUsed, Place]] = field(default_factory=list)
    settings: Settings = field(default_factory=dict)
    tunings: list[TuneRecall] = field(default_factory=list)
    beside: list[tuple[Beside, Place]] = field(default_factory=list)
    refused: list[RefusedOperation] = field(default_factory=list)
    signals: list[tuple[Signal, Place]] = field(default_factory=list)
    standings: list[PortfolioStanding] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    processed: int = 0
    duplicates: int = 0
    trace: str | None = None
    """The trace of the operation in hand."""
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

    def state(self, insight_id: str) -> Insight | None:
        """An insight as the batch has left it so far."""
        return self.insights.get(insight_id) or self.known.get(insight_id)

    def change(self, operation: Operation, before: Insight | None, after: Insight, reason: str) -> None:
        """Take an effect down."""
        self.insights[after.id] = after
        self.changes.append(Change(operation, before, after, reason, self.trace))
        self.hear(after)

    def hear(self, insight: Insight) -> None:
        """Make a note findable by its words, and by its former words no more."""
        if insight.note is None and insight.id not in self.heard:
            return
        self.heard.add(insight.id)
        for found in self.said.values():
            if insight.id in found:
                found.remove(insight.id)
        if insight.note is not None and insight.status is InsightStatus.ACTIVE:
            self.said.setdefault(said_id(insight.key, insight.text), []).append(insight.id)

    def rivals(self, insight: Insight) -> list[Insight]:
        """Active insights whose claims say the opposite, by id."""
        ids = sorted(self.known.keys() | self.insights.keys())
        states = [state for one in ids if one != insight.id and (state := self.state(one)) is not None]
        return [
            state
            for state in states
            if state.status is InsightStatus.ACTIVE
            and state.claim is not None
            and insight.claim is not None
            and claims(insight.claim, state.claim) is Relation.OPPOSITE
        ]

    def contrast(self, operation: Operation, holds: str, other: str, why: str, place: Place) -> None:
        """Link two statements that cannot both hold."""
        link = LinkInsights(
            op_id=content_id("contrast", operation.op_id, holds, other),
            insight_id=holds,
            target_id=other,
            relation="CONTRASTS",
            strength=1.0,
            ts=operation.ts,
            author=operation.author,
            reason=why,
        )
        self.beside.append((link, place))

    def needing_vectors(self) -> list[Insight]:
        """Active insights whose text is new, or that come back into the context."""
        return [
            insight
            for insight in self.insights.values()
            if insight.status is InsightStatus.ACTIVE and not _in_context_as(self.known.get(insight.id), insight.text)
        ]


def _in_context_as(known: Insight | None, text: str) -> bool:
    return known is not None and known.status is InsightStatus.ACTIVE and known.text == text


def plan_batch(store: WritableInsightStore, batch: Sequence[Delivery]) -> Plan:
    """The plan of a batch over the store's present state."""
    operations = [delivery for delivery in batch if delivery.position.topic == OPERATIONS.name]
    committed = store.next_offsets()
    plan = _with_what_is_known(store, operations)
    _plan_operations(store, plan, operations, committed)
    _plan_signals(store, plan, [delivery for delivery in batch if delivery.position.topic == SIGNALS_RAISED.name], committed)
    _plan_uses(store, plan, [delivery for delivery in batch if delivery.position.topic == MEMORY_USED.name], committed)
    _plan_standings(plan, [delivery for delivery in batch if delivery.position.topic == PORTFOLIO_STANDING.name], committed)
    return plan


def _with_what_is_known(store: WritableInsightStore, batch: Sequence[Delivery]) -> Plan:
    """A plan with every insight that the operations may concern: their own, and for notes what stands near."""
    wanted = {delivery.message.insight_id for delivery in batch}
    written = [delivery.message for delivery in batch if isinstance(delivery.message, RememberNote)]
    for note in written:
        wanted |= {one.insight_id for one in note.similar} | ({note.corrects} if note.corrects else set())
    for one in (delivery.message for delivery in batch):
        wanted |= (
            {one.target_id} if isinstance(one, LinkInsights) else set(one.cites) if isinstance(one, OrganiseInsight) else set()
        )
        wanted |= {one.by} if isinstance(one, ArchiveInsight) and one.by else set()
    if written:
        wanted |= set(store.notes_saying(said_id(note.key, note.text) for note in written))
    plan = Plan(known=store.current(wanted), settings={name: one.value for name, one in store.tuned().items()})
    contested = {insight.note.contests for insight in plan.known.values() if insight.note and insight.note.contests}
    plan.known |= store.current(contested - plan.known.keys())
    plan.known |= store.claims_about(_keys_of_claims(plan, batch))
    for insight in plan.known.values():
        plan.hear(insight)
    return plan


def _keys_of_claims(plan: Plan, batch: Sequence[Delivery]) -> set[str]:
    """The keys of claims that the batch brings evidence about: what contradicts them is about the same key."""
    keys = set()
    for one in (delivery.message for delivery in batch if isinstance(delivery.message, WITH_EVIDENCE)):
        known = plan.known.get(one.insight_id)
        keys |= {one.key} if isinstance(one, AddInsight) and one.claim else {known.key} if known and known.claim else set()
    return keys


def _plan_operations(store: WritableInsightStore, plan: Plan, batch: Sequence[Delivery], committed: Offsets) -> None:
    seen = store.applied_at(delivery.message.op_id for delivery in batch)
    before = _refused_before(store, batch, committed)
    for delivery in batch:
        operation = cast(Operation, delivery.message)
        place = _place(delivery)
        verdict: str | RefusedOperation
        if place[2] < committed.get(place[:2], 0):
            verdict = before.get(place) or ("processed" if seen.get(operation.op_id) == place else "duplicate")
        else:
            plan.offsets[place[:2]] = place[2] + 1
            plan.trace = delivery.trace
            verdict = "duplicate" if operation.op_id in seen else _apply(plan, operation, place)
            if verdict == "processed":
                seen[operation.op_id] = place
        plan.put(verdict, delivery, operation.kind)


def _apply(plan: Plan, operation: Operation, place: Place) -> str | RefusedOperation:
    match operation:
        case RememberNote():
            refused = _remember(plan, operation, place)
        case TuneRecall():
            refused = _tune(plan, operation)
        case LinkInsights() | OrganiseInsight() | TeachRanker():
            refused = _beside(plan, operation, place)
        case _:
            refused = _single(plan, operation, place)
    if refused is not None:
        told = RefusedOperation(place, operation.op_id, refused.reason, refused.detail)
        plan.refused.append(told)
        return told
    plan.claimed.append((operation.op_id, place))
    return "processed"


def _single(plan: Plan, operation: Single, place: Place) -> Rejected | None:
    """Apply an operation to its own insight, and what follows for others: one takes it in, or one of two contrary claims goes."""
    before = plan.state(operation.insight_id)
    after = ledger.apply(before, operation)
    if isinstance(after, Rejected):
        return after
    if isinstance(operation, ArchiveInsight) and operation.cause == "merged":
        kept = plan.state(str(operation.by))
        if kept is None:
            return Rejected("unknown_insight", f"{after.id} is to be merged into {operation.by}, which was never added")
        taken = ledger.absorbed(kept, after, operation.ts)
        if isinstance(taken, Rejected):
            return taken
        plan.change(operation, kept, taken, f"took in {after.id}: {operation.reason}"[:2000])
    if isinstance(operation, WITH_EVIDENCE) and operation.evidence is not None and after.claim is not None:
        after = _settled(plan, operation, after, place)
    plan.change(operation, before, after, operation.reason)
    return None


def _settled(plan: Plan, operation: Single, after: Insight, place: Place) -> Insight:
    """An insight beside the claims that contradict it: what gives way is archived, and the two are linked.

    A claim that gave way before comes back when its new evidence outweighs the other's, or when the other is gone.
    """
    if after.status is not InsightStatus.ACTIVE and not (after.archived and after.archived.cause == "superseded"):
        return after
    holds = True
    for rival in plan.rivals(after):
        resolution = resolve(after, rival)
        holds = holds and resolution.holds.id == after.id
        if resolution.gives_way.id == rival.id:
            gone = ledger.superseded(rival, after.id, operation.ts).model_copy(update={"revision": rival.revision + 1})
            plan.change(operation, rival, gone, f"contradicted: {resolution.why}")
        elif after.status is InsightStatus.ACTIVE:
            after = ledger.superseded(after, rival.id, operation.ts)
        plan.contrast(operation, resolution.holds.id, resolution.gives_way.id, resolution.why, place)
    return ledger.back(after) if holds and after.status is InsightStatus.ARCHIVED else after


def _tune(plan: Plan, operation: TuneRecall) -> Rejected | None:
    """Change settings of recall, if they make sense together with those that were changed before."""
    wanted: Settings = {} if operation.reset else plan.settings | operation.changes
    try:
        tuned(wanted)
    except BadRecall as error:
        return Rejected("bad_tuning", f"{error}; {error.hint}" if error.hint else str(error))
    plan.settings = wanted
    plan.tunings.append(operation)
    return None


def _beside(plan: Plan, operation: Beside, place: Place) -> Rejected | None:
    """Take down what changes no insight. What is forgotten gets no link, and no words of it are kept."""
    if isinstance(operation, (LinkInsights, OrganiseInsight)):
        ends = [operation.insight_id, *([operation.target_id] if isinstance(operation, LinkInsights) else [])]
        for end in ends:
            insight = plan.state(end)
            if insight is None:
                return Rejected("unknown_insight", f"{operation.kind} of insight {end}, which was never added")
            if insight.status is InsightStatus.FORGOTTEN:
                return Rejected("forgotten", f"insight {end} was forgotten; {operation.kind} does not apply to it")
    if isinstance(operation, OrganiseInsight):
        cited = [plan.state(one) for one in operation.cites]
        if any(one is None or one.status is InsightStatus.FORGOTTEN for one in cited):
            operation = operation.model_copy(update={"context_note": None, "cites": ()})
    plan.beside.append((operation, place))
    return None


def _remember(plan: Plan, note: RememberNote, place: Place) -> Rejected | None:
    """Apply a note to what it concerns."""
    there = plan.state(note.insight_id)
    if there is not None:
        return Rejected("already_exists", f"insight {there.id} exists ({there.status}, revision {there.revision})")
    corrected = plan.state(note.corrects) if note.corrects else None
    if note.corrects and (corrected is None or corrected.note is None or corrected.status is not InsightStatus.ACTIVE):
        return Rejected("cannot_correct", f"{note.corrects} is no note that is in use")
    near = {one.insight_id: one.similarity for one in note.similar}
    near |= dict.fromkeys(plan.said.get(said_id(note.key, note.text), ()), 1.0)
    states = ((plan.state(found), similarity) for found, similarity in near.items())
    candidates = [notes.Candidate(state, similarity) for state, similarity in states if state is not None]
    verdict = notes.decide(note, candidates, corrected)
    contests = verdict.other.note.contests if verdict.other and verdict.other.note else None
    remembered = notes.remember(note, candidates, corrected, plan.state(contests) if contests else None)
    for before, after in remembered.changes:
        plan.change(note, before, after, f"{verdict.event}: {note.reason}"[:2000])
    other = verdict.other.id if verdict.other else None
    held = note.insight_id if any(after.id == note.insight_id for _, after in remembered.changes) else other
    if other is not None and verdict.event in CONTRARY:
        plan.contrast(note, note.insight_id, other, verdict.why, place)
    plan.verdicts.append(NoteVerdict(note.op_id, verdict.event, held, other, verdict.similarity, verdict.why))
    return None


def _refused_before(store: WritableInsightStore, batch: Sequence[Delivery], committed: Offsets) -> dict[Place, RefusedOperation]:
    """The refusals that were committed, among the batch's places."""
    found: dict[Place, RefusedOperation] = {}
    for partition in {delivery.position.partition for delivery in batch}:
        offsets = [delivery.position.offset for delivery in batch if delivery.position.partition == partition]
        if min(offsets) < committed.get((OPERATIONS.name, partition), 0):
            found |= store.refused_from(OPERATIONS.name, partition, min(offsets), max(offsets))
    return found


def _plan_signals(store: WritableInsightStore, plan: Plan, batch: Sequence[Delivery], committed: Offsets) -> None:
    seen = store.signals_at(delivery.message.id for delivery in batch)
    for delivery in batch:
        signal = cast(Signal, delivery.message)
        place = _place(delivery)
        if place[2] >= committed.get(place[:2], 0):
            plan.offsets[place[:2]] = place[2] + 1
            if signal.id not in seen:
                seen[signal.id] = place
                plan.signals.append((signal, place))
        plan.put("processed" if seen.get(signal.id) == place else "duplicate", delivery, f"signal.{signal.kind}")


def _plan_uses(store: WritableInsightStore, plan: Plan, batch: Sequence[Delivery], committed: Offsets) -> None:
    seen = store.uses_at(delivery.message.use_id for delivery in batch) if batch else {}
    for delivery in batch:
        use = cast(MemoryUsed, delivery.message)
        place = _place(delivery)
        if place[2] >= committed.get(place[:2], 0):
            plan.offsets[place[:2]] = place[2] + 1
            if use.use_id not in seen:
                seen[use.use_id] = place
                plan.uses.append((use, place))
        plan.put("processed" if seen.get(use.use_id) == place else "duplicate", delivery, "use")


def _plan_standings(plan: Plan, batch: Sequence[Delivery], committed: Offsets) -> None:
    """The latest of each portfolio stays; that is all there is to it, so one that comes again is processed again."""
    for delivery in batch:
        place = _place(delivery)
        if place[2] >= committed.get(place[:2], 0):
            plan.offsets[place[:2]] = place[2] + 1
            plan.standings.append(cast(PortfolioStanding, delivery.message))
        plan.put("processed", delivery, "standing")


def _place(delivery: Delivery) -> Place:
    return (delivery.position.topic, delivery.position.partition, delivery.position.offset)
