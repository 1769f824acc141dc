"""``python -m deploy.grafana.generate`` writes ``dashboards/*.json``; with ``--check`` it only compares."""

# ruff: noqa: T201 - a command that says what it did
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.grafana.panels import DATASOURCE, Json, expanded, laid_out
from deploy.grafana.rows import ROWS

FOLDER = Path(__file__).parent / "dashboards"
_ANY = "defi_brain_stage_received_records_total"


def dashboard() -> Json:
    """The dashboard."""
    return {
        "annotations": {"list": [_alarms(), _regimes(), _takeovers()]},
        "description": "A DeFi Brain: whether it keeps up, whether it is learning, what changed in the market.",
        "editable": False,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "links": [],
        "panels": laid_out(ROWS),
        "refresh": "30s",
        "schemaVersion": 39,
        "tags": ["defi-brain"],
        "templating": {"list": [_source(), _variable("job", _ANY), _variable("instance", f'{_ANY}{{job=~"$job"}}')]},
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "timezone": "utc",
        "title": "DeFi Brain",
        "uid": "defi-brain",
        "version": 1,
        "weekStart": "",
    }


def _alarms() -> Json:
    expression = "sum by (level, metric) (changes(defi_brain_drift_alarms_total{@}[$__rate_interval])) > 0"
    return _annotation("Drift alarms", expression, "orange", "drift: {{metric}}", "level,metric")


def _regimes() -> Json:
    expression = "sum by (regime) (changes(defi_brain_regime_changes_total{@}[$__rate_interval])) > 0"
    return _annotation("Changes of regime", expression, "purple", "into {{regime}}", "regime")


def _takeovers() -> Json:
    expression = "max by (instance) (changes(defi_brain_writer_epoch{@}[$__rate_interval])) > 0"
    return _annotation("Writer takeovers", expression, "blue", "a writer took over at {{instance}}", "instance")


def _annotation(name: str, expression: str, color: str, title: str, tags: str) -> Json:
    return {
        "datasource": DATASOURCE,
        "enable": True,
        "expr": expanded(expression),
        "hide": False,
        "iconColor": color,
        "name": name,
        "step": "60s",
        "tagKeys": tags,
        "titleFormat": title,
        "useValueForTime": False,
    }


def _source() -> Json:
    return {
        "current": {"selected": False, "text": "prometheus", "value": "prometheus"},
        "hide": 0,
        "includeAll": False,
        "label": "Data source",
        "multi": False,
        "name": "datasource",
        "options": [],
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
        "type": "datasource",
    }


def _variable(label: str, of: str) -> Json:
    query = f"label_values({of}, {label})"
    return {
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "datasource": DATASOURCE,
        "definition": query,
        "hide": 0,
        "includeAll": True,
        "label": label.capitalize(),
        "multi": True,
        "name": label,
        "options": [],
        "query": {"qryType": 1, "query": query, "refId": f"PrometheusVariableQueryEditor-{label}"},
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
        "type": "query",
    }


def files() -> dict[str, str]:
    """Every dashboard's file name and text."""
    return {"defi-brain.json": json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"}


def main(arguments: Sequence[str] | None = None) -> int:
    """0 done or equal, 1 different."""
    parser = argparse.ArgumentParser(prog="python -m deploy.grafana.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not what would be written")
    check = parser.parse_args(arguments).check
    stale = [name for name, text in files().items() if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != text]
    if check:
        for name in stale:
            print(f"{FOLDER / name} is not what is generated (hint: python -m deploy.grafana.generate)", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (FOLDER / name).write_text(files()[name])
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
