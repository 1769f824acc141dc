"""What the episode store costs: writing with compaction, searching, disk, memory.

``python -m bench.episodes [--episodes N] [--batch B]`` fills a store with simulated episodes and prints processor and wall time an
episode, then medians of each kind of read, before and after compaction. Vectors are drawn, not embedded.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from schemas.topics import EPISODES_RECORDED
from stores.episodes import EpisodeStore, WritableEpisodeStore
from stores.episodes.engine import lean_import
from stores.heap import one_arena
from streams.sources.market import simulate
from streams.stages.embed import ReflectEmbed
from streams.stages.episodes import EpisodeSink
from workers.stage import Delivery, Position

DIMENSION = 384
QUESTION = "failed swap through router alpha with expensive gas"


class Drawn:
    """A vector for each text, drawn at random from its content."""

    model_id = f"drawn/{DIMENSION}"
    dimension = DIMENSION

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of norm 1."""
        rows = [np.random.default_rng(crc32(text.encode())).standard_normal(DIMENSION) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32).reshape(len(texts), DIMENSION)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill, read, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=256)
    given = parser.parse_args(arguments)
    one_arena()
    lean_import()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "episodes"
        with WritableEpisodeStore.open(folder, (Drawn.model_id, DIMENSION)) as store:
            _fill(store, given.episodes, given.batch)
            _read(store, "while written")
            started, busy = time.perf_counter(), time.process_time()
            store.compact()
            print(f"compaction    {time.perf_counter() - started:.2f} s, {time.process_time() - busy:.2f} CPU-s")
            _read(store, "compacted")
            print(f"resident      {_resident_mb():.0f} MB")


def _fill(store: WritableEpisodeStore, count: int, size: int) -> None:
    sink = EpisodeSink(store)
    wall: list[float] = []
    cpu = 0.0
    before = _resident_mb()
    for batch in _batches(count, size):
        started, busy = time.perf_counter(), time.process_time()
        sink.handle(batch)
        wall.append(time.perf_counter() - started)
        cpu += time.process_time() - busy
    print(f"{count} episodes in batches of {size}")
    print(f"written       {sum(wall) / count * 1e6:.0f} µs an episode, {cpu / count * 1e6:.0f} µs of processor time")
    print(f"a batch       median {statistics.median(wall) * 1e3:.1f} ms, longest {max(wall) * 1e3:.0f} ms")
    print(f"resident      {before:.0f} MB before, {_resident_mb():.0f} MB after")


def _batches(count: int, size: int) -> Iterator[list[Delivery]]:
    stage, offset = ReflectEmbed(Drawn(), 10**15), 0
    events = iter(simulate(3, count))
    while part := list(islice(events, size)):
        deliveries = [Delivery(Position("market", 0, offset + n), None, event, 0) for n, event in enumerate(part)]
        emissions = stage.handle(deliveries).emissions
        yield [Delivery(Position(EPISODES_RECORDED.name, 0, offset + n), None, one.message, 0) for n, one in enumerate(emissions)]
        offset += len(part)


def _read(store: EpisodeStore, when: str) -> None:
    stats = store.stats()
    vector = Drawn().embed([QUESTION])[0]
    one = store.search_vector(vector, limit=1)[0].id
    reads: dict[str, Callable[[], object]] = {
        "by id": lambda: store.get(one),
        "words": lambda: store.search_text(QUESTION),
        "vector": lambda: store.search_vector(vector),
        "both": lambda: store.search(QUESTION, Drawn()),
        "count": store.count,
    }
    print(
        f"{when}: {stats.rows} rows, {stats.segments} segments, {stats.fragments} fragments, data {stats.data_bytes / 1e6:.0f} MB,"
        f" disk {stats.disk_bytes / 1e6:.0f} MB"
    )
    for name, read in reads.items():
        print(f"  {name:<12}{_median_ms(read):.1f} ms")


def _median_ms(work: Callable[[], object], times: int = 15) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found) * 1000


def _resident_mb() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / (1 << 20)


if __name__ == "__main__":
    main()
