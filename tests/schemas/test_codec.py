"""Bytes to contracts: every refusal has its name, nothing else is ever raised, nothing is lost on the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import CONTRACTS, FROM_OUTSIDE, MAX_OWN_BYTES, MAX_VALUE_BYTES, ContractError, decode, encode
from schemas.events import ToolExecution
from schemas.windows import MAX_ROWS, WindowClosed
from tests.support.events import accepted, executions, swap, wire
from tests.support.whole import SAMPLES


def reason_of(value: bytes | None, carries: str = "tool-execution") -> str:
    with pytest.raises(ContractError) as caught:
        decode(carries, value)
    assert len(caught.value.detail) <= 1000
    return caught.value.reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null_value"),
        (b"", "not_json"),
        (b"hello", "not_json"),
        (b'{"tool": "swap"', "not_json"),
        (b"null", "not_object"),
        (b"[]", "not_object"),
        (b'"text"', "not_object"),
        (b"\xff\xfe", "not_utf8"),
        (b'{"tool": "\xc3\x28"}', "not_utf8"),
        (b"\x00\x00\x00\x00\x07{}", "confluent_framed"),
        (b'{"reward": NaN}', "not_finite"),
        (b'{"reward": -Infinity}', "not_finite"),
        (b"{" + b" " * MAX_VALUE_BYTES + b"}", "too_large"),
        (b"{}", "contract_violation"),
        (b"[" * 100_000, "not_json"),
    ],
)
def test_what_is_no_contract_is_named(value: bytes | None, reason: str) -> None:
    assert reason_of(value) == reason


def test_what_the_pipeline_makes_may_be_larger_than_what_it_is_made_of() -> None:
    rows = [f"{n:036}" for n in range(MAX_ROWS)]
    features = {f"feature_{n}": tuple("\U0001f600" * 128 for _ in rows) for n in range(32)}
    window = WindowClosed(
        id="w", key="k", tool="t", label="l", action="call", source=0, sequence=0, start_ms=0, end_ms=1, episodes=len(rows),
        ids=tuple(rows), ts_ms=tuple(range(len(rows))), labels=features,
    )  # fmt: skip
    assert MAX_VALUE_BYTES < len(encode(window)) < MAX_OWN_BYTES
    assert decode("window-closed", encode(window)) == window
    assert reason_of(b"{" + b" " * MAX_OWN_BYTES + b"}", "window-closed") == "too_large"


@pytest.mark.parametrize(("version", "reason"), [("2.0", "unknown_version"), ("", "unknown_version"), ("10.1", "unknown_version")])
def test_another_major_version_is_named_even_when_more_is_wrong(version: str, reason: str) -> None:
    assert reason_of(orjson.dumps({"schema_version": version, "status": 7})) == reason


def test_a_later_minor_version_is_read() -> None:
    assert accepted(schema_version="1.7").schema_version == "1.7"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_contract_or_a_named_refusal(value: bytes) -> None:
    for carries in CONTRACTS:
        with pytest.raises(ContractError):
            decode(carries, value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(ToolExecution.model_fields)), json_values)
def test_any_value_in_any_field_is_accepted_or_refused_by_name(field: str, value: object) -> None:
    try:
        event = decode("tool-execution", json.dumps({**swap(), field: value}).encode())
    except ContractError:
        return
    assert decode("tool-execution", encode(event)) == event


@given(executions())
def test_what_is_written_reads_back_the_same(event: ToolExecution) -> None:
    again = decode("tool-execution", encode(event))
    assert again == event
    assert encode(again) == encode(event)
    assert again.key == event.key


@given(st.dictionaries(st.from_regex(r"\Ax_[a-z]{1,8}\Z"), json_values, max_size=3))
def test_fields_that_are_not_known_are_kept(extra: dict[str, object]) -> None:
    back = json.loads(encode(decode("tool-execution", wire(**extra))))
    assert {name: back.get(name) for name in extra} == extra


def test_an_unknown_field_may_hold_an_integer_beyond_64_bits_but_not_beyond_reading() -> None:
    assert str(2**200).encode() in encode(accepted(note=2**200))
    absurd = wire(note=77777).replace(b"77777", b"9" * 5000)
    assert reason_of(absurd) in ("not_json", "contract_violation")


EXTREME = (
    None, True, -1, 5e-324, 1.7e308, 10**30, -(10**30), "", "\x00", "1e100", "1e-99", "9" * 200, [], {}, [None], {"a": None},
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00",
)  # fmt: skip


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where the single values of a document stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, one in inner:
        yield (*path, step)
        yield from leaves(one, (*path, step))


def changed(value: Any, path: tuple[str | int, ...], to: object) -> Any:
    """The document with another value at a place."""
    copy: Any = json.loads(json.dumps(value))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return copy


@pytest.mark.parametrize(("carries", "whole"), SAMPLES, ids=lambda one: one if isinstance(one, str) else one.get("kind", "whole"))
def test_an_extreme_value_at_any_depth_is_accepted_or_refused_by_name(carries: str, whole: dict[str, Any]) -> None:
    """Whatever else was raised would stop the pipeline at this record, each time that it is read."""
    decode(carries, json.dumps(whole).encode())
    for path in leaves(whole):
        for value in EXTREME:
            try:
                message = decode(carries, json.dumps(changed(whole, path, value)).encode())
            except ContractError:
                continue
            assert encode(decode(carries, encode(message))) == encode(message)


def test_every_contract_from_outside_has_a_sample() -> None:
    assert {name for name, _ in SAMPLES} == FROM_OUTSIDE
