"""The episode sink: recorded episodes into the episode store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.topics import EPISODES_RECORDED, Topic
from stores.episodes import Effect, EpisodeStoreError, WritableEpisodeStore
from streams.log import LogMismatch, Partition
from workers.stage import Delivery, Outcome, Refusal


class EpisodeSink:
    """A sink that knows how far its store is: a lost or older store is filled again from the log.

    An update (a pending execution that became final, a retraction) counts as processed, like a record that a crash delivers a
    second time; ``counts`` tells them apart. A vector of another model is refused as ``other_vector``.
    """

    name = "episodes"
    inputs: tuple[Topic, ...] = (EPISODES_RECORDED,)
    outputs: tuple[Topic, ...] = ()

    def __init__(self, store: WritableEpisodeStore) -> None:
        self._store = store

    def bind(self, log_id: str) -> None:
        """Tie the store to the log.

        Raises:
            LogMismatch: another log fills it.
        """
        try:
            self._store.bind(log_id)
        except EpisodeStoreError as error:
            raise LogMismatch(str(error), hint=error.hint) from None

    def next_offsets(self) -> Mapping[Partition, int]:
        """From where the store has to be fed. It may be fed again what it has: records after its last row were duplicates."""
        return {(EPISODES_RECORDED.name, partition): offset for partition, offset in self._store.next_offsets().items()}

    def handle(self, batch: Sequence[Delivery]) -> Outcome:
        """One commit for the whole batch, two where it changes older episodes."""
        faults = {delivery.position: fault for delivery in batch if (fault := self._store.fault(delivery.message))}
        taken = [(delivery.position, delivery.message) for delivery in batch if delivery.position not in faults]
        effects = Counter(self._store.record(taken))
        duplicates = effects.pop(Effect.DUPLICATE, 0)
        return Outcome(
            refusals=[Refusal(position, "other_vector", fault) for position, fault in faults.items()],
            processed=len(taken) - duplicates,
            duplicates=duplicates,
            counts={str(effect): count for effect, count in effects.items()},
        )
