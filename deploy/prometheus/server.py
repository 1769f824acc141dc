"""A Prometheus from the system's package, on loopback, for as long as it is wanted."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent
CONFIG = HERE / "prometheus.yml"
RULES = HERE / "rules" / "defi-brain.yml"
START_S = 30.0
_LOOK_S = 0.05


class PrometheusError(Exception):
    """Prometheus is not installed, did not start, or refused a query."""


def missing() -> str | None:
    """Why Prometheus cannot be run here; None when it can."""
    absent = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed (deploy/prometheus/install)" if absent else None


def configuration(targets: Sequence[str], rules: Path = RULES, interval: str = "15s") -> str:
    """The committed configuration with other targets, rules or intervals."""
    text = CONFIG.read_text()
    for old, new in (
        ('targets: ["127.0.0.1:9464"]\n\n', f"targets: {json.dumps(list(targets))}\n\n"),
        ("rules/*.yml", str(rules.absolute())),
        ("15s", interval),
    ):
        if old not in text:
            raise PrometheusError(f"{CONFIG} has no {old!r} any more")
        text = text.replace(old, new)
    return text


class Prometheus:
    """Runs until it is closed; ``folder`` takes its configuration, data and log. ``port`` 0 takes a free one.

    Raises:
        PrometheusError: it is not installed, or does not come up.
    """

    def __init__(self, folder: Path, config: str, port: int = 0) -> None:
        why = missing()
        if why:
            raise PrometheusError(why)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(config)
        self.url = f"http://127.0.0.1:{port or free_port()}"
        self._log = folder / "prometheus.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    str(shutil.which("prometheus")),
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):  # noqa: S310 - loopback
                    return
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    tail = self._log.read_text(errors="replace").splitlines()[-3:]
                    raise PrometheusError(f"Prometheus did not start: {' / '.join(tail)}") from None
            time.sleep(_LOOK_S)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """An instant query's result: samples with ``metric`` and ``value``.

        Raises:
            PrometheusError: it was refused.
        """
        result: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return result

    def query_range(self, expression: str, seconds: float, step: float = 1.0) -> list[dict[str, Any]]:
        """A query over the last ``seconds``: series with ``metric`` and ``values``, as a panel asks.

        Raises:
            PrometheusError: it was refused.
        """
        now = time.time()
        answer = self._get("query_range", query=expression, start=str(now - seconds), end=str(now), step=str(step))
        result: list[dict[str, Any]] = answer["result"]
        return result

    def alerts(self, state: str = "firing") -> set[tuple[str, str]]:
        """Alerts in a state (``firing`` or ``pending``): name and instance."""
        found = self._get("alerts")["alerts"]
        return {(one["labels"]["alertname"], one["labels"].get("instance", "")) for one in found if one["state"] == state}

    def _get(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{parameters}: {error.read().decode(errors='replace')[:500]}") from None

    def close(self) -> None:
        """Stop it, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
