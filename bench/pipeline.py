"""End to end on the embedded log, against the bare embedding of the same sentences, in one run.

``python -m bench.pipeline [--events N] [--rounds R]`` prints, as medians over rounds that take turns:

- bare: the model over the same sentences in the best of several batch sizes, same threads, nothing else;
- cache off: events/s of the whole pipeline with every sentence embedded anew, and its ratio to bare;
- cache on: the same with each distinct sentence embedded once;
- resident memory of the process that ran the pipeline, at its end and at its peak;
- latency: from publishing an event to its episode being found by a reader, at half the measured rate, p50 and p95.

Each measurement runs in a process of its own, so that none inherits another's memory or warm caches.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from gateway.process import settle_for_stores

SEED = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, or one measurement in this process (``--one``)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=("bare", "off", "on", "latency"))
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--batch", type=int, default=8)
    given = parser.parse_args(arguments)
    if given.one:
        settle_for_stores()
        print(json.dumps(_one(given.one, given.events, given.rate, given.batch)))
        return
    _all(given.events, given.rounds)


def _all(events: int, rounds: int) -> None:
    best = max((1, 8, 16, 32), key=lambda batch: _spawn("bare", min(events, 400), batch=batch)["rate"])
    runs: dict[str, list[dict[str, float]]] = {"bare": [], "off": [], "on": []}
    for _ in range(rounds):
        for name in runs:
            runs[name].append(_spawn(name, events, batch=best))
    bare = statistics.median(run["rate"] for run in runs["bare"])
    print(f"{events} simulated events, {rounds} rounds, medians; bare embedding in its best batch of {best}")
    print(f"bare        {bare:8.1f} texts/s")
    for name in ("off", "on"):
        rate = statistics.median(run["rate"] for run in runs[name])
        ratios = [run["rate"] / other["rate"] for run, other in zip(runs[name], runs["bare"], strict=True)]
        peak = statistics.median(run["peak_mb"] for run in runs[name])
        resident = statistics.median(run["resident_mb"] for run in runs[name])
        distinct = statistics.median(run["embedded"] for run in runs[name])
        print(
            f"cache {name:<4}  {rate:8.1f} events/s  {statistics.median(ratios):5.2f} × bare   "
            f"embedded {distinct:.0f}   resident {resident:.0f} MB, peak {peak:.0f} MB"
        )
    half = statistics.median(run["rate"] for run in runs["on"]) / 2
    latency = _spawn("latency", min(events, round(half * 20)), rate=half)
    print(f"latency at {half:.0f} events/s: p50 {latency['p50_ms']:.0f} ms, p95 {latency['p95_ms']:.0f} ms, n {latency['n']:.0f}")


def _spawn(name: str, events: int, rate: float = 0.0, batch: int = 8) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.pipeline", "--one", name, "--events", str(events)]
    command += ["--rate", str(rate), "--batch", str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(name: str, events: int, rate: float, batch: int) -> dict[str, float]:
    if name == "bare":
        return _bare(events, batch)
    with tempfile.TemporaryDirectory() as folder:
        return _latency(Path(folder), events, rate) if name == "latency" else _pipeline(Path(folder), events, cache=name == "on")


def _bare(events: int, batch: int) -> dict[str, float]:
    import os

    from stores.embedding import open_model
    from streams.sources.market import simulate
    from workers.reflect import reflect

    sentences = [reflect(event).sentence for event in simulate(SEED, events)]
    model = open_model(None, threads=os.cpu_count() or 1, batch=batch)
    model.embed(sentences[:8])
    started = time.perf_counter()
    model.embed(sentences)
    return {"rate": events / (time.perf_counter() - started)}


def _pipeline(folder: Path, events: int, *, cache: bool) -> dict[str, float]:
    from gateway.composition import open_pipeline
    from gateway.ingest import publish_items
    from schemas.settings import Settings
    from streams.sources.market import simulate

    settings = Settings(data_dir=folder, embedding_cache=cache)
    with open_pipeline(settings) as pipeline:
        pipeline.embedder.embed(["warm up"])
        publish_items(pipeline.log, simulate(SEED, events), "market")
        started = time.perf_counter()
        pipeline.driver.run_until_idle()
        seconds = time.perf_counter() - started
        return {
            "rate": events / seconds,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "resident_mb": _resident_mb(),
            "embedded": float(getattr(pipeline.embedder, "misses", events)),
        }


def _latency(folder: Path, events: int, rate: float) -> dict[str, float]:
    """One thread publishes at the rate, the pipeline runs, a reader looks for the oldest sampled episode that it has not seen."""
    from gateway.composition import open_episodes, open_pipeline
    from schemas.episodes import episode_id
    from schemas.settings import Settings
    from streams.publisher import Publisher
    from streams.sources.market import simulate

    settings = Settings(data_dir=folder)
    market = list(simulate(SEED, events + 50))
    stop = threading.Event()
    sampled: list[tuple[str, float]] = []
    waits: list[float] = []
    with open_pipeline(settings) as pipeline:
        runner = threading.Thread(target=pipeline.driver.run, args=(stop,))
        runner.start()
        publisher = Publisher(pipeline.log)
        publisher.publish_many(market[:50])
        while pipeline.sinks.episodes.count() < 50:
            time.sleep(0.01)

        def publish() -> None:
            started = time.perf_counter()
            for number, event in enumerate(market[50:]):
                time.sleep(max(0.0, started + number / rate - time.perf_counter()))
                published = time.perf_counter()
                publisher.publish(event)
                if number % 10 == 0:
                    sampled.append((episode_id(event), published))

        producer = threading.Thread(target=publish)
        producer.start()
        with open_episodes(settings) as reader:
            while producer.is_alive() or len(waits) < len(sampled):
                if len(waits) < len(sampled) and reader.get(sampled[len(waits)][0]) is not None:
                    waits.append((time.perf_counter() - sampled[len(waits)][1]) * 1000)
                else:
                    time.sleep(0.002)
        stop.set()
        runner.join()
    ordered = sorted(waits)
    return {"p50_ms": ordered[len(ordered) // 2], "p95_ms": ordered[int(len(ordered) * 0.95)], "n": float(len(ordered))}


def _resident_mb() -> float:
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
