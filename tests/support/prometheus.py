"""A real Prometheus for tests, with the real alert rules in a hurry: the same conditions over seconds instead of minutes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.prometheus.server import RULES, Prometheus, configuration
from gateway.metrics.observe import Observation
from gateway.metrics.server import MetricsServer
from tests.support.waiting import until

WINDOW = "15s"
INTERVAL = "500ms"
_PLACE = "placeholder"


def hurried(but: frozenset[str] = frozenset()) -> str:
    """The committed rules with seconds for minutes in ``for`` and in windows, and nothing else changed."""
    head, *blocks = RULES.read_text().split("- alert: ")
    made = []
    for block in blocks:
        if block.split("\n", 1)[0] not in but:
            block = re.sub(r"for: \d+[mh]", "for: 1s", block)
            block = re.sub(r"\[\d+[mh]\]", f"[{WINDOW}]", block)
        made.append(block)
    return "- alert: ".join((head, *made))


class Watcher:
    """A Prometheus to which targets are added while it runs."""

    def __init__(self, folder: Path, *, but: frozenset[str] = frozenset()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rules = folder / "hurried.yml"
        rules.write_text(hurried(but))
        self._targets = folder / "targets.json"
        self._known: list[str] = []
        self._tell()
        text = configuration([_PLACE], rules, INTERVAL)
        static = f'static_configs:\n      - targets: ["{_PLACE}"]'
        assert static in text
        text = text.replace(static, f'file_sd_configs:\n      - files: ["{self._targets}"]')
        self.prometheus = Prometheus(folder, text)

    def add(self, address: str) -> None:
        """Scrape this address from now on, and wait until it is known."""
        self._known.append(address)
        self._tell()
        until(lambda: bool(self.prometheus.query(f'up{{instance="{address}"}}')), f"{address} is scraped")

    def drop(self, address: str) -> None:
        """Scrape it no more."""
        self._known.remove(address)
        self._tell()

    def _tell(self) -> None:
        draft = self._targets.with_suffix(".new")
        draft.write_text(json.dumps([{"targets": self._known}]))
        draft.replace(self._targets)

    @contextmanager
    def watching(self, observation: Observation) -> Iterator[str]:
        """Serve and scrape an observation within the block; its instance label."""
        with MetricsServer(observation.registry, observation.health, 0) as server:
            address = server.url.removeprefix("http://")
            self.add(address)
            try:
                yield address
            finally:
                self.drop(address)

    def firing(self, alert: str, address: str) -> bool:
        """Whether an alert fires for a target."""
        return (alert, address) in self.prometheus.alerts()

    def fires(self, alert: str, address: str) -> None:
        """Wait until it does."""
        until(lambda: self.firing(alert, address), f"{alert} fires")

    def quiet(self, alert: str, address: str) -> None:
        """Wait until it does not."""
        until(lambda: not self.firing(alert, address), f"{alert} is quiet")

    def value(self, expression: str) -> float | None:
        """The value of an expression with one sample at most."""
        found = self.prometheus.query(expression)
        return float(found[0]["value"][1]) if found else None
