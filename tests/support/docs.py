"""Tables in the docs that must say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from deploy.prometheus.server import RULES
from gateway.metrics.catalogue import METRICS

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
PAGE = ROOT / "docs" / "observability.md"


def alerts() -> dict[str, dict[str, str]]:
    """Every alert's fields, by name: ``severity``, ``summary``, ``expr`` and ``runbook``."""
    found: dict[str, dict[str, str]] = {}
    for block in RULES.read_text().split("- alert: ")[1:]:
        name = block.split("\n", 1)[0].strip()
        fields = dict(re.findall(r"^ +(severity|summary|runbook): \"?(.+?)\"?$", block, re.MULTILINE))
        expression = re.search(r"^        expr: (?:\|\n((?:          .*\n)+)|(.+)\n)", block, re.MULTILINE)
        assert expression, name
        found[name] = {**fields, "expr": (expression[1] or expression[2]).strip()}
    return found


def metric_rows() -> list[str]:
    """The table of metrics."""
    return [f"| `{one.name}` | {one.kind} | {', '.join(one.labels) or '–'} | {one.help} |" for one in METRICS]
