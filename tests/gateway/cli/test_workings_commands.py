"""``recall-tune``, ``dedup``, ``rl``, ``links``, ``briefing``: each change is an operation, each test explains its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gateway import composition
from gateway.cli import main
from schemas.operations import LinkInsights, OrganiseInsight
from schemas.settings import Settings
from stores.sqlite import InsightStore
from streams.embedded.log import EmbeddedLog
from streams.publisher import Publisher
from tests.support import slim_cli
from tests.support.sqlite import add, at, use

THIN = "Thin pools cost more than 30 bps."
DEEP = "Deep pools cost less than thin pools."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    with EmbeddedLog(folder / "log.db") as log:
        messages: list[Any] = [add("aaaa1111", text=THIN), add("bbbb2222", text=DEEP), add("cccc3333", text="Gas is high at noon.")]
        organised = [
            LinkInsights(
                op_id="l", insight_id="aaaa1111", target_id="bbbb2222", ts=at(1), author="me", reason="opposite sign",
                relation="CONTRASTS", strength=0.9,
            ),
            OrganiseInsight(
                op_id="o", insight_id="aaaa1111", ts=at(1), author="me", reason="", keywords=("thin", "pools"), basis="b"
            ),
        ]  # fmt: skip
        messages += organised
        Publisher(log).publish_many([*messages, use("u1", "aaaa1111", recalled=["bbbb2222"])])
    with slim_cli.installed(), composition.open_pipeline(Settings(data_dir=folder)) as pipeline:
        pipeline.driver.run_until_idle()
    return folder


def run(data: Path, *arguments: str, code: int = 0, answer: str | None = None) -> Any:
    with slim_cli.installed():
        result = CliRunner().invoke(main, ["--data-dir", str(data), *arguments], input=answer)
    assert result.exit_code == code, result.output + result.stderr
    return json.loads(result.stdout) if "--json" in arguments else result


def test_settings_of_recall_are_set_tried_and_reset(data: Path) -> None:
    before = run(data, "recall-tune", "test", "thin pools", "--json")
    assert before["grade"] in ("correct", "ambiguous")
    assert {one["id"] for one in before["found"]} >= {"aaaa1111", "bbbb2222"}
    assert "recency" in before["found"][0]["why"]
    tried = run(data, "recall-tune", "test", "thin pools", "--with", "min_score=0.99", "--json")
    assert tried["found"] == []
    assert all("< min_score 0.99" in one["why"] for one in tried["left_out"])
    shown = run(data, "recall-tune", "test", "thin pools", "--limit", "1").stdout
    assert "beyond the first 1" in shown
    assert "likely that one of the first five is relevant" in shown
    assert "max_results is 7" in run(data, "recall-tune", "set", "max_results", "7", "--reason", "few").stdout
    run(data, "recall-tune", "set", "boost_recent", "off")
    settings = {one["name"]: one for one in run(data, "recall-tune", "show", "--json")["settings"]}
    assert (settings["max_results"]["value"], settings["max_results"]["default"]) == (7, 20)
    assert (settings["max_results"]["author"], settings["max_results"]["reason"]) == ("operator", "few")
    assert "recency" not in run(data, "recall-tune", "test", "thin pools", "--json")["found"][0]["why"]
    assert run(data, "recall-tune", "reset", "--dry-run", "--json") == {"would_reset": {"boost_recent": False, "max_results": 7}}
    run(data, "recall-tune", "reset", code=1, answer="n\n")
    assert "at its default" in run(data, "recall-tune", "reset", "--yes").stdout
    assert "at its default" in run(data, "recall-tune", "reset", "--dry-run").stdout
    with InsightStore.open(data / "defi-brain.db") as store:
        assert store.tuned() == {}


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("set", "min_scor", "1"), "one of min_score", 1),
        (("set", "min_score", "high"), "a number", 1),
        (("set", "default_limit", "21"), "out of order", 1),
        (("test", "x", "--with", "min_score"), "NAME=VALUE", 2),
    ],
)
def test_settings_that_make_no_sense(data: Path, arguments: tuple[str, ...], message: str, code: int) -> None:
    assert message in run(data, "recall-tune", *arguments, code=code).stderr


def test_dedup_says_which_comparison_decided(data: Path) -> None:
    differs = run(data, "dedup", "test", "pool 0xA1b2c3 costs 0.50 %", "pool 0xA1b2c4 costs 0.50 %", "--json")
    assert differs["duplicate_of"] is None
    assert "identifiers" in differs["why"] or "stands at" in differs["why"]
    same = run(data, "dedup", "test", "Gas is high on Mondays.", "Gas is high on Mondays.", "--json")
    assert (same["duplicate_of"], same["comparisons"][0]["same"]) == ("the-other-text", True)
    assert "every value is equal" in run(data, "dedup", "test", "Gas is high.", "Gas is high.").stdout
    opposite = run(data, "dedup", "test", "Swap on Curve when gas > 80 gwei", "Do not swap on Curve when gas > 80 gwei", "--json")
    assert opposite["duplicate_of"] is None
    kept = run(data, "dedup", "test", THIN, "--key", "nothing:of:that", "--json")
    assert (kept["duplicate_of"], kept["comparisons"]) == (None, [])
    assert run(data, "dedup", "config", "--json") == {"threshold": 0.95, "nearest": 5, "reinforced_from": 0.85}
    assert "threshold" in run(data, "dedup", "config").stdout
    assert run(data, "dedup", "stats", "--json")["operations"]["ADD"] == 3
    assert "ADD" in run(data, "dedup", "stats").stdout


def test_the_ranker_is_shown_taught_and_reset(data: Path) -> None:
    state = run(data, "rl", "stats", "--json")
    assert (state["uses"], state["learned"]["active"], state["settings"]["train_every"]) == (1, False, 50)
    run(data, "rl", "log", "bbbb2222", "aaaa1111")
    run(data, "rl", "log", "nobody", code=1)
    run(data, "rl", "train")
    trained = run(data, "rl", "stats", "--json")
    assert (trained["uses"], trained["waiting"]) == (2, 0)
    assert "are too few; it needs 10" in run(data, "rl", "stats").stdout
    assert run(data, "rl", "reset", "--dry-run", "--json") == {"would_unlearn": 2}
    run(data, "rl", "reset", code=1, answer="n\n")
    assert run(data, "rl", "stats", "--json")["counted"] == 2
    assert "unlearned" in run(data, "rl", "reset", "--yes").stdout
    assert run(data, "rl", "stats", "--json")["counted"] == 0
    assert run(data, "dedup", "stats", "--json")["operations"]["ADD"] == 3


def test_links_are_listed_and_shown(data: Path) -> None:
    listed = run(data, "links", "list", "--json")
    assert listed["relations"]["CONTRASTS"] == 1
    (link,) = run(data, "links", "list", "--relation", "contrasts", "--json")["links"]
    assert (link["source"], link["target"], link["strength"]) == ("aaaa1111", "bbbb2222", 0.9)
    assert "opposite sign" in run(data, "links", "list").stdout
    shown = run(data, "links", "show", "bbbb", "--json")
    assert [one["text"] for one in shown["links"] if one["relation"] == "CONTRASTS"] == [THIN]
    assert "← " in run(data, "links", "show", "bbbb").stdout
    assert "thin, pools" in run(data, "links", "show", "aaaa").stdout
    assert "no single insight" in run(data, "links", "show", "zzzz", code=1).stderr


def test_a_link_is_explained(data: Path) -> None:
    near = run(data, "links", "test", "aaaa", "--json")
    assert (near["id"], {one["id"] for one in near["ties"]}) == ("aaaa1111", {"bbbb2222", "cccc3333"})
    assert all(one["why"] and (one["relation"] is None) == (one["strength"] is None) for one in near["ties"])
    (tie,) = run(data, "links", "test", "aaaa", "cccc", "--json")["ties"]
    assert (tie["id"], tie["relation"]) == ("cccc3333", None)
    assert "nothing ties them" in run(data, "links", "test", "aaaa", "cccc").stdout
    assert "no single insight" in run(data, "links", "test", "aaaa", "zzzz", code=1).stderr


def test_a_briefing(data: Path) -> None:
    told = run(data, "briefing", "--json")
    assert set(told["memory_ids"]) == {"aaaa1111", "bbbb2222", "cccc3333"}
    assert run(data, "briefing").stdout.strip() == told["text"]
    assert f'"{THIN}"' in told["text"]
