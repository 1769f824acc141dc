"""One key: arrival order inside a window leaves no trace, a drift alarm cuts what it concerns, a restart is not noticed."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from schemas.events import Action
from tests.support.toy_market import Market, dearer_by_share, failing_router, gas_by_hour
from workers.distil.keystate import KeyState
from workers.distil.learner import FIRST_MINING, Added, Change, Progress, Retired
from workers.distil.observations import Observation
from workers.windows import HOUR_MS, Tumbling

WINDOWS = Tumbling.of_hours(4)
EFFECTS = (dearer_by_share(), gas_by_hour(), failing_router())


def state() -> KeyState:
    return KeyState("k", "label", Action.SWAP, lateness_ms=HOUR_MS, delta=0.002, limit=2000)


def observations(n: int, market: Market | None = None) -> list[Observation]:
    episodes = (market or Market(EFFECTS)).episodes(n)
    return [Observation(round(one.ts.timestamp() * 1000), one.id, one.metrics, one.features) for one in episodes]


def run(
    key: KeyState, rows: list[Observation], alarms: dict[str, list[str]] | None = None, shuffled: int | None = None
) -> list[Change]:
    """Everything a key decides when each window closes as soon as the next one begins."""
    windows: dict[int, list[Observation]] = {}
    for row in rows:
        windows.setdefault(WINDOWS.start_of(row.ts_ms), []).append(row)
    changes: list[Change] = []
    for start, waiting in sorted(windows.items()):
        if shuffled is not None:
            random.Random(shuffled).shuffle(waiting)
        for row in waiting:
            key.observe(start, row, (alarms or {}).get(row.id, []))
        changes += key.close(start, least=3, q=0.1)[1]
    return changes


def plain(changes: list[Change]) -> list[tuple[str, object]]:
    return [(type(change).__name__, change.belief.to_plain()) for change in changes]


def test_arrival_order_inside_a_window_leaves_no_trace() -> None:
    rows = observations(500)
    straight, shuffled = state(), state()
    expected = plain(run(straight, rows))
    assert len(expected) >= 4
    assert plain(run(shuffled, rows, shuffled=1)) == expected
    assert shuffled.to_plain() == straight.to_plain()


@pytest.mark.parametrize("cut", [1, 130, 301])
def test_a_restart_is_not_noticed(cut: int) -> None:
    rows = observations(450)
    cut = next(i for i in range(cut, 450) if WINDOWS.start_of(rows[i].ts_ms) != WINDOWS.start_of(rows[i - 1].ts_ms))
    straight, first = state(), state()
    run(straight, rows)
    run(first, rows[:cut])
    second = KeyState.from_plain("k", json.loads(json.dumps(first.to_plain())), 2000)
    run(second, rows[cut:])
    assert second.to_plain() == straight.to_plain()


def test_an_alarm_cuts_its_own_metrics_and_leaves_the_others() -> None:
    rows = observations(400)
    key = state()
    run(key, rows, alarms={rows[299].id: ["cost_bps"]})
    progress = {name: Progress(*one) for name, one in key.to_plain()["learner"]["progress"].items()}
    assert progress["cost_bps"] == Progress(0, 0, 101)
    assert progress["gas_gwei"].looks >= 3
    assert all(belief.since >= 288 for belief in key.beliefs if belief.claim.metric == "cost_bps")


def test_evidence_never_reaches_across_a_cut() -> None:
    """After the alarm the effect is another one; whatever is said of costs from there on rests on later episodes only."""
    rows = observations(700, Market((dearer_by_share(until=350), dearer_by_share(extra=-6, since=350))))
    key = state()
    run(key, rows[:350])
    later = run(key, rows[350:], alarms={rows[350].id: ["cost_bps"]})
    after = {row.id for row in rows[350:]}
    evidence = [change.finding.comparison if isinstance(change, Added) else change.verdict.comparison
                for change in later if not isinstance(change, Retired)]  # fmt: skip
    assert evidence
    assert all(set(one.view.ids) <= after for one in evidence)


def test_what_happened_before_the_alarm_but_arrives_after_it_says_nothing_about_the_metric() -> None:
    rows = observations(60)
    key = state()
    start = WINDOWS.start_of(rows[20].ts_ms)
    key.observe(start, rows[20], ["cost_bps"])
    key.observe(start, rows[19], [])
    key.observe(start, rows[21], [])
    assert [sorted(one.metrics) for one in key.open[start]] == [
        ["cost_bps", "failed", "gas_gwei"], ["failed", "gas_gwei"], ["cost_bps", "failed", "gas_gwei"],
    ]  # fmt: skip


def test_an_alarm_on_a_feature_starts_the_beliefs_that_depend_on_it_anew() -> None:
    rows = observations(300)
    key = state()
    run(key, rows[:290])
    depending = [belief for belief in key.beliefs if "size_share" in belief.rule.features]
    others = [belief for belief in key.beliefs if "size_share" not in belief.rule.features]
    assert depending
    key.observe(WINDOWS.start_of(rows[290].ts_ms), rows[290], ["size_share"])
    assert all(
        belief.since > old.since
        for old, belief in zip(depending, (b for b in key.beliefs if "size_share" in b.rule.features), strict=True)
    )
    assert [belief for belief in key.beliefs if "size_share" not in belief.rule.features] == others
    assert key.to_plain()["learner"]["progress"]["cost_bps"][0] >= 1


def test_few_episodes_wait_for_more() -> None:
    rows = observations(FIRST_MINING)
    key = state()
    for row in rows:
        key.observe(0, row, [])
    assert key.close(0, least=FIRST_MINING + 1, q=0.1)[1] == []
    assert key.to_plain()["learner"]["progress"]["failed"] == [0, 0, FIRST_MINING]
    key.observe(1, replace(rows[0], id="one more"), [])
    key.close(1, least=FIRST_MINING + 1, q=0.1)
    assert key.to_plain()["learner"]["progress"]["failed"] == [1, FIRST_MINING + 1, 0]


def test_mining_comes_at_growing_sizes() -> None:
    progress, looks = Progress(), []
    for n in range(1, 1001):
        progress = Progress(progress.looks, progress.rows, progress.fresh + 1)
        if progress.due:
            progress = Progress(progress.looks + 1, n, 0)
            looks.append(n)
    assert looks == [120, 180, 270, 405, 608, 912]
