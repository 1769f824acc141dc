"""The reader of agents' traces: on small ones made here, and on the published ones where they are at hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import learned
from schemas.events import ToolExecution
from streams.sources import FORMATS, Rejected, read_file
from streams.sources.agent_traces import EPOCH, read
from workers.errors import error_kind
from workers.reflect import reflect

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "agent_traces"
TAU, REFLEXION = DATA / "tau_bench_airline_gpt4o.json", DATA / "reflexion_alfworld"
DEEP = b"[" * 500 + b"]" * 500
real_files = pytest.mark.skipif(not DATA.is_dir(), reason=f"published traces are not at {DATA}")


def asks(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}


def answers(number: int, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "name": "x", "content": content}


def says(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def attempt(task: int = 3, trial: int = 1, reward: Any = 1.0, messages: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    made = [
        says("# Library Agent Policy\n\nLend books.", "system"),
        says("I want two books."),
        asks(
            1, "lend_books", books=["a", "b"], card_id="gold_card_77", user_id="jo_doe_12", urgent=True, weeks=2, kind="for reading"
        ),
        answers(1, "Error: card balance is not enough"),
        says("Try again."),
        asks(
            2, "lend_books", books=["a", "b"], card_id="gold_card_77", user_id="jo_doe_12", urgent=True, weeks=2, kind="for reading"
        ),
        answers(2, '{"lent": 2}'),
    ]
    return {"task_id": task, "trial": trial, "reward": reward, "info": {}, "traj": made if messages is None else messages}


def notes(name: str, solved: bool, *memory: str) -> dict[str, Any]:
    return {"name": name, "memory": list(memory), "is_success": solved}


def items(*entries: Any, array: bool = True) -> list[ToolExecution | Rejected]:
    if array:
        return list(read([json.dumps(list(entries), indent=1).encode()]))
    return list(read([json.dumps(entry).encode() + b"\n" for entry in entries]))


def events(*entries: Any) -> list[ToolExecution]:
    found = items(*entries)
    assert not [item for item in found if isinstance(item, Rejected)], found
    return [item for item in found if isinstance(item, ToolExecution)]


def test_an_attempt_is_its_calls_and_its_end() -> None:
    first, second, end = events(attempt())
    assert [one.tool for one in (first, second, end)] == ["lend_books", "lend_books", "attempt"]
    assert {one.key.split(":", 1)[1] for one in (first, second, end)} == {"offchain:tau-bench library"}
    assert (first.status, first.error, error_kind(first.status, first.error)) == (
        "failed",
        "Error: card balance is not enough",
        "funds",
    )
    assert (second.status, second.error) == ("success", None)
    assert (end.status, end.reward, reflect(end).metrics) == ("success", 1, {"reward": 1.0, "failed": 0.0})
    assert [(one.ts_executed - EPOCH).total_seconds() - 10 * 86_400 - 3 * 1800 for one in (first, second, end)] == [20, 40, 40]


def test_features_are_what_was_known_before_the_call() -> None:
    first, second, end = events(attempt())
    told = {
        "arg_books_count": 2.0, "arg_card_id": "gold_card", "arg_urgent": True, "arg_weeks": 2.0, "arg_kind": "for reading",
    }  # fmt: skip
    before = {"calls": 0.0, "errors": 0.0, "repeated": 0.0, "user_turns": 1.0, "last_tool": "none", "again": False}
    assert first.features == before | told
    assert second.features == told | {
        "calls": 1.0, "errors": 1.0, "repeated": 0.0, "user_turns": 2.0, "last_tool": "lend_books", "again": True,
    }  # fmt: skip
    assert end.features == {
        "calls": 2.0, "errors": 1.0, "repeated": 1.0, "user_turns": 2.0, "last_tool": "lend_books", "first_tool": "lend_books",
        "distinct_tools": 1.0,
    }  # fmt: skip


def test_who_somebody_is_and_what_was_said_is_not_taken_over() -> None:
    wire = b"".join(one.to_wire() for one in events(attempt()))
    assert b"jo_doe" not in wire
    assert b"two books" not in wire


def test_an_attempt_without_its_reward_in_full_has_failed() -> None:
    assert [one.status for one in events(attempt(reward=0.5))][-1] == "failed"
    assert events(attempt(reward=0.0))[-1].error == "the task was not solved"


def test_a_file_read_again_gives_the_same_ids_and_another_trial_others() -> None:
    once, again, other = (events(attempt(trial=trial)) for trial in (1, 1, 2))
    assert [one.event_id for one in once] == [one.event_id for one in again]
    assert not {one.event_id for one in once} & {one.event_id for one in other}


def test_lines_read_like_an_array() -> None:
    entries = [attempt(), notes("env_4", True)]
    assert items(*entries) == items(*entries, array=False)


def test_what_reflexion_notes_after_a_failure_was_not_known_before_it() -> None:
    first, second, third = events(
        notes("env_4", False, "It was a loop."),
        notes("env_4", False, "It was a loop.", "Look first."),
        notes("env_4", True, "A", "B"),
    )
    assert (first.status, first.features, first.reward) == ("failed", {"reflections": 0.0}, 0)
    assert second.features == {"reflections": 1.0, "note_words": 4.0, "note_of_loop": True, "note_repeats": False}
    assert (third.status, third.features["reflections"], third.reward) == ("success", 2.0, 1)
    assert [(one.ts_executed - EPOCH).total_seconds() for one in (first, second, third)] == [240, 86_640, 173_040]


def test_what_was_solved_before_is_the_same_attempt() -> None:
    trial_0 = events(notes("env_1", True), notes("env_2", False, "x"))
    trial_1 = events(notes("env_1", True), notes("env_2", False, "x", "y"))
    assert trial_0[0].event_id == trial_1[0].event_id
    assert trial_0[1].event_id != trial_1[1].event_id


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"[{", "not_json"),
        (b'[{"traj": NaN}]', "not_json"),
        (b"[7]", "unknown_trace"),
        (b'[{"reward": 1}]', "unknown_trace"),
        (b'[{"traj": ' + DEEP + b"}]", "too_deep"),
        (b'{"traj": [{"tool_calls": [{"id": ' + DEEP + b"}]}]}", "too_deep"),
        (b"[" * 2000, "not_json"),
        (b"no json", "not_json"),
        (b'[{"traj": [], "task_id": 0, "trial": -1, "reward": 1}]', "bad_trace"),
        (b'[{"traj": {}, "task_id": 0, "trial": 0, "reward": 1}]', "bad_trace"),
        (b'[{"traj": [], "task_id": 0, "trial": 0, "reward": "1"}]', "bad_trace"),
        (b'[{"name": "", "memory": [], "is_success": true}]', "bad_trace"),
        (b'[{"name": "e", "memory": [1], "is_success": true}]', "bad_trace"),
        (b'[{"name": "e", "memory": [], "is_success": 1}]', "bad_trace"),
    ],
)
def test_what_is_no_trace_is_rejected_with_a_reason(raw: bytes, reason: str) -> None:
    (found,) = read([raw])
    assert isinstance(found, Rejected)
    assert found.reason == reason
    assert json.dumps(found.raw.decode())


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c1"},
        {"id": "c1", "function": {"name": "Not A Name", "arguments": "{}"}},
        {"id": "c1", "function": {"name": "lend", "arguments": "[1]"}},
        {"id": "c1", "function": {"name": "lend", "arguments": "{"}},
        {"id": "c1", "function": {"name": "lend", "arguments": f'{{"a": {DEEP.decode()}}}'}},
        {"id": "unanswered", "function": {"name": "lend", "arguments": "{}"}},
        "nothing",
    ],
)
def test_a_bad_call_does_not_take_its_attempt_with_it(call: Any) -> None:
    messages = [{"role": "assistant", "tool_calls": [call]}, answers(1, "fine"), asks(2, "lend_books"), answers(2, "fine")]
    bad, good, end = items(attempt(messages=messages))
    assert isinstance(bad, Rejected)
    assert bad.reason == "bad_trace"
    assert isinstance(good, ToolExecution)
    assert isinstance(end, ToolExecution)
    assert end.features["calls"] == 1.0


PARTS = ["traj", "is_success", "name", "memory", "task_id", "trial", "reward", "role", "tool_calls", "function", "id", "content"]
plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
json_values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(PARTS), inner, max_size=5), max_leaves=12
)


@given(st.lists(json_values, max_size=4))
def test_no_value_stops_the_reader(entries: list[Any]) -> None:
    found = items(*entries)
    assert len(found) >= len(entries)
    assert sum(isinstance(item, ToolExecution) for item in found) + sum(isinstance(item, Rejected) for item in found) == len(found)


def test_the_format_is_offered() -> None:
    assert not FORMATS["agent-trace"].needs_pool


@real_files
def test_every_attempt_and_call_of_the_published_airline_run_is_read() -> None:
    found = list(read_file(TAU, "agent-trace"))
    assert not [item for item in found if isinstance(item, Rejected)]
    read_in = [item for item in found if isinstance(item, ToolExecution)]
    calls = [one for one in read_in if one.tool != "attempt"]
    ends = [one for one in read_in if one.tool == "attempt"]
    assert (len(ends), len(calls), len({one.tool for one in calls})) == (200, 1164, 14)
    assert sum(float(one.reward or 0) for one in ends) == 84
    kinds = Counter(error_kind(one.status, one.error) for one in calls if one.error)
    assert kinds == {"absent": 31, "arguments": 24, "funds": 14, "policy": 4}
    assert len({one.event_id for one in read_in}) == 1364
    assert [one.ts_executed for one in read_in] == sorted(one.ts_executed for one in read_in)


@real_files
def test_reflexions_trials_hold_each_attempt_once() -> None:
    solved, ids = [], set()
    for trial in range(15):
        found = [
            one for one in read_file(REFLEXION / f"env_results_trial_{trial}.json", "agent-trace") if isinstance(one, ToolExecution)
        ]
        assert len(found) == 134
        solved.append(sum(one.status == "success" for one in found))
        ids |= {one.event_id for one in found}
    assert solved == [84, 103, 111, 113, 117, 118, 123, 126, 128, 129, 130, 130, 131, 133, 134]
    assert len(ids) == 134 + sum(134 - many for many in solved[:-1])


@real_files
def test_the_account_of_a_source_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    learned.main(["reflexion", "--json"])
    told = json.loads(capsys.readouterr().out)["reflexion"]
    assert told["records"] == {"read": 2010, "processed": 334, "duplicates": 1676, "rejected": 0}
    assert told["operations"].get("ADD", 0) == len(told["insights"])
    with pytest.raises(SystemExit):
        learned.main(["nothing"])
