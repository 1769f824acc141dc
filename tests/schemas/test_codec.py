"""Bytes to contracts: every refusal has its name, nothing else is ever raised, nothing is lost on the way back."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import CONTRACTS, MAX_VALUE_BYTES, ContractError, decode, encode
from schemas.events import ToolExecution
from tests.support.events import accepted, executions, swap, wire


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
