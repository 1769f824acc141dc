"""What the stores tell: sizes, and what has been learned."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, get_args

from gateway.metrics import catalogue
from gateway.metrics.collector import Sample
from schemas.claims import Category
from schemas.insights import InsightStatus, OperationKind
from stores.sqlite.census import BAND_NAMES, Census, take_census
from stores.sqlite.connection import Connection, open_connection
from workers.metrics import WATCHED
from workers.notes import Event
from workers.regimes.model import NAMES

KINDS: tuple[str, ...] = get_args(OperationKind)
EVENTS = tuple(event.value for event in Event)
LEVELS = ("pair", "tool", "global")
REGIME_NAMES: tuple[str, ...] = max(NAMES.values(), key=len)


class FilesPart:
    """Sizes of SQLite files with their write-ahead logs, and the room that is left for them."""

    name = "files"

    def __init__(self, folder: Path, files: Mapping[str, Path]) -> None:
        self._folder = folder
        self._files = files

    def samples(self) -> Iterator[Sample]:
        """What it is now. A file that is not there takes no room."""
        for store, path in self._files.items():
            yield Sample(catalogue.STORE_BYTES, (store,), _size(path))
            yield Sample(catalogue.WAL_BYTES, (store,), _size(path.with_name(f"{path.name}-wal")))
        usage = shutil.disk_usage(self._folder)
        yield Sample(catalogue.DISK_FREE, (), usage.free)
        yield Sample(catalogue.DISK_SIZE, (), usage.total)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class InsightsPart:
    """The insight store, read over a connection of its own: a scrape never waits for the writer's lock, nor it for a scrape."""

    name = "insights"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: Connection | None = None

    def samples(self) -> Iterator[Sample]:
        """What it holds now, zeros of everything that may come included."""
        if self._connection is None:
            self._connection = open_connection(self._path, readonly=True)
        census = take_census(self._connection)
        yield Sample(catalogue.OUTBOX, (), census.outbox)
        yield Sample(catalogue.EPOCH, (), census.epoch)
        yield Sample(catalogue.REFUSED, (), census.refused)
        yield from _learned(census)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()


def _learned(census: Census) -> Iterator[Sample]:
    for category in Category:
        for band in BAND_NAMES:
            for status in InsightStatus:
                labels = (category.value, status.value, band)
                yield Sample(catalogue.INSIGHTS, labels, census.insights.get(labels, 0))
    for kind in dict.fromkeys((*KINDS, *census.operations)):
        yield Sample(catalogue.OPERATIONS, (kind,), census.operations.get(kind, 0))
    for event in dict.fromkeys((*EVENTS, *census.notes)):
        yield Sample(catalogue.NOTES, (event,), census.notes.get(event, 0))
    streams = ((level, metric) for level in LEVELS for metric in WATCHED)
    for stream in dict.fromkeys((*streams, *census.alarms)):
        yield Sample(catalogue.ALARMS, stream, census.alarms.get(stream, 0))
    for metric, counts in ((catalogue.REGIMES, census.regimes.present), (catalogue.REGIME_CHANGES, census.regimes.changes)):
        names = (name for name, simulated in counts if not simulated)
        for name in dict.fromkeys((*REGIME_NAMES, *names)):
            yield Sample(metric, (name,), counts.get((name, False), 0))


class EpisodeStats(Protocol):
    """The sizes of an episode store."""

    @property
    def rows(self) -> int:
        """Episodes."""
        ...

    @property
    def segments(self) -> int:
        """Tables."""
        ...

    @property
    def fragments(self) -> int:
        """Fragments."""
        ...

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk."""
        ...


class HasEpisodeStats(Protocol):
    """An episode store, as far as monitoring is concerned."""

    def stats(self) -> EpisodeStats:
        """How large it is."""
        ...


class EpisodesPart:
    """The episode store."""

    name = "episodes"

    def __init__(self, store: HasEpisodeStats) -> None:
        self._store = store

    def samples(self) -> Iterator[Sample]:
        """What it holds now."""
        stats = self._store.stats()
        yield Sample(catalogue.EPISODES, (), stats.rows)
        yield Sample(catalogue.EPISODE_SEGMENTS, (), stats.segments)
        yield Sample(catalogue.EPISODE_FRAGMENTS, (), stats.fragments)
        yield Sample(catalogue.STORE_BYTES, (self.name,), stats.disk_bytes)


class CountingEmbedder(Protocol):
    """An embedder that counts what its cache answered."""

    hits: int
    misses: int


class EmbedderPart:
    """The embedding cache."""

    name = "embedder"

    def __init__(self, embedder: CountingEmbedder) -> None:
        self._embedder = embedder

    def samples(self) -> Iterator[Sample]:
        """What it has answered."""
        yield Sample(catalogue.EMBEDDED, ("cache",), self._embedder.hits)
        yield Sample(catalogue.EMBEDDED, ("model",), self._embedder.misses)
