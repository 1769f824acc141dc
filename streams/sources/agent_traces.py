"""Traces of tool-calling agents as tool executions: tau-bench's results and Reflexion's, told apart by their shape.

A file is one JSON array of attempts, or a line for each. Every attempt becomes one execution of the tool ``attempt``, with its
reward; of a tau-bench attempt every tool call becomes one as well, failed where the tool answered ``Error: …``. What is said in
the dialogue is not taken over, because people's words are no measurements.

**Times are made up, the order is not.** Neither format has any. A tau-bench attempt stands at trial × 10 days + task × 30 minutes
after ``EPOCH`` and its calls 20 seconds apart; a Reflexion attempt at (failures before it) × 1 day + environment × 1 minute. So an
hour or weekday of such an execution means nothing, and the times are given as those of the decision, too.

**What was known before.** A call's features are what had happened in its attempt until then, and its own arguments as far as they
are categories or numbers: ``cabin``, how many passengers, which *kind* of payment (``gift_card_123`` is a gift card), never an
identifier. An attempt is taken as the decision to end: known is what was done, not how it was judged. Of a Reflexion attempt the
file says only what the agent had noted about its earlier ones.

**Identity is content.** Reflexion's file of trial t repeats every environment that was solved before, unchanged: those are the same
attempts and come out with the same ids. The number of a failed attempt's reflections says which attempt it was, since each failure
adds one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from pydantic import ValidationError

from schemas.codec import MAX_DEPTH
from schemas.events import Action, FeatureValue, Status, ToolExecution
from schemas.identity import content_id
from streams.sources.base import Item, Rejected, numbered, why

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
ATTEMPT = "attempt"
UNSOLVED = "the task was not solved"
MAX_ARGUMENTS = 16
"""Features taken from one call's arguments; further ones, by name, are left out."""
PEOPLE = ("user", "customer", "passenger", "person")
"""Arguments whose names begin like this tell who somebody is: never a feature, unless as a number of them."""

_DOMAIN = re.compile(r"#\s*(\w+)\s+Agent Policy", re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9_.\-]{0,63}\Z")
_WORD = re.compile(r"[A-Za-z][A-Za-z_ ]{0,31}\Z")
_KIND = re.compile(r"([A-Za-z][A-Za-z_]*)_\d+\Z")


class BadTrace(ValueError):
    """An attempt or a call that does not have the parts that its format has."""


def read(lines: Iterable[bytes]) -> Iterator[Item]:
    """One item for each attempt and each tool call, an attempt's calls before it.

    A file that is no JSON or is nested too deep, and an attempt of no known shape, are one rejected item each (``not_json``,
    ``too_deep``, ``unknown_trace``); a part that is missing or wrong rejects what it belongs to (``bad_trace``). The whole file is
    held in memory.
    """
    for number, raw, entry in _entries(lines):
        if isinstance(entry, Rejected):
            yield entry
        elif isinstance(entry, dict) and "traj" in entry:
            yield from _tau(number, raw, entry)
        elif isinstance(entry, dict) and "is_success" in entry:
            yield _made(number, raw, lambda entry=entry: _reflexion(entry))  # type: ignore[misc]
        else:
            yield Rejected(number, raw, "unknown_trace", "an attempt has a traj (tau-bench) or is_success (Reflexion)")


def _entries(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes, Any]]:
    """(number from 1, bytes, value) of each attempt. An element of an array has no bytes of its own: it is written anew."""
    whole = b"".join(lines)
    if whole.lstrip()[:1] != b"[":
        for number, raw in numbered(whole.split(b"\n")):
            yield number, raw, _parsed(number, raw)
        return
    document = _parsed(1, whole)
    if isinstance(document, Rejected):
        yield 1, whole, document
        return
    for number, entry in enumerate(document, start=1):
        yield number, orjson.dumps(entry), entry


