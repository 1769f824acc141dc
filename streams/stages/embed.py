"""Executions into episodes: reflect, embed, and refuse what is dated in the future."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.episodes import Episode, episode_id
from schemas.topics import EPISODES_RECORDED, TOOLS_EXECUTED, Topic
from schemas.types import iso
from streams.tracing import root
from workers.clock import milliseconds
from workers.ports import Embedder
from workers.reflect import Reflection, reflect
from workers.stage import Delivery, Emission, Outcome, Refusal


class ReflectEmbed:
    """Stateless. An execution becomes an episode under the id that its event gives it, with the sentence's vector.

    ``max_future_ms`` is how far after its arrival in the log an event may be dated: later ones are refused as ``future_dated``,
    because one of them would push every clock that is made of event times. ``trace_ratio`` is the share of the records without a
    trace of their own that get one here.
    """

    name = "embed"
    inputs: tuple[Topic, ...] = (TOOLS_EXECUTED,)
    outputs: tuple[Topic, ...] = (EPISODES_RECORDED,)

    def __init__(self, embedder: Embedder, max_future_ms: int, trace_ratio: float = 0.0) -> None:
        self._embedder = embedder
        self._max_future_ms = max_future_ms
        self._trace_ratio = trace_ratio

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """One inference call for the whole batch."""
        refusals = [refusal for delivery in batch if (refusal := self._too_early(delivery))]
        refused = {refusal.position for refusal in refusals}
        taken = [delivery for delivery in batch if delivery.position not in refused]
        reflections = [reflect(delivery.message) for delivery in taken]
        vectors = self._embedder.embed([reflection.sentence for reflection in reflections])
        emissions = [
            self._emission(delivery, reflection, vector.astype("<f4").tobytes())
            for delivery, reflection, vector in zip(taken, reflections, vectors, strict=True)
        ]
        return Outcome(emissions, refusals, processed=len(taken))

    def _too_early(self, delivery: Delivery) -> Refusal | None:
        executed = milliseconds(delivery.message.ts_executed)
        ahead = executed - delivery.timestamp_ms
        if ahead <= self._max_future_ms:
            return None
        detail = f"ts_executed {iso(delivery.message.ts_executed)} is {ahead / 1000:.0f} s after the record's arrival"
        return Refusal(delivery.position, "future_dated", f"{detail}; at most {self._max_future_ms / 1000:.0f} s are allowed")

    def _emission(self, delivery: Delivery, reflection: Reflection, vector: bytes) -> Emission:
        event = delivery.message
        episode = Episode(
            id=episode_id(event),
            key=event.key,
            label=event.pair_label[:128],
            event=event,
            metrics=reflection.metrics,
            features=reflection.features,
            reflection=reflection.text,
            sentence=reflection.sentence,
            vector=vector,
            model=self._embedder.model_id,
            importance=reflection.importance,
        )
        trace = delivery.trace or root(event.event_id, self._trace_ratio)
        return Emission(EPISODES_RECORDED, episode.key, episode, episode.id, milliseconds(event.ts_executed), trace)
