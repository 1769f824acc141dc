"""What models have said so far, as far as deciding what to ask next needs it: read from the log, for the log alone knows it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from schemas.codec import ContractError, decode
from schemas.model_said import ModelSaid
from schemas.topics import MODEL_SAID
from streams.log import LogReader

READ = 200


class History:
    """Follows the topic of what was said. ``refresh`` takes in what came since the last time."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._offset = log.start_offsets(MODEL_SAID.name)[0]
        self._looks: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._ids: set[str] = set()
        self._spent: list[tuple[datetime, int]] = []

    def refresh(self) -> None:
        """Read on."""
        for offset, said in records(self._log, self._offset):
            self._offset = offset + 1
            if said is not None:
                self._take(said)

    def _take(self, said: ModelSaid) -> None:
        self._spent = [*self._spent[-2000:], (said.ts, said.tokens)]
        if said.outcome != "unavailable":
            self._ids.add(said.said_id)
        if said.purpose == "claims" and said.outcome != "unavailable":
            self._looks[said.subject] = max(self._looks.get(said.subject, 0), said.look)
            self._rows[said.subject] = said.rows

    def looks(self, key: str) -> int:
        """How many times claims were asked for about a key."""
        return self._looks.get(key, 0)

    def rows(self, key: str) -> int:
        """How many episodes the key had when it was last asked about."""
        return self._rows.get(key, 0)

    def has(self, said_id: str) -> bool:
        """Whether this very question was answered."""
        return said_id in self._ids

    @property
    def spent(self) -> list[tuple[datetime, int]]:
        """Tokens by time, the latest ones."""
        return self._spent


def records(log: LogReader, offset: int = 0) -> Iterator[tuple[int, ModelSaid | None]]:
    """Everything that was said from an offset on, with its offset; None for a record that is no such thing."""
    end = log.end_offsets(MODEL_SAID.name)[0]
    while offset < end:
        batch = log.read(MODEL_SAID.name, 0, offset, min(READ, end - offset))
        if not batch:
            return
        for record in batch:
            offset = record.offset + 1
            try:
                yield record.offset, decode(MODEL_SAID.carries, record.value)
            except ContractError:
                yield record.offset, None
