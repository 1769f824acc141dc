"""What watching costs: the same events with metrics off, on, and scraped; one in a hundred or every record traced.
``python -m bench.metrics``.

Rounds take turns, each in a process of its own: off, on (the meter notes every batch, nobody scrapes), scraped (a client asks for
``/metrics`` every ``--scrape`` seconds, 15 in life), traced1 and traced100 (metrics off; spans of 1 % or of all records to a
collector in another process). Medians of events/s and of CPU time over rounds, and of the ratios to off by
round; besides, what one scrape and one batch's note cost. CPU time is the steadier figure on a machine that others use.
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
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SEED = 3
MODES = ("off", "on", "scraped", "traced1", "traced100")
TRACED = {"traced1": 0.01, "traced100": 1.0}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, or one round in this process (``--one``)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scrape", type=float, default=1.0)
    parser.add_argument("--one", choices=MODES)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(_one(given.one, given.events, given.scrape)))
        return
    runs: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for _ in range(given.rounds):
        for mode in MODES:
            runs[mode].append(_spawn(mode, given.events, given.scrape))
    _report(runs, given.events, given.rounds, given.scrape)


def _report(runs: dict[str, list[dict[str, float]]], events: int, rounds: int, scrape: float) -> None:
    print(f"{events} simulated events, {rounds} rounds, medians; scraped every {scrape:g} s")
    for mode in MODES:
        rate = statistics.median(run["rate"] for run in runs[mode])
        cpu = statistics.median(run["cpu_s"] for run in runs[mode])
        pairs = zip(runs[mode], runs["off"], strict=True)
        ratios = [(run["rate"] / off["rate"], run["cpu_s"] / off["cpu_s"]) for run, off in pairs]
        by_rate, by_cpu = (statistics.median(ratio[which] for ratio in ratios) for which in (0, 1))
        print(f"{mode:<10} {rate:8.1f} events/s  {by_rate:5.3f} × off   CPU {cpu:6.2f} s  {by_cpu:5.3f} × off")
    scrape_ms = statistics.median(run["scrape_ms"] for run in runs["scraped"])
    note_us = statistics.median(run["note_us"] for run in runs["on"])
    print(f"one scrape {scrape_ms:.1f} ms; noting a batch of 256 {note_us:.0f} µs ({note_us / 256:.2f} µs a record and stage)")


def _spawn(mode: str, events: int, scrape: float) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.metrics", "--one", mode, "--events", str(events), "--scrape", str(scrape)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _one(mode: str, events: int, scrape: float) -> dict[str, float]:
    from deploy.prometheus.server import free_port
    from gateway.composition import open_log
    from gateway.ingest import publish_items
    from gateway.metrics.wiring import open_observed
    from schemas.settings import Settings
    from streams.sources.market import simulate

    with tempfile.TemporaryDirectory() as folder, _collector(mode in TRACED) as endpoint:
        port = free_port() if mode in ("on", "scraped") else 0
        ratio = TRACED.get(mode, 0.0)
        settings = Settings(data_dir=Path(folder), metrics_port=port, trace_endpoint=endpoint, trace_ratio=ratio)
        with open_log(settings, create=True) as log:
            publish_items(log, simulate(SEED, events), "bench")
        scrapes: list[float] = []
        stop = threading.Event()
        with open_observed(settings) as pipeline:
            client = threading.Thread(target=_scrape, args=(settings.metrics_port, scrape, stop, scrapes))
            if mode == "scraped":
                client.start()
            began, used = time.perf_counter(), _cpu_s()
            pipeline.driver.run_until_idle()
            seconds, cpu_s = time.perf_counter() - began, _cpu_s() - used
            stop.set()
            if mode == "scraped":
                client.join()
    middle = statistics.median(scrapes) * 1000 if scrapes else 0.0
    note = _note_us() if mode == "on" else 0.0
    return {"rate": events / seconds, "cpu_s": cpu_s, "scrape_ms": middle, "note_us": note}


@contextmanager
def _collector(wanted: bool) -> Iterator[str]:
    """Where spans are sent, in a process of its own that throws them away; nowhere where none is wanted."""
    if not wanted:
        yield ""
        return
    with subprocess.Popen([sys.executable, "-c", _SINK], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1/traces"
        finally:
            process.kill()


_SINK = """
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def _scrape(port: int, every_s: float, stop: threading.Event, took: list[float]) -> None:
    while not stop.wait(every_s):
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            answer.read()
        took.append(time.perf_counter() - began)


def _note_us() -> float:
    """What noting one batch of 256 costs, in µs."""
    from gateway.metrics.meter import Meter
    from schemas.topics import TOOLS_EXECUTED
    from streams.embedded.tallies import StageTally
    from streams.embedded.worker import Progress
    from streams.sources.market import simulate
    from workers.stage import Delivery, Position

    now_ms = time.time_ns() // 1_000_000
    batch = [Delivery(Position(TOOLS_EXECUTED.name, 0, n), b"key", event, now_ms) for n, event in enumerate(simulate(SEED, 256))]
    meter = Meter()
    progress = Progress("embed", StageTally(received=256, processed=256), deliveries=batch, handle_s=0.1, commit_s=0.01)
    took = []
    for _ in range(200):
        began = time.perf_counter()
        meter.take(progress)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
