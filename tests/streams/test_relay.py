"""The relay between its two commits: what is in the log is never sent again, and the store's mark catches up."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.codec import decode
from schemas.topics import INSIGHTS_UPDATED
from streams.embedded.log import EmbeddedLog
from streams.relay import Outbox, Relay
from tests.support.streams import read_all, update
from workers.stage import Emission


class Memory:
    """An outbox in memory."""

    name = "memory"

    def __init__(self, count: int) -> None:
        self.rows = [(n, Emission(INSIGHTS_UPDATED, "a", update("a", n), f"a-{n}", 1000 * n)) for n in range(1, count + 1)]

    def pending(self, after: int, limit: int) -> list[tuple[int, Emission]]:
        return [row for row in self.rows if row[0] > after][:limit]

    def mark_sent(self, upto: int) -> None:
        self.rows = [row for row in self.rows if row[0] > upto]


class Crash(Exception):
    """The process ends here."""


def crash_at(stop: str | None) -> object:
    def reached(point: str) -> None:
        if point == stop:
            raise Crash

    return reached


@pytest.mark.parametrize("point", [None, "relay-in-transaction", "relay-appended", "relay-marked"])
def test_a_crash_anywhere_sends_each_once(tmp_path: Path, point: str | None) -> None:
    outbox = Memory(5)
    assert isinstance(outbox, Outbox)
    with EmbeddedLog(tmp_path / "log.db") as log, log.lead() as lease:
        if point is not None:
            with pytest.raises(Crash):
                Relay(outbox, batch=5).step(log, lease, crash_at(point))
        relay = Relay(outbox, batch=2)
        while relay.step(log, lease, crash_at(None)):
            pass
        records = read_all(log, INSIGHTS_UPDATED.name)
        assert [decode("insight-update", record.value).revision for record in records] == [1, 2, 3, 4, 5]
        assert [record.header("ce_id") for record in records] == [f"a-{n}" for n in range(1, 6)]
        assert records[1].header("ce_time") == "1970-01-01T00:00:02Z"
        assert {(record.key, record.header("ce_source")) for record in records} == {(b"a", "/defi-brain/memory")}
        assert outbox.rows == []
        assert log.relay_position("memory") == 5
