"""``python -m deploy.prometheus up``: a pipeline and a Prometheus that watches it, until Ctrl-C."""

# ruff: noqa: T201 - a command that prints where to look
from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from pathlib import Path

from deploy.prometheus.server import Prometheus, PrometheusError, configuration
from gateway.settings import load_settings
from schemas.errors import BrainError
from schemas.settings import Settings

METRICS_PORT = 9464


def main() -> int:
    """0 stopped, 1 failed."""
    parser = argparse.ArgumentParser(prog="python -m deploy.prometheus", description="A pipeline and its Prometheus.")
    parser.add_argument("action", choices=("up",))
    parser.add_argument("--data-dir", help="the brain's data folder (default: as defi-brain up)")
    parser.add_argument("--port", type=int, default=9090, help="Prometheus's port (default: 9090)")
    parser.add_argument("--simulate", type=int, default=0, metavar="N", help="publish N events of a SIMULATED market first")
    parser.add_argument("--seed", type=int, default=7, help="the simulated market's seed")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        settings = load_settings(data_dir=options.data_dir)
        if not settings.metrics_port:
            settings = settings.model_copy(update={"metrics_port": METRICS_PORT})
        if options.simulate:
            _simulate(settings, options.simulate, options.seed)
        _run(settings, options.port, stop)
    except (BrainError, PrometheusError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _simulate(settings: Settings, events: int, seed: int) -> None:
    from gateway.composition import open_log
    from gateway.ingest import publish_items
    from streams.sources.market import simulate

    with open_log(settings, create=True) as log:
        publish_items(log, simulate(seed, events), "market")


def _run(settings: Settings, port: int, stop: threading.Event) -> None:
    from gateway.metrics.wiring import open_observed

    target = f"127.0.0.1:{settings.metrics_port}"
    with (
        tempfile.TemporaryDirectory(prefix="defi-brain-prometheus-") as folder,
        open_observed(settings) as pipeline,
        Prometheus(Path(folder), configuration([target], interval="5s"), port) as prometheus,
    ):
        print(f"metrics    http://{target}/metrics\nprometheus {prometheus.url}\nCtrl-C stops both", flush=True)
        pipeline.driver.run(stop)


if __name__ == "__main__":
    sys.exit(main())
