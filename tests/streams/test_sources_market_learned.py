"""The whole way in small: simulate, reflect, distil, judge. ``bench/planted.py`` is the same at length."""

from __future__ import annotations

import json

import pytest

from bench.planted import Run, main, run, seeds_of


@pytest.fixture(scope="module")
def learned() -> Run:
    return run(2, 1500)


def test_strong_effects_are_found_in_three_days_of_trading(learned: Run) -> None:
    assert learned.operations["ADD"] >= 3
    assert any(effect.endswith("size-raises-cost") for effect in learned.report.found)
    assert learned.report.precision == 1.0


def test_every_insight_is_judged_once(learned: Run) -> None:
    assert len(learned.report.planted_claims) + len(learned.report.unplanted_claims) == learned.operations["ADD"]


def test_the_command_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seeds", "1", "--events", "50", "--null", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["summary"]["runs_with_unplanted"] == 0
    assert (told["runs"][0]["planted"], told["runs"][0]["events"]) == (False, 50)


def test_seeds_are_ranges_and_lists() -> None:
    assert seeds_of("1-3,9") == [1, 2, 3, 9]
