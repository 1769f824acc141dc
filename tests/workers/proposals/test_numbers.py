"""Numbers in free text against what is known: rounding, units, signs, and everything that could hide one."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.proposals.numbers import Known, Unreadable, borne_out, read, unsupported


def shown(text: str) -> list[tuple[str, str]]:
    return [(format(one.value, "f"), one.unit) for one in read(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("41 bps there", [("41", "bps")]),
        ("0.41 % or 0.41% or 0.41 percent or 0.41 per cent", [("0.41", "%")] * 4),
        ("1,234.5 and 1'234 and 12,345,678", [("1234.5", ""), ("1234", ""), ("12345678", "")]),
        ("-0.25 against −0.5 and +3", [("-0.25", ""), ("-0.5", ""), ("3", "")]),
        ("2k, 1.5M, 3 million, 2 hundred", [("2000", ""), ("1500000", ""), ("3000000", ""), ("200", "")]),
        ("1e3 and 2.5E-4", [("1000", ""), ("0.00025", "")]),
        ("(7) n=9; x:.5", [("7", ""), ("9", ""), ("0.5", "")]),
        ("twice as high, half of them, twenty-one", [("2", ""), ("0.5", ""), ("20", "")]),
        ("no number at all, not one", []),
        ("５ bps", [("5", "bps")]),
        ("٤١ bps", [("41", "bps")]),
        ("at 41.", [("41", "")]),
        ("10 basis points", [("10", "bps")]),
    ],
)
def test_reading(text: str, expected: list[tuple[str, str]]) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "v3 pools",
        "0xA1b2",
        "1/3 of them",
        "10-20 bps",
        "5th",
        "3x",
        "12:30",
        "1.2.3",
        "1,23 bps",
        "#7",
        "10²",
        "½ of it",
        "5‰",
        "a7",
        "١٢a",
    ],
)
def test_what_may_be_a_number_and_cannot_be_read_is_no_text(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text)


def test_names_are_no_numbers_and_numbers_are_no_names() -> None:
    assert [one.text for one in read("uniswap_v3 on WETH/USDC.e2 at 5", ["uniswap_v3", "WETH/USDC.e2"])] == ["5"]
    assert [one.text for one in read("5 bps", ["5"])] == ["5 bps"]
    with pytest.raises(Unreadable):
        read("xuniswap_v3", ["uniswap_v3"])


@pytest.mark.parametrize(
    ("text", "value", "unit", "fits"),
    [
        ("41", "41.27", "bps", True), ("41.3", "41.27", "bps", True), ("41.2", "41.27", "bps", False),
        ("42", "41.27", "bps", False), ("41 bps", "41.27", "bps", True), ("0.41 %", "41.27", "bps", True),
        ("0.4 %", "41.27", "bps", True), ("41 %", "41.27", "bps", False), ("8.4 %", "0.084", "rate", True),
        ("8 %", "0.084", "rate", True), ("0.084", "0.084", "rate", True), ("84 %", "0.084", "rate", False),
        ("840 bps", "0.084", "rate", True), ("1 %", "0.01", "share", True), ("1 bps", "0.01", "share", False),
        ("1", "0.01", "share", False), ("0.5", "0.5", "plain", True), ("50 %", "0.5", "plain", False),
        ("4", "4.27", "plain", False), ("0", "0.4", "plain", False), ("0", "0", "plain", True),
        ("1200", "1234", "plain", False), ("2.5", "2.45", "plain", True), ("2.4", "2.45", "plain", True),
        ("-0.3", "0.3", "plain", False), ("0.3", "-0.3", "plain", False), ("1.2k", "1234", "plain", True),
        ("0.5000", "0.5", "plain", True), ("5.00 %", "50", "bps", False), ("0.50 %", "50", "bps", True),
    ],
)  # fmt: skip
def test_bearing_out(text: str, value: str, unit: str, fits: bool) -> None:
    assert borne_out(read(text)[0], [Known(Decimal(value), unit)]) is fits  # type: ignore[arg-type]


def test_an_effect_may_be_said_without_its_minus_and_an_interval_may_not() -> None:
    assert not unsupported("an effect of 0.41", [Known(Decimal("-0.41"), unsigned=True)])
    assert unsupported("an effect of +0.41", [Known(Decimal("-0.41"), unsigned=True)]) == ["+0.41"]
    assert unsupported("from 0.02", [Known(Decimal("-0.02"))]) == ["0.02"]


FINITE = st.decimals("-1e6", "1e6", allow_nan=False, allow_infinity=False, places=6)


@given(FINITE, st.integers(0, 6), st.sampled_from(["{}", "{} bps", "it was {}, then", "({})", "{}."]))
@settings(max_examples=200, deadline=None)
def test_a_value_bears_its_own_roundings_unless_they_move_it_far(value: Decimal, places: int, form: str) -> None:
    rounded = value.quantize(Decimal(1).scaleb(-places))
    text = form.format(format(rounded, "f"))
    found = unsupported(text, [Known(value, "bps")])
    near = abs(rounded - value) <= abs(value) * Decimal("0.05") or rounded == value
    assert (not found) is near


@given(FINITE, FINITE)
@settings(max_examples=200, deadline=None)
def test_another_value_is_never_borne_out(one: Decimal, other: Decimal) -> None:
    """Whatever is accepted lies within half of its last place, and within 5 %, of the value."""
    shown_ = read(format(other, "f"))[0]
    if borne_out(shown_, [Known(one)]):
        assert abs(one - other) <= shown_.step / 2
        assert abs(one - other) <= abs(one) * Decimal("0.05")


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = read(text)
    except Unreadable:
        return
    if any(character.isdecimal() for character in text):
        assert found
    assert not unsupported(text, [Known(one.value, "bps") for one in found if not one.unit]) or any(one.unit for one in found)


@given(st.text(alphabet="0123456789.,-+%eExkKMbps \u2212\u00bd\u0664\uff15", min_size=1, max_size=30))
@settings(max_examples=400, deadline=None)
def test_nothing_with_a_digit_passes_where_nothing_is_known(text: str) -> None:
    """The heart of law 7: with no evidence no number can be said, however it is written."""
    if any(character.isnumeric() for character in text):
        assert unsupported(text, [])
