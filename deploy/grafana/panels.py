"""Panels as plain data: the classic dashboard JSON of Grafana (schema 39), which every version since 10 reads.

In expressions ``{@}`` stands for the matchers on job and instance that every target has, ``{@,stage="embed"}`` for these and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
MATCHERS = 'job=~"$job",instance=~"$instance"'
WIDTH = 24

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: ``queries`` are pairs of an expression and a legend. ``thresholds`` colour a stat: values from which it turns
    orange, then red. ``low`` reverses them. ``columns`` of 24 is its width."""

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    columns: int = 8
    rows: int = 7
    thresholds: Sequence[float] = ()
    low: bool = False
    stacked: bool = False
    mappings: Sequence[tuple[str, str, str]] = field(default=())
    minimum: float | None = 0
    decimals: int | None = None


def expanded(expression: str) -> str:
    """An expression with the matchers filled in."""
    return expression.replace("{@", "{" + MATCHERS)


def targets(panel: Panel) -> list[Json]:
    """A panel's queries."""
    return [
        {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": expanded(expression),
            "instant": False,
            "legendFormat": legend,
            "range": True,
            "refId": chr(ord("A") + number),
        }
        for number, (expression, legend) in enumerate(panel.queries)
    ]


def render(panel: Panel, identity: int, x: int, y: int) -> Json:
    """A panel as Grafana reads it."""
    return {
        "datasource": DATASOURCE,
        "description": panel.description,
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "gridPos": {"h": panel.rows, "w": panel.columns, "x": x, "y": y},
        "id": identity,
        "options": _options(panel.kind),
        "targets": targets(panel),
        "title": panel.title,
        "type": panel.kind,
    }


def row(title: str, identity: int, y: int) -> Json:
    """A row's heading."""
    return {
        "collapsed": False,
        "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
        "id": identity,
        "panels": [],
        "title": title,
        "type": "row",
    }


def laid_out(rows: Sequence[tuple[str, Sequence[Panel]]]) -> list[Json]:
    """Rows of panels from left to right, a new line when one is full."""
    made: list[Json] = []
    identity, y = 1, 0
    for title, panels in rows:
        made.append(row(title, identity, y))
        identity, x, y, height = identity + 1, 0, y + 1, 0
        for panel in panels:
            if x + panel.columns > WIDTH:
                x, y, height = 0, y + height, 0
            made.append(render(panel, identity, x, y))
            identity, x, height = identity + 1, x + panel.columns, max(height, panel.rows)
        y += height
    return made


def _defaults(panel: Panel) -> Json:
    defaults: Json = {
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
        "mappings": [
            {"options": {value: {"color": color, "index": number, "text": text}}, "type": "value"}
            for number, (value, text, color) in enumerate(panel.mappings)
        ],
        "thresholds": {"mode": "absolute", "steps": _steps(panel)},
        "unit": panel.unit,
    }
    if panel.minimum is not None:
        defaults["min"] = panel.minimum
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 30 if panel.stacked else 8,
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
        }
    return defaults


def _steps(panel: Panel) -> list[Json]:
    colors = ("red", "orange", "green") if panel.low else ("green", "orange", "red")
    return [{"color": color, "value": value} for color, value in zip(colors, (None, *panel.thresholds), strict=False)]


def _options(kind: str) -> Json:
    if kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "auto",
        }
    return {
        "legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
