"""The learning core in one process: executions in, insights out, by the stages that the pipeline runs.

reflect → episode → distil (→ levels) → operations → ledger. What is left out is what moves and keeps records: log, stores, and the
embedding, because the question is always about one record key and so finds all of its insights.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import cast

from schemas.episodes import Episode, episode_id
from schemas.events import ToolExecution
from schemas.insights import Insight, InsightStatus
from schemas.settings import Settings
from schemas.topics import EPISODES_RECORDED, OPERATIONS, WINDOWS_CLOSED
from workers import ledger
from workers.distil.learning import Learning
from workers.distil.stage import DistilStage
from workers.ledger import Single
from workers.levels.stage import LevelsStage
from workers.reflect import reflect
from workers.signals import SignalsStage
from workers.stage import Delivery, Position

MIN_CONFIDENCE = Decimal("0.5")
MODEL = "none"


class Memory:
    """What executions have taught. With ``levels`` also what holds for a tool, for everything, and the lessons from failures."""

    def __init__(self, settings: Settings, *, levels: bool = False) -> None:
        self.insights: dict[str, Insight] = {}
        self.history: list[Single] = []
        """Every operation that applied, in order."""
        self.alarms = 0
        learning = Learning.of(settings)
        self._distil = DistilStage(learning, lateness_hours=settings.lateness_hours)
        self._signals = SignalsStage(0, settings)
        self._levels = LevelsStage(learning, sources=1) if levels else None
        self._offset = 0

    @property
    def operations(self) -> Counter[str]:
        """How many operations of each kind applied."""
        return Counter(operation.kind for operation in self.history)

    def learn(self, event: ToolExecution) -> None:
        """Take an execution."""
        delivery = delivery_of(event, self._offset)
        self._offset += 1
        self.alarms += len(self._signals.handle([delivery]).emissions)
        for emission in self._distil.handle([delivery]).emissions:
            if emission.topic is OPERATIONS:
                self._apply(cast(Single, emission.message))
            elif emission.topic is WINDOWS_CLOSED and self._levels is not None:
                closed = Delivery(
                    Position(WINDOWS_CLOSED.name, 0, delivery.position.offset), None, emission.message, emission.ts_ms
                )
                for above in self._levels.handle([closed]).emissions:
                    if above.topic is OPERATIONS:
                        self._apply(cast(Single, above.message))

    def _apply(self, operation: Single) -> None:
        after = ledger.apply(self.insights.get(operation.insight_id), operation)
        if isinstance(after, Insight):
            self.insights[after.id] = after
            self.history.append(operation)

    def recall(self, key: str) -> list[Insight]:
        """The insights about a record key that are believed enough to be handed out, the surest first."""
        found = [
            one
            for one in self.insights.values()
            if one.key == key and one.status is InsightStatus.ACTIVE and one.confidence >= MIN_CONFIDENCE
        ]
        return sorted(found, key=lambda one: (-one.confidence, one.id))


def delivery_of(event: ToolExecution, offset: int) -> Delivery:
    """An execution as the episode that the pipeline would record of it, without its vector."""
    thought = reflect(event)
    episode = Episode(
        id=episode_id(event),
        key=event.key,
        label=event.pair_label[:128],
        event=event,
        metrics=thought.metrics,
        features=thought.features,
        reflection=thought.text,
        sentence=thought.sentence,
        vector=b"",
        model=MODEL,
        importance=thought.importance,
    )
    position = Position(EPISODES_RECORDED.name, 0, offset)
    return Delivery(position, event.key.encode(), episode, round(event.ts_executed.timestamp() * 1000))
