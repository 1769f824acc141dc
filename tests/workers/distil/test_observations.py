"""Columns hold what was put in, in order, bounded, and a condition means on columns what it means on one episode."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.claims import Condition
from workers.distil.observations import MAX_LEVELS, Observation, Observations

CELLS = st.one_of(st.booleans(), st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from(["a", "b", "True"]))
FEATURES = st.dictionaries(st.sampled_from(["x", "y", "z"]), CELLS)
METRICS = st.dictionaries(st.sampled_from(["cost_bps", "failed"]), st.sampled_from([0.0, 1.0, 30.25]))
ROWS = st.lists(st.tuples(METRICS, FEATURES, st.booleans()), max_size=40)


def observed(rows: list[tuple[dict, dict, bool]], limit: int, looks: set[int] = frozenset()) -> Observations:
    made = Observations(limit)
    for i, (metrics, features, simulated) in enumerate(rows):
        made.append(Observation(i, f"e{i}", metrics, features, simulated))
        if i in looks:
            made.view()
    return made


@given(ROWS, st.integers(1, 30))
def test_the_newest_rows_are_kept_with_their_cells(rows: list[tuple[dict, dict, bool]], limit: int) -> None:
    view = observed(rows, limit).view()
    kept = rows[-limit:]
    assert view.first == len(rows) - len(kept)
    assert view.ids == [f"e{view.first + i}" for i in range(len(kept))]
    for i, (metrics, features, simulated) in enumerate(kept):
        assert {name: column[i] for name, column in view.metrics.items() if column[i] == column[i]} == metrics
        numbers = {name: column[i] for name, column in view.numbers.items() if column[i] == column[i]}
        levels = {name: view.levels[name][codes[i]] for name, codes in view.codes.items() if codes[i] >= 0}
        assert numbers | levels == features
        assert view.simulated[i] == simulated


@given(ROWS, st.integers(1, 30), st.sets(st.integers(0, 40)), st.integers(0, 45))
def test_neither_looking_nor_a_restart_changes_anything(
    rows: list[tuple[dict, dict, bool]], limit: int, looks: set[int], cut: int
) -> None:
    straight = observed(rows, limit)
    begun = observed(rows[:cut], limit, looks)
    resumed = Observations.from_plain(json.loads(json.dumps(begun.to_plain())), limit)
    for i, (metrics, features, simulated) in enumerate(rows[cut:], start=min(cut, len(rows))):
        resumed.append(Observation(i, f"e{i}", metrics, features, simulated))
    assert resumed.to_plain() == straight.to_plain()
    assert len(resumed) == len(straight) == min(limit, len(rows))


@settings(max_examples=80)
@given(ROWS, st.sampled_from(["x", "y"]), st.sampled_from([">=", "<", "=="]), CELLS)
def test_a_condition_holds_in_columns_where_it_holds_for_the_episode(
    rows: list[tuple[dict, dict, bool]], feature: str, op: str, value: bool | float | str
) -> None:
    condition = Condition(feature=feature, op=op, value=value)
    holds, known = observed(rows, 100).view().test([condition])
    assert (holds & known).tolist() == [condition.holds(features) for _, features, _ in rows]


def test_rows_since_a_sequence_number_survive_forgetting() -> None:
    rows = observed([({"cost_bps": float(i)}, {}, False) for i in range(50)], 20)
    assert rows.view().since(45).ids == [f"e{i}" for i in range(45, 50)]
    assert len(rows.view().since(3)) == 20
    assert len(rows.view().since(50)) == 0


def test_an_identifier_is_not_a_category() -> None:
    rows = observed([({}, {"x": f"id-{i}"}, False) for i in range(200)], 500)
    view = rows.view()
    assert len(view.levels["x"]) == MAX_LEVELS
    assert (view.codes["x"][MAX_LEVELS:] == -1).all()