def _parsed(number: int, raw: bytes) -> Any:
    try:
        value = orjson.loads(raw)
    except ValueError as error:
        return Rejected(number, raw, "not_json", str(error)[:1000])
    return Rejected(number, raw, "too_deep", f"nested deeper than {MAX_DEPTH} levels") if _deep(value) else value


def _deep(value: Any) -> bool:
    """Whether a value is nested deeper than it could be written again."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [one for several in inner for one in several]
    return bool(level)


def _made(number: int, raw: bytes, make: Callable[[], ToolExecution]) -> Item:
    try:
        return make()
    except ValidationError as error:
        return Rejected(number, raw, *why(error))
    except (BadTrace, OverflowError) as error:
        return Rejected(number, raw, "bad_trace", str(error)[:1000])


# --- tau-bench


class _Attempt:
    """A tau-bench attempt while its messages are read: where it stands, and what has happened in it so far."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.task, self.trial = _integer(entry, "task_id"), _integer(entry, "trial")
        messages = entry["traj"]
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise BadTrace("traj is a list of messages")
        self.messages: list[dict[str, Any]] = messages
        self.start = EPOCH + timedelta(days=10 * self.trial, minutes=30 * self.task)
        self.pair = f"tau-bench {_domain(messages)}"
        self.calls: list[str] = []
        self.errors = 0
        self.repeated = 0
        self.users = 0
        self.seen: set[tuple[str, str]] = set()

    def event(self, **fields: Any) -> ToolExecution:
        """An execution of this attempt, at the time of its latest call."""
        ts = self.start + timedelta(seconds=20 * len(self.calls))
        common = {
            "action": Action.CALL,
            "agent_id": "tau-bench",
            "pair": self.pair,
            "ts_decision": ts,
            "ts_executed": ts,
            "ts_unit": "iso",
        }
        return ToolExecution.model_validate({**common, **fields})

    def so_far(self) -> dict[str, FeatureValue]:
        """What has happened until now."""
        return {
            "calls": float(len(self.calls)),
            "errors": float(self.errors),
            "repeated": float(self.repeated),
            "user_turns": float(self.users),
            "last_tool": self.calls[-1] if self.calls else "none",
        }


def _tau(number: int, raw: bytes, entry: dict[str, Any]) -> Iterator[Item]:
    try:
        attempt = _Attempt(entry)
    except (BadTrace, OverflowError) as error:
        yield Rejected(number, raw, "bad_trace", str(error)[:1000])
        return
    for place, message in enumerate(attempt.messages):
        attempt.users += message.get("role") == "user"
        asked = message.get("tool_calls") or ()
        for call in asked if isinstance(asked, list) else ():
            yield _made(number, orjson.dumps(call), lambda place=place, call=call: _call(attempt, place, call))  # type: ignore[misc]
    yield _made(number, raw, lambda: _judged(attempt, entry))


def _call(attempt: _Attempt, place: int, call: Any) -> ToolExecution:
    name, arguments = _function(call)
    answer = _answer(attempt.messages[place + 1 :], call.get("id"))
    written = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()
    features: dict[str, FeatureValue] = {**attempt.so_far(), "again": (name, written) in attempt.seen, **_told(arguments)}
    failed = answer.startswith("Error")
    position = len(attempt.calls)
    attempt.calls.append(name)
    attempt.errors += failed
    attempt.repeated += (name, written) in attempt.seen
    attempt.seen.add((name, written))
    identity = ("tau-bench", attempt.pair, attempt.task, attempt.trial, position, name, written, answer)
    return attempt.event(
        event_id=content_id("event", "agent-trace", *identity),
        tool=name,
        status=Status.FAILED if failed else Status.SUCCESS,
        error=answer[:4000] if failed else None,
        features=features,
    )


