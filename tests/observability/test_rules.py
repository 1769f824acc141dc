"""Alert rules and configuration, by promtool; a runbook for every alert; docs that list what there is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from deploy.prometheus.server import CONFIG, HERE, RULES, PrometheusError, configuration, missing
from tests.support.docs import PAGE, ROOT, RUNBOOKS, alerts, metric_rows
from tests.support.metrics import probe
from tests.support.streams import fill

needs_promtool = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def promtool(*arguments: str, text: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, check=False, timeout=60)


@needs_promtool
def test_the_configuration_is_valid() -> None:
    done = promtool("check", "config", str(CONFIG))
    assert done.returncode == 0, done.stderr.decode()


@needs_promtool
def test_the_rules_are_valid_and_clean() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert f"{len(alerts())} rules found" in done.stdout.decode()


@needs_promtool
def test_the_rules_pass_their_unit_tests() -> None:
    files = sorted(str(path) for path in (HERE / "tests").glob("*.yml"))
    done = promtool("test", "rules", *files)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_every_alert_has_a_unit_test() -> None:
    text = "".join(path.read_text() for path in (HERE / "tests").glob("*.yml"))
    tested = {name for name, rest in re.findall(r"alertname: (\w+)\n\s+eval_time: \S+\n(\s+exp_alerts:)", text) if rest}
    assert tested == set(alerts())


@needs_promtool
def test_the_exposition_is_clean(tmp_path: Path) -> None:
    """promtool's linter: base units, suffixes, help texts."""
    with probe(tmp_path) as one:
        fill(one.log)
        one.driver.run_until_idle()
        text = generate_latest(one.observation.registry)
    done = promtool("check", "metrics", text=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    found = alerts()
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(found)
    for name, alert in found.items():
        assert alert["severity"] in ("warning", "critical")
        assert alert["summary"]
        path = ROOT / alert["runbook"]
        text = path.read_text()
        assert path.stem == name
        assert text.startswith(f"# {name}\n\nSeverity: {alert['severity']}.\n")
        for heading in ("## What it means\n", "## Look\n", "## Do\n"):
            assert heading in text
        for other in set(re.findall(r"DefiBrain[A-Z]\w+", text)):
            assert other in found


def test_the_runbooks_commands_exist() -> None:
    from gateway.cli import main

    commands = {word for path in RUNBOOKS.glob("*.md") for word in re.findall(r"`defi-brain (\w+)", path.read_text())}
    assert commands <= set(main.commands)  # type: ignore[attr-defined]


def test_the_docs_list_every_alert_and_metric() -> None:
    text = PAGE.read_text()
    for row in metric_rows():
        assert row in text, f"docs/observability.md lacks: {row}"
    listed = re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", text, re.MULTILINE)
    assert dict(listed) == {name: alert["severity"] for name, alert in alerts().items()}
    assert len(re.findall(r"^\| `(?:defi_brain|kafka)_", text, re.MULTILINE)) == len(metric_rows())


def test_configuration_for_other_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = configuration(["127.0.0.1:1", "127.0.0.1:2"], interval="1s")
    assert 'targets: ["127.0.0.1:1", "127.0.0.1:2"]' in text
    assert "scrape_interval: 1s" in text
    assert str(RULES) in text
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    monkeypatch.setattr("deploy.prometheus.server.CONFIG", tmp_path / "prometheus.yml")
    with pytest.raises(PrometheusError, match="any more"):
        configuration(["127.0.0.1:1"])
