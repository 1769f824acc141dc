"""The fingerprint is of one state, whatever a writer commits while it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.composition import Layout, Sinks, open_sinks
from gateway.fingerprint import fingerprint
from schemas.topics import MEMORY_USED, OPERATIONS
from stores.sqlite import InsightStore
from tests.support.gateway import WordEmbedder
from tests.support.sqlite import add, use
from workers.stage import Delivery, Position


def write(sinks: Sinks, number: int) -> None:
    """An insight, which is read first, and a use, which is read later."""
    sinks.writer.handle([Delivery(Position(OPERATIONS.name, 0, number), None, add(f"i{number}"), 0)])
    sinks.writer.handle([Delivery(Position(MEMORY_USED.name, 0, number), None, use(f"u{number}", f"i{number}"), 0)])


class Interrupted(InsightStore):
    """A reader beside whom a writer commits after the first line."""

    sinks: Sinks

    def fingerprint_parts(self) -> Iterator[bytes]:
        parts = super().fingerprint_parts()
        yield next(parts)
        write(self.sinks, 1)
        yield from parts


def test_what_is_committed_meanwhile_is_not_in_it(tmp_path: Path) -> None:
    where = Layout(tmp_path)
    with open_sinks(where, WordEmbedder()) as sinks, InsightStore.open(where.insights) as plain:
        write(sinks, 0)
        before = fingerprint(sinks.episodes, plain)
        with InsightStore.open(where.insights) as reader:
            watched = Interrupted(reader._connection)
            watched.sinks = sinks
            assert fingerprint(sinks.episodes, watched) == before
        after = fingerprint(sinks.episodes, plain)
    assert after.insight_lines > before.insight_lines
    assert after != before
