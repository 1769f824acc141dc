"""Writing episodes: one process, in batches.

A batch goes through these steps; a process may die between any two of them, and the same batch delivered again gives the same
rows and the same answers:

1. *judged*: what is kept under the batch's ids is read by one query a segment, and each record judged in order (``merge.py``), the
   later ones of an id against what the earlier ones made of it.
2. *added*: new episodes are appended to the last segment, in one commit.
3. *replaced*: changed episodes replace their rows, in one commit a segment; *purged*: a segment in which something was forgotten
   is written anew, so that no older version has it.
4. *begun*: when the last segment is full, the next one is made and put into the header.

LanceDB guards no uniqueness (two concurrent upserts of one id keep both), so uniqueness rests on the writer's lock and on step 1.
Nor does it fsync. After a power loss the store may lack its newest rows, and ``next_offsets`` says from where the log has to be
read again.

Compaction runs on a thread beside the appends, which it does not disturb. A replacement would make a running compaction fail, so
it waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self

from schemas.episodes import Episode
from stores.episodes.errors import EpisodeStoreError
from stores.episodes.layout import HEADER as HEADER_FILE
from stores.episodes.layout import REBUILD, Header, WriterLock, header_stamp, read_header, write_header
from stores.episodes.merge import Effect, Kept, Place, after, judge
from stores.episodes.rows import Row, fault, schema, to_table
from stores.episodes.segment import NEW_TABLE, Segment
from stores.episodes.store import EmbedderInfo, EpisodeStore, check_made_by
from stores.episodes.upkeep import FEW, IDLE_S, Upkeep
from stores.heap import release

LOGGER = logging.getLogger(__name__)

SEGMENT_ROWS = 32_768
KEEP = timedelta(minutes=1)
"""Old versions stay this long for readers that still read them."""
STEPS = ("judged", "added", "replaced", "purged", "begun", "optimizing", "optimized")
"""The names that the hook hears; the last two from whichever thread compacts."""

Hook = Callable[[str], None]


class WritableEpisodeStore(EpisodeStore):
    """The store for the one process that writes it."""

    def __init__(
        self,
        folder: Path,
        header: Header,
        lock: WriterLock,
        *,
        segment_rows: int = SEGMENT_ROWS,
        keep: timedelta = KEEP,
        clock: Callable[[], float] = time.monotonic,
        reached: Hook = lambda step: None,
    ) -> None:
        super().__init__(folder, header)
        self._lock = lock
        self._segment_rows = segment_rows
        self._keep = keep
        self._clock = clock
        self._reached = reached
        self._writing = threading.Lock()
        self._compacting = threading.Lock()
        self._wake = threading.Condition()
        self._upkeep: dict[str, Upkeep] = {}
        self._written_at = clock()
        self._closed = False
        self._keeper = threading.Thread(target=self._tend, name="episodes-upkeep", daemon=True)

    @classmethod
    def open(
        cls,
        folder: Path,
        info: EmbedderInfo | None = None,
        *,
        segment_rows: int = SEGMENT_ROWS,
        keep: timedelta = KEEP,
        clock: Callable[[], float] = time.monotonic,
        reached: Hook = lambda step: None,
    ) -> Self:
        """Open a store for writing and make it where it is missing; ``info`` names its model and dimension.

        Raises:
            EpisodeStoreError: another process writes it, or it was made with another model or dimension.
        """
        if info is None:
            raise EpisodeStoreError("a store is written with one model's vectors", hint="name the model and its dimension")
        folder.mkdir(parents=True, exist_ok=True)
        lock = WriterLock.acquire(folder)
        try:
            if not (folder / HEADER_FILE).exists():
                write_header(folder, Header(model_id=info[0], dimension=info[1]))
            header = read_header(folder)
            check_made_by(folder, header, info)
            store = cls(folder, header, lock, segment_rows=segment_rows, keep=keep, clock=clock, reached=reached)
            store._take_up(lock.killed_before)
            store._keeper.start()
        except BaseException:
            lock.release(in_order=not lock.killed_before)
            raise
        return store

    def close(self) -> None:
        """Finish a running compaction, do one that is nearly due, and let others write."""
        with self._wake:
            if self._closed:
                return
            self._closed = True
            self._wake.notify_all()
        self._keeper.join()
        try:
            for segment in self._segments():
                if self._upkeep[segment.name].fragments >= FEW // 2:
                    self._compact(segment)
        finally:
            self._lock.release()
            super().close()

    def compact(self) -> None:
        """Compact every segment now."""
        for segment in self._segments():
            self._compact(segment)

    def bind(self, log_id: str) -> None:
        """Tie the store to the log that fills it.

        Raises:
            EpisodeStoreError: another log fills it.
        """
        if self._header.log_id is None:
            self._replace_header(self._header.model_copy(update={"log_id": log_id}))
        if self._header.log_id != log_id:
            raise EpisodeStoreError(
                f"the episodes at {self._folder} were filled from another log", hint=f"use that log, or {REBUILD}"
            )

    def next_offsets(self) -> dict[int, int]:
        """By partition, the offset after the last record that left a trace here; from there on nothing is certain to be kept."""
        ends: dict[int, int] = {}
        for segment in self._segments():
            for partition, end in segment.ends().items():
                ends[partition] = max(end, ends.get(partition, 0))
        return ends

    def fault(self, episode: Episode) -> str | None:
        """Why :meth:`record` would refuse an episode, or None."""
        return fault(episode, self.model_id, self.dimension)

    def record(self, batch: Sequence[tuple[Place, Episode]]) -> list[Effect]:
        """Keep a batch of records, in the log's order; what became of each.

        Raises:
            ValueError: a vector is of another model or dimension, not of norm 1, or not finite; nothing is written then.
        """
        for _, episode in batch:
            problem = self.fault(episode)
            if problem:
                raise ValueError(f"episode {episode.id}: {problem}")
        with self._writing:
            effects, new, changed = self._judge(batch)
            self._reached("judged")
            self._add(new)
            self._replace(changed)
            self._begin_next()
        with self._wake:
            self._written_at = self._clock()
            self._wake.notify_all()
        return effects

    # --- the steps

    def _judge(self, batch: Sequence[tuple[Place, Episode]]) -> tuple[list[Effect], list[Row], dict[str, list[Row]]]:
        """The effects; rows to add; rows to replace, by segment."""
        known: dict[str, Kept] = {}
        home: dict[str, str] = {}
        ids = sorted({episode.id for _, episode in batch})
        for segment in self._segments() if ids else ():
            for one, kept in segment.kept(ids).items():
                known[one], home[one] = kept, segment.name
        effects: list[Effect] = []
        rows: dict[str, Row] = {}
        for place, episode in batch:
            gone = episode.forgotten is not None
            effect = judge(known.get(episode.id), place, episode.event, forgotten=gone)
            if effect in (Effect.INSERTED, Effect.UPDATED):
                known[episode.id] = after(known.get(episode.id), place, episode.event, forgotten=gone)
                rows[episode.id] = Row(episode, known[episode.id])
            effects.append(effect)
        new = [row for one, row in rows.items() if one not in home]
        changed: dict[str, list[Row]] = {}
        for one, row in rows.items():
            if one in home:
                changed.setdefault(home[one], []).append(row)
        return effects, new, changed

    def _add(self, rows: list[Row]) -> None:
        if rows:
            last = self._last()
            last.add(to_table(rows, self.dimension))
            last.make_text_index()
            self._count(last, len(rows))
            self._reached("added")

    def _replace(self, changed: dict[str, list[Row]]) -> None:
        if not changed:
            return
        gone = {name for name, rows in changed.items() if any(row.episode.forgotten is not None for row in rows)}
        if gone:
            self._replace_header(self._header.model_copy(update={"purge": tuple(sorted({*self._header.purge, *gone}))}))
        with self._compacting:
            for name, rows in changed.items():
                segment = self._segment(name)
                segment.replace(to_table(rows, self.dimension))
                self._count(segment, len(rows))
        self._reached("replaced")
        self._purge()

    # --- forgetting

    def _purge(self) -> None:
        """Write tables anew in which something was forgotten, and remove the old ones with all their versions.

        LanceDB keeps what a row said before in older versions, and in its files until a tenth of them is deleted. The header names
        the tables first, so that a writer that was killed in between does it when it comes back.
        """
        for name in self._header.purge:
            if name in self._header.segments:
                with self._compacting:
                    self._write_anew(name)
                self._reached("purged")

    def _write_anew(self, name: str) -> None:
        base, _, times = name.partition(".")
        fresh = f"{base}.{int(times or 0) + 1}"
        old, closed = self._segment(name), name != self._header.segments[-1]
        table = self._connection.create_table(fresh, schema=schema(self.dimension), mode="overwrite", storage_options=NEW_TABLE)
        for batch in old.whole():
            table.add(batch)
        segment = Segment(fresh, table, self._folder)
        segment.make_text_index()
        segment.optimize(self._keep)
        if closed:
            segment.make_id_index()
        named = tuple(fresh if one == name else one for one in self._header.segments)
        left = tuple(one for one in self._header.purge if one != name)
        with self._wake:
            self._upkeep[fresh] = Upkeep(closed=closed)
            del self._upkeep[name]
        self._replace_header(self._header.model_copy(update={"segments": named, "purge": left}))
        self._opened.pop(name, None)
        self._connection.drop_table(name)

    def _drop_strays(self) -> None:
        """Remove tables that are in no header: left by a writer that was killed."""
        for folder in self._folder.glob("*.lance"):
            if folder.stem not in self._header.segments:
                self._connection.drop_table(folder.stem)

    def _begin_next(self) -> None:
        last = self._last()
        if last.count() >= self._segment_rows:
            self._begin_segment()
            self._upkeep[last.name].close()
            self._reached("begun")

    # --- segments

    def _take_up(self, killed_before: bool) -> None:
        """Make the first segment, or put in order what the last writer left."""
        if not self._header.segments:
            self._begin_segment()
        for segment in self._segments():
            closed = segment.name != self._header.segments[-1]
            self._upkeep[segment.name] = Upkeep(max(0, segment.fragments() - 1), closed=closed, sweep_at=self._clock())
        for segment in self._segments() if killed_before else ():
            segment.optimize(self._keep, remove_strays=True)
        self._last().make_text_index()
        self._drop_strays()
        self._purge()

    def _begin_segment(self) -> None:
        name = self._header.next_segment
        self._connection.create_table(name, schema=schema(self.dimension), exist_ok=True, storage_options=NEW_TABLE)
        self._upkeep[name] = Upkeep()
        self._replace_header(self._header.model_copy(update={"segments": (*self._header.segments, name)}))

    def _replace_header(self, header: Header) -> None:
        write_header(self._folder, header)
        self._header, self._stamp = header, header_stamp(self._folder)

    def _last(self) -> Segment:
        return self._segment(self._header.segments[-1])

    # --- upkeep

    def _count(self, segment: Segment, rows: int) -> None:
        with self._wake:
            self._upkeep[segment.name].added(rows)

    def _tend(self) -> None:
        """The upkeep thread: compact what is due, sleep until something may be."""
        while (name := self._next_due()) is not None:
            segment = self._opened.get(name)
            if segment is not None:
                self._compact(segment)

    def _next_due(self) -> str | None:
        """Wait for a segment that is due; None when the store closes."""
        with self._wake:
            while not self._closed:
                now = self._clock()
                idle = now - self._written_at >= IDLE_S
                for name, upkeep in self._upkeep.items():
                    if upkeep.due(now, idle=idle):
                        return name
                self._wake.wait(timeout=IDLE_S if any(one.waiting for one in self._upkeep.values()) else None)
        return None

    def _compact(self, segment: Segment) -> None:
        with self._compacting:
            upkeep = self._upkeep.get(segment.name)
            if upkeep is None:  # it was written anew meanwhile
                return
            with self._wake:
                fragments, rows, started = upkeep.fragments, upkeep.rows, self._clock()
            self._reached("optimizing")
            try:
                segment.optimize(self._keep)
                if upkeep.closed:
                    segment.optimize(self._keep)  # fragments merge only once the text index covers them all
                    segment.make_id_index()
            except Exception as error:  # LanceDB raises whatever its parts raise; the rows are safe either way
                LOGGER.warning("the episodes' segment %s could not be compacted; it is tried again later: %s", segment.name, error)
                with self._wake:
                    upkeep.failed(self._clock())
                return
            with self._wake:
                upkeep.done(fragments, rows, started, self._clock(), self._keep.total_seconds())
        self._reached("optimized")
        release()
