"""The dashboards: what is committed is what is generated, it keeps the rules of Grafana's own linter, every metric that a panel
uses exists, and every metric that exists is on a panel or listed as not.

The linter itself (github.com/grafana/dashboard-linter) is a Go program; its rules for Prometheus dashboards are restated here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.grafana import generate
from deploy.grafana.rows import NOT_SHOWN
from gateway.metrics import catalogue
from tests.support.docs import alerts

promql = pytest.importorskip("promql_parser", reason="promql-parser is not installed: expressions cannot be parsed")

DASHBOARDS = {name: json.loads((generate.FOLDER / name).read_text()) for name in generate.files()}
PANELS = [(name, panel) for name, board in DASHBOARDS.items() for panel in board["panels"] if panel["type"] != "row"]
LABELS = {series: set(metric.labels) for metric in catalogue.METRICS for series in metric.series} | {
    "up": set(),
    "python_info": {"implementation", "version"},
    "python_gc_collections_total": {"generation"},
    **{name: set() for name in catalogue.RUNTIME if name.startswith("process_")},
}
ALWAYS = {"job", "instance"}
COUNTERS = {metric.name for metric in catalogue.METRICS if metric.kind == "counter"} | {
    f"{metric.name}_{part}" for metric in catalogue.METRICS if metric.kind == "histogram" for part in ("bucket", "sum", "count")
}


def parsed(expression: str) -> Any:
    return promql.parse(expression.replace("$__rate_interval", "5m"))


def walk(node: Any) -> Iterator[Any]:
    yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "args"):
        child = getattr(node, name, None)
        for one in child if isinstance(child, list) else [child]:
            if one is not None:
                yield from walk(one)


def selectors(expression: str) -> list[Any]:
    return [node for node in walk(parsed(expression)) if isinstance(node, promql.VectorSelector)]


def matchers(selector: Any) -> dict[str, str]:
    return {one.name: one.value for one in selector.matchers.matchers}


def queries() -> list[tuple[str, str]]:
    """Every expression with where it stands: panels and annotations."""
    found = [(panel["title"], target["expr"]) for _, panel in PANELS for target in panel["targets"]]
    for board in DASHBOARDS.values():
        found += [(one["name"], one["expr"]) for one in board["annotations"]["list"]]
    return found


def test_what_is_committed_is_what_is_generated(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0
    assert {path.name for path in generate.FOLDER.iterdir()} == set(generate.files())


def test_check_sees_a_stale_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(generate, "ROWS", ())
    assert generate.main(["--check"]) == 1
    assert "python -m deploy.grafana.generate" in capsys.readouterr().err


def test_there_are_the_six_rows() -> None:
    (board,) = DASHBOARDS.values()
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Golden signals", "Consumers", "Stores", "Learning", "Market signals", "Runtime"]


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    for board in DASHBOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, panel["title"]
            assert at["x"] + at["w"] <= 24
            taken |= cells
        identities = [panel["id"] for panel in board["panels"]]
        assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_linter_dashboard(name: str) -> None:
    """uneditable-dashboard, template-datasource-rule, template-job-rule, template-instance-rule, template-on-time-change."""
    board = DASHBOARDS[name]
    assert board["editable"] is False
    assert board["schemaVersion"] == 39
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    source = variables["datasource"]
    assert (source["type"], source["query"], source["label"]) == ("datasource", "prometheus", "Data source")
    for label in ("job", "instance"):
        variable = variables[label]
        assert variable["type"] == "query"
        assert variable["datasource"]["uid"] == "${datasource}"
        assert variable["label"] == label.capitalize()
        assert variable["multi"] is True
        assert variable["allValue"] == ".+"
        assert variable["refresh"] == 2
        inner = re.fullmatch(r"label_values\((.+), (job|instance)\)", variable["definition"])
        assert inner
        assert inner[2] == label
        assert {one.name for one in selectors(inner[1])} <= set(LABELS)


@pytest.mark.parametrize("panel", [panel for _, panel in PANELS], ids=lambda panel: panel["title"])
def test_linter_panel(panel: dict[str, Any]) -> None:
    """panel-title-description, panel-units, panel-no-targets, panel-datasource, target-promql, target-rate-interval, target-job,
    target-instance, target-counter-agg."""
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert panel["targets"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for target in panel["targets"]:
        assert target["legendFormat"]
        for selector in selectors(target["expr"]):
            found = matchers(selector)
            assert (found["job"], found["instance"]) == ("$job", "$instance"), target["expr"]
        for window in re.findall(r"\b(?:rate|irate)\([^[]*\[([^]]+)\]", target["expr"]):
            assert window == "$__rate_interval"


@pytest.mark.parametrize(("title", "expression"), [*queries(), *((name, one["expr"]) for name, one in alerts().items())])
def test_every_metric_and_label_exists(title: str, expression: str) -> None:
    tree = parsed(expression)
    known = {label for selector in selectors(expression) for label in LABELS[selector.name]}
    for selector in selectors(expression):
        assert selector.name in LABELS, f"{title} asks for {selector.name}, which nobody exports"
        assert set(matchers(selector)) <= LABELS[selector.name] | ALWAYS, title
    made = set(re.findall(r'label_replace\(.+?, "(\w+)"', expression, re.DOTALL))
    for node in walk(tree):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            assert set(node.modifier.labels) <= known | ALWAYS | {"le"} | made, title


@pytest.mark.parametrize(("title", "expression"), queries())
def test_counters_are_never_shown_raw(title: str, expression: str) -> None:
    """A counter's value says when the process started; its rate says something. The join on who is a stage reads no value."""
    inside: set[str] = set()
    for node in walk(parsed(expression)):
        if isinstance(node, promql.MatrixSelector):
            inside.add(node.vector_selector.name)
    raw = [one.name for one in selectors(expression) if one.name in COUNTERS and one.name not in inside]
    assert raw == [] or (raw == ["defi_brain_stage_received_records_total"] and "and on (instance, stage)" in expression)


def test_every_metric_is_shown_or_listed_as_not() -> None:
    shown = {selector.name for _, expression in queries() for selector in selectors(expression)}
    exported = {metric.name: set(metric.series) for metric in catalogue.METRICS} | {name: {name} for name in catalogue.RUNTIME}
    absent = {name for name, series in exported.items() if not series & shown}
    assert absent == set(NOT_SHOWN)


def test_legends_use_labels_that_are_left() -> None:
    for _, panel in PANELS:
        for target in panel["targets"]:
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                by = [node for node in walk(parsed(target["expr"])) if isinstance(node, promql.AggregateExpr)]
                assert any(node.modifier and label in node.modifier.labels for node in by), (panel["title"], label)


def test_provisioning_names_what_the_dashboard_uses() -> None:
    folder = generate.FOLDER.parent / "provisioning"
    source = (folder / "datasources" / "prometheus.yml").read_text()
    (board,) = DASHBOARDS.values()
    chosen = board["templating"]["list"][0]["current"]["value"]
    assert f"uid: {chosen}\n" in source
    assert "editable: false" in source
    assert "allowUiUpdates: false" in (folder / "dashboards" / "defi-brain.yml").read_text()
