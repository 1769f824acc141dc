"""What embedding costs: texts/s by batch and threads, memory of the model, and what the cache gives.

``python -m bench.embedding [--texts N] [--rounds R]`` prints medians over rounds that take turns. Each configuration runs in a
process of its own, so that none inherits another's memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

BATCHES = (1, 4, 8, 16, 32)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every configuration, or one in this process (``--one BATCH THREADS``)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", type=int, nargs=2, metavar=("BATCH", "THREADS"))
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(_one(given.texts, *given.one)))
        return
    configurations = [(batch, threads) for threads in sorted({1, os.cpu_count() or 1}) for batch in BATCHES]
    runs: dict[tuple[int, int], list[dict[str, float]]] = {one: [] for one in configurations}
    for _ in range(given.rounds):
        for one in configurations:
            runs[one].append(_spawn(given.texts, *one))
    print(f"{given.texts} simulated sentences of {runs[configurations[0]][0]['words']:.0f} words, medians of {given.rounds} rounds")
    print("batch  threads   texts/s   texts/CPU-s   one text ms   cached texts/s   loading adds MB   embedding adds MB")
    for (batch, threads), found in runs.items():
        names = ("rate", "cpu_rate", "one_ms", "cached_rate", "loaded_mb", "embedded_mb")
        median = {name: statistics.median(run[name] for run in found) for name in names}
        print(
            f"{batch:5}  {threads:7}   {median['rate']:7.1f}   {median['cpu_rate']:11.1f}   {median['one_ms']:11.1f}"
            f"   {median['cached_rate']:14.0f}   {median['loaded_mb']:15.0f}   {median['embedded_mb']:17.0f}"
        )


def _spawn(texts: int, batch: int, threads: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.embedding", "--texts", str(texts), "--one", str(batch), str(threads)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def _one(count: int, batch: int, threads: int) -> dict[str, float]:
    from stores.embedding import CachedEmbedder, open_model
    from stores.heap import one_arena
    from streams.sources.market import simulate
    from workers.reflect import reflect

    one_arena()
    sentences: dict[str, None] = {}
    for event in simulate(3, 20 * count):
        sentences[reflect(event).sentence] = None
    texts = list(sentences)[:count]
    model = open_model(threads=threads, batch=batch)
    before = _resident_mb()
    model.embed(texts[:1])
    loaded = _resident_mb()
    started, busy = time.perf_counter(), time.process_time()
    model.embed(texts)
    wall, cpu = time.perf_counter() - started, time.process_time() - busy
    embedded = _resident_mb()
    ones = [_seconds(lambda text=text: model.embed([text])) for text in texts[:20]]
    with tempfile.TemporaryDirectory() as folder:
        CachedEmbedder(model, Path(folder) / "vectors.db").embed(texts)
        again = CachedEmbedder(model, Path(folder) / "vectors.db")
        cached = _seconds(lambda: again.embed(texts))
    return {
        "words": statistics.fmean(len(text.split()) for text in texts),
        "rate": len(texts) / wall,
        "cpu_rate": len(texts) / cpu,
        "one_ms": statistics.median(ones) * 1000,
        "cached_rate": len(texts) / cached,
        "loaded_mb": loaded - before,
        "embedded_mb": embedded - loaded,
    }


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _resident_mb() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss) / (1 << 20)


if __name__ == "__main__":
    main()
