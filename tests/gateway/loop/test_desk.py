"""The remembering agent: it learns from its own executions, stays inside its bounds, and is worth it or is stopped."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from bench.loop import bounds_for, main
from gateway.loop import BOUND_BPS, Bounds, Desk, Exploring, Result, Street, habits_of, paired, plain_costs, run, table
from gateway.loop.events import record_key
from gateway.middleware import Limits
from schemas.claims import Claim, Condition
from schemas.settings import Settings
from tests.gateway.test_cli import document
from tests.gateway.test_cli import run as command
from tests.support.sqlite import evidence, insight

SETTINGS = Settings()


@pytest.fixture(scope="module")
def learned() -> Result:
    """A market in which the habit is the dearest router."""
    return run("calm", 6, 600, SETTINGS)


def test_what_it_learns_pays(learned: Result) -> None:
    assert learned.difference < -3.0
    assert learned.operations["ADD"] > 0
    assert learned.followed.total() > 50


def test_the_plain_agent_pays_the_same_whoever_trades_beside(learned: Result) -> None:
    assert plain_costs("calm", 6, 600, SETTINGS) == learned.plain


def test_a_run_is_repeatable() -> None:
    assert run("misleading", 2, 150, SETTINGS) == run("misleading", 2, 150, SETTINGS)


def test_bounds_that_leave_one_value_leave_no_difference() -> None:
    habits = habits_of(6, Bounds())
    fixed = Bounds((habits.router,), (habits.pieces,), (habits.wait_h,), (habits.bound_bps,))
    result = run("calm", 6, 100, SETTINGS, bounds=fixed)
    assert result.remembering == result.plain


def test_without_exploring_or_advice_it_is_the_plain_agent() -> None:
    result = run("calm", 6, 60, SETTINGS, exploring=Exploring(0.0, 0, 0.0))
    assert result.remembering == result.plain


def test_whatever_is_remembered_choices_stay_inside_the_bounds() -> None:
    bounds = Bounds(routers=("alpha", "beta"), pieces=(1, 2), wait_h=(0, 2), bound_bps=(20.0, 40.0))
    desk = Desk(Street("calm", 1, 80), SETTINGS, bounds, Exploring(), Limits())
    hostile = [
        Condition(feature="router", op="==", value="gamma"),
        Condition(feature="size_share", op="<", value=1e-9),
        Condition(feature="tolerance_bps", op=">=", value=1_000.0),
        Condition(feature="hour", op=">=", value=23.0),
    ]
    for number, condition in enumerate(hostile):
        claim = Claim(key=record_key(), metric="cost_bps", conditions=(condition,), direction="lower")
        told = evidence().model_copy(update={"inside": -1e9, "outside": 1e9})
        one = insight(number, key=record_key(), claim=claim, evidence=told, confidence=Decimal(1))
        desk.memory.insights[one.id] = one
    chosen = []
    execute = desk._street.execute
    desk._street.execute = lambda order, choice: (chosen.append(choice), execute(order, choice))[1]  # type: ignore[method-assign,func-returns-value]
    for order in desk._street.orders():
        desk.trade(order)
    assert len(chosen) == 160
    assert all(bounds.allows(choice) for choice in chosen)


def test_it_learns_of_an_execution_when_that_has_happened() -> None:
    desk = Desk(Street("calm", 1, 30), SETTINGS, Bounds(), Exploring(1.0, 30, 1.0), Limits())
    for order in desk._street.orders():
        desk.trade(order)
        assert all(ts > order.ts.timestamp() or event.ts_executed >= order.ts for ts, _, event in desk._executions)
    assert desk._executions


def test_below_half_nothing_is_recalled() -> None:
    desk = Desk(Street("calm", 1, 1), SETTINGS, Bounds(), Exploring(), Limits())
    for number, confidence in enumerate(("0.49", "0.5", "1")):
        desk.memory.insights[str(number)] = insight(number, key=record_key(), confidence=Decimal(confidence))
    assert [float(one.confidence) for one in desk.memory.recall(record_key())] == [1.0, 0.5]


def test_a_misleading_market_turns_and_the_loss_stays_small() -> None:
    result = run("misleading", 6, 500, SETTINGS)
    assert result.turns > 0
    assert result.difference < BOUND_BPS


def test_the_table_adds_up() -> None:
    results = [Result("calm", seed, plain=[10.0, 20.0], remembering=[10.0 + shift, 20.0]) for seed, shift in ((1, -2.0), (2, -4.0))]
    row = table(results)
    assert (row.seeds, row.plain, row.remembering, row.difference) == (2, 15.0, 13.5, -1.5)
    assert (row.low, row.high) == paired([-1.0, -2.0])
    assert (row.better, row.worst) == (1.0, -1.0)
    assert row.boot == (-2.0, -1.0)
    with pytest.raises(ValueError, match="no results"):
        table([])


def test_the_bench_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1-2", "--markets", "calm,misleading", "--orders", "40", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in told["markets"]] == ["calm", "misleading"]
    assert told["markets"][0]["seeds"] == 2
    assert set(told["differences"]["calm"]) == {"1", "2"}
    assert told["bound_kept"] is True


def test_one_parameter_alone_leaves_the_others_at_the_habit() -> None:
    habits = habits_of(5, Bounds())
    assert bounds_for("router", 5) == Bounds(Bounds().routers, (habits.pieces,), (habits.wait_h,), (habits.bound_bps,))
    assert bounds_for(None, 5) == Bounds()


def test_the_command_says_what_each_agent_paid(tmp_path: Path) -> None:
    both = document("simulate", "--seed", "3", "--agent", "both", "--orders", "40", data=tmp_path)
    plain = document("simulate", "--seed", "3", "--agent", "plain", "--orders", "40", data=tmp_path)
    assert both["simulated"] is True
    assert both["plain_bps"] == plain["plain_bps"]
    assert both["difference_bps"] == pytest.approx(float(str(both["remembering_bps"])) - float(str(both["plain_bps"])), abs=0.002)
    assert "remembering_bps" not in plain
    told = command("simulate", "--seed", "3", "--agent", "remembering", "--market", "cycling", "--orders", "40", data=tmp_path)
    assert told.exit_code == 0
    assert "simulated cycling market" in told.output
    wrong = command("simulate", "--seed", "3", "--agent", "plain", "--out", str(tmp_path / "x"), data=tmp_path)
    assert (wrong.exit_code, "belong to a market's events" in wrong.output) == (2, True)
