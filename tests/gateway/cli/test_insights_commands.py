"""``insights list --problematic``, ``history``, ``restore`` and ``tidy`` on a small brain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway import composition
from gateway.cli import main
from schemas.claims import Category
from schemas.settings import Settings
from streams.embedded.log import EmbeddedLog
from streams.publisher import Publisher
from tests.support import slim_cli
from tests.support.sqlite import add, at, evidence, op, use


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    told = [
        add("aaaa1111", text="Words at first.", evidence=evidence(), reason="it was confirmed"),
        op("EDIT", "aaaa1111", "e", text="Words since.", evidence=evidence(0.7)),
        add("bbbb2222", category=Category.GAS_TIMING),
        add("cccc3333", ts=at(24 * 10)),
        use("u1", "bbbb2222", hours=5),
        use("u2", "bbbb2222", hours=6).model_copy(update={"ended": "failure"}),
    ]
    with EmbeddedLog(folder / "log.db") as log:
        Publisher(log).publish_many(told)
    with slim_cli.installed(), composition.open_pipeline(Settings(data_dir=folder)) as pipeline:
        pipeline.driver.run_until_idle()
    return folder


def run(data: Path, *arguments: str, code: int = 0) -> Any:
    with slim_cli.installed():
        result = CliRunner().invoke(main, ["--data-dir", str(data), "insights", *arguments])
    assert result.exit_code == code, result.output + result.stderr
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def test_the_history_tells_operation_words_evidence_and_reason(data: Path) -> None:
    told = run(data, "history", "aaaa")
    for line in (
        "rev 1  2026-01-01T00:00:00Z  ADD by distil: - -> 0.6",
        "    text: Words at first.",
        "    reason: it was confirmed",
        "    evidence: cliffs_delta +0.50 [+0.40, +0.60], n = 100",
        "rev 2  2026-01-01T04:00:00Z  EDIT by distil: 0.6 -> 0.6",
        "    text: Words since.",
    ):
        assert line in told.splitlines()
    plain = run(data, "history", "aaaa", "--json")
    assert [(one["kind"], one["text"], one["evidence"]["effect"]) for one in plain["history"]] == [
        ("ADD", "Words at first.", 0.5),
        ("EDIT", "Words since.", 0.7),
    ]
    run(data, "history", "zzzz", code=1)


def test_problematic_ones(data: Path) -> None:
    (found,) = run(data, "list", "--problematic", "--json")["insights"]
    assert (found["id"], found["helpful"], found["harmful"]) == ("bbbb2222", 1, 1)
    assert "bbbb2222  1        1" in run(data, "list", "--problematic")
    assert "2 decisions" not in run(data, "show", "aaaa")


def test_tidy_archives_once_and_restore_brings_back(data: Path) -> None:
    assert "nothing was written" in run(data, "tidy", "--dry-run")
    (operation,) = run(data, "tidy", "--json")["operations"]
    assert (operation["insight_id"], operation["cause"]) == ("bbbb2222", "expired")
    assert "archived:" in run(data, "show", "bbbb")
    assert "0 past their time, 0 back, 0 merged" in run(data, "tidy")
    assert "restored: bbbb2222" in run(data, "restore", "bbbb")
    assert [one["kind"] for one in run(data, "history", "bbbb", "--json")["history"]] == ["ADD", "ARCHIVE", "RESTORE"]
    run(data, "restore", "bbbb", code=1)