def _judged(attempt: _Attempt, entry: dict[str, Any]) -> ToolExecution:
    reward = entry.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        raise BadTrace("an attempt has a number as its reward")
    features: dict[str, FeatureValue] = {
        **attempt.so_far(),
        "first_tool": attempt.calls[0] if attempt.calls else "none",
        "distinct_tools": float(len(set(attempt.calls))),
    }
    identity = ("tau-bench", attempt.pair, attempt.task, attempt.trial, orjson.dumps(attempt.messages).decode(), reward)
    return attempt.event(
        event_id=content_id("event", "agent-trace", *identity),
        tool=ATTEMPT,
        status=Status.SUCCESS if reward >= 1 else Status.FAILED,
        error=None if reward >= 1 else UNSOLVED,
        reward=str(reward),
        features=features,
    )


def _function(call: Any) -> tuple[str, dict[str, Any]]:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not _NAME.match(name):
        raise BadTrace("a tool call has a function with a name")
    try:
        arguments = orjson.loads(str(function.get("arguments") or "{}"))  # type: ignore[union-attr]
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict) or _deep(arguments):
        raise BadTrace(f"the arguments of {name} are no JSON object")
    return name, arguments


def _answer(later: list[dict[str, Any]], call_id: Any) -> str:
    for message in later:
        if message.get("role") == "tool" and message.get("tool_call_id") == call_id:
            return str(message.get("content") or "")
    raise BadTrace("the trace ends before the tool's answer")


def _told(arguments: dict[str, Any]) -> dict[str, FeatureValue]:
    """Categories and numbers among a call's arguments; lists as how many; identifiers, dates and prose left out."""
    found: dict[str, FeatureValue] = {}
    for name in sorted(arguments):
        value = arguments[name]
        feature = f"arg_{name}".lower()
        if not _NAME.match(feature) or len(found) >= MAX_ARGUMENTS:
            continue
        if isinstance(value, bool):
            found[feature] = value
        elif isinstance(value, (int, float)):
            found[feature] = float(value)
        elif isinstance(value, list):
            found[f"{feature}_count"[:64]] = float(len(value))
        elif isinstance(value, str):
            kind = _KIND.match(value)
            if not name.lower().startswith(PEOPLE) and (kind or _WORD.match(value)):
                found[feature] = kind[1] if kind else value
    return found


def _domain(messages: list[dict[str, Any]]) -> str:
    """The field of the task, from the head of the agent's policy; ``-`` where there is none."""
    first = str(messages[0].get("content") or "") if messages else ""
    found = _DOMAIN.match(first.lstrip())
    return found[1].lower() if found else "-"


def _integer(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100_000:
        raise BadTrace(f"{name} is a whole number from 0 on")
    return value


# --- Reflexion


def _reflexion(entry: dict[str, Any]) -> ToolExecution:
    name, notes, solved = entry.get("name"), entry.get("memory"), entry.get("is_success")
    if not isinstance(name, str) or not name or not isinstance(solved, bool):
        raise BadTrace("an attempt has a name and is_success, true or false")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise BadTrace("memory is a list of texts")
    # The last note of a failed attempt was written after it, so it is no part of what was known before.
    before = notes if solved else notes[:-1]
    place = re.search(r"\d{1,5}", name)
    ts = EPOCH + timedelta(days=len(before), minutes=int(place[0]) if place else 0)
    features: dict[str, FeatureValue] = {"reflections": float(len(before))}
    if before:
        features |= {
            "note_words": float(len(before[-1].split())),
            "note_of_loop": "loop" in before[-1].lower(),
            "note_repeats": before[-1] in before[:-1],
        }
    return ToolExecution.model_validate(
        {
            "event_id": content_id("event", "agent-trace", "reflexion", name, *notes, solved),
            "tool": ATTEMPT,
            "action": Action.CALL,
            "agent_id": "reflexion",
            "pair": "reflexion",
            "status": Status.SUCCESS if solved else Status.FAILED,
            "error": None if solved else UNSOLVED,
            "reward": "1" if solved else "0",
            "ts_decision": ts,
            "ts_executed": ts,
            "ts_unit": "iso",
            "features": features,
        }
    )
