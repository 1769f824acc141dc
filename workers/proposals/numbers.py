"""Numbers in free text, and whether what is known bears them out (law 7).

Everything that can be read as a number is taken for one: digits of any script, with signs, separators, exponents, multipliers
(``5k``), and the words for small ones. What holds a digit and is neither a number nor a known name makes the text unreadable.
Failing to understand is a refusal, so a trick in the writing costs the text, never the truth.

A shown number is borne out by a known value when that value, in the shown unit, rounds to it in the shown number of places, and by
rounding moves no more than 5 %: 41.27 bears "41" and "41.3", but 4.27 does not bear "4", nor 0.4 "0". Half up and half even both
count. Per cent and basis points are converted where the known value's unit allows it (41 bps are 0.41 %; a rate of 0.084 is
8.4 %); a number without a unit may stand for the value as it is known. A sign that is shown must be right; one that is not shown is
taken for plus, but for an effect, whose sign the words say otherwise ("lower").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from typing import Literal

Unit = Literal["plain", "bps", "rate", "share"]
"""What a known value is in. ``rate`` is 0 … 1 and said in per cent; ``share`` is a number that may be said in per cent."""

FAR = Decimal("0.05")
_LONGEST = 40

_NUMBER = re.compile(
    r"""
    (?P<sign>[-+\u2212]?)
    (?P<digits>\d{1,3}(?:[,'\u2019]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)
    (?:[eE](?P<exponent>[-+]?\d{1,3}))?
    (?:(?P<multiple>k|K|m|M|bn|thousand|million|billion)\b|[ ](?P<spoken>thousand|million|billion|hundred)\b)?
    (?:[ ]?(?P<unit>%|per[ ]?cent\b|percent\b|bps\b|bp\b|basis[ ]points?\b|\u2030))?
    """,
    re.VERBOSE,
)
_MULTIPLES = {"k": 3, "K": 3, "thousand": 3, "m": 6, "M": 6, "million": 6, "bn": 9, "billion": 9, "hundred": 2}
_WORDS = {
    "zero": "0", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15", "sixteen": "16",
    "seventeen": "17", "eighteen": "18", "nineteen": "19", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50",
    "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90", "hundred": "100", "thousand": "1000", "million": "1000000",
    "dozen": "12", "half": "0.5", "halves": "0.5", "halved": "0.5", "third": "0.333", "quarter": "0.25", "twice": "2",
    "double": "2", "doubled": "2", "doubling": "2", "twofold": "2", "triple": "3", "tripled": "3", "thrice": "3",
    "threefold": "3", "tenfold": "10",
}  # fmt: skip
_SPELT = re.compile(rf"\b(?:{'|'.join(_WORDS)})s?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Known:
    """A value of the evidence. ``unsigned``: may be said without its minus."""

    value: Decimal
    unit: Unit = "plain"
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """A number of the text: the value, the weight of its last digit, and the unit that it was said in."""

    text: str
    value: Decimal
    step: Decimal
    unit: Literal["", "%", "bps"]
    signed: bool


class Unreadable(ValueError):
    """There is something in a text that may be a number and cannot be read."""


def read(text: str, names: Iterable[str] = ()) -> list[Shown]:
    """Every number in a text, in order. ``names`` are taken out first, the longest first: digits in them are names. A name without
    a letter is none: it would take a number out.

    >>> [(f"{one.value:f}", one.unit) for one in read("41 bps at 1,200.5 against -0.3 %, n = 2k")]
    [('41', 'bps'), ('1200.5', ''), ('-0.3', '%'), ('2000', '')]

    Raises:
        Unreadable: something holds a digit and is no number.
    """
    if any(unicodedata.category(character) in ("No", "Nl") for character in text):
        raise Unreadable("a raised, lowered, broken or Roman number")
    text = unicodedata.normalize("NFKC", text)
    for name in sorted({unicodedata.normalize("NFKC", one) for one in names if any(map(str.isalpha, one))}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "\x00", text, flags=re.IGNORECASE)
    found: list[tuple[int, Shown]] = []
    left = list(text)
    for match in _NUMBER.finditer(text):
        before = text[match.start() - 1] if match.start() else " "
        after = text[match.end()] if match.end() < len(text) else " "
        following = text[match.end() + 1] if match.end() + 1 < len(text) else " "
        joined = (
            before.isalnum()
            or before in "_.#/\\"
            or after.isalnum()
            or after in "_#/\\"
            or (after in ".,:" and following.isdigit())
        )
        if joined or len(match["digits"]) > _LONGEST:
            raise Unreadable(match[0][:_LONGEST])
        if match["sign"] and before not in " ([\x00":  # a dash between two numbers is a range
            raise Unreadable(f"{before}{match[0]}"[:_LONGEST])
        found.append((match.start(), _shown(match)))
        left[match.start() : match.end()] = " " * (match.end() - match.start())
    rest = "".join(left)
    if any(character.isnumeric() for character in rest):
        raise Unreadable("a digit that is no number")
    for match in _SPELT.finditer(rest):
        word = match[0].lower()
        value = Decimal(_WORDS.get(word) or _WORDS[word[:-1]])
        found.append((match.start(), Shown(match[0], value, Decimal(1).scaleb(int(value.as_tuple().exponent)), "", False)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _shown(match: re.Match[str]) -> Shown:
    digits = re.sub(r"[,'\u2019]", "", match["digits"])
    scale = int(match["exponent"] or 0)
    for name in (match["multiple"], match["spoken"]):
        scale += _MULTIPLES.get(name, 0)
    plain = Decimal(digits)  # Decimal reads digits of any script
    step = Decimal(1).scaleb(int(plain.as_tuple().exponent) + scale)
    with localcontext() as context:
        context.prec = 60
        value = plain.scaleb(scale)
    unit = match["unit"] or ""
    if unit == "\u2030":
        raise Unreadable(match[0])
    said: Literal["", "%", "bps"] = "" if not unit else "%" if unit[0] in "%p" else "bps"
    negative = match["sign"] in ("-", "\u2212")
    return Shown(match[0].strip(), -value if negative else value, step, said, bool(match["sign"]))


def borne_out(shown: Shown, known: Iterable[Known]) -> bool:
    """Whether one of the known values is what a shown number says."""
    return any(_rounds_to(value, shown) for one in known for value in _as_said(one, shown))


def unsupported(text: str, known: Sequence[Known], names: Iterable[str] = ()) -> list[str]:
    """The numbers of a text that no known value bears out; what cannot be read counts as one.

    >>> unsupported("41 bps in 96 trades, 12 % worse", [Known(Decimal("41.27"), "bps"), Known(Decimal(96))])
    ['12 %']
    """
    try:
        return [shown.text for shown in read(text, names) if not borne_out(shown, known)]
    except Unreadable as error:
        return [str(error)]


def _as_said(known: Known, shown: Shown) -> list[Decimal]:
    """A known value in the unit that a number was said in."""
    values: list[Decimal] = []
    if not shown.unit or shown.unit == known.unit == "bps":
        values = [known.value]
    elif shown.unit == "%" and known.unit in ("rate", "share"):
        values = [known.value * 100]
    elif shown.unit == "%" and known.unit == "bps":
        values = [known.value / 100]
    elif shown.unit == "bps" and known.unit in ("rate", "share"):
        values = [known.value * 10_000]
    return [*values, *(abs(value) for value in values if known.unsigned and not shown.signed)]


def _rounds_to(value: Decimal, shown: Shown) -> bool:
    if value == shown.value:
        return True
    if abs(value - shown.value) > FAR * abs(value):
        return False
    with localcontext() as context:
        context.prec = 60
        return any(
            (value / shown.step).to_integral_value(rounding) * shown.step == shown.value
            for rounding in (ROUND_HALF_UP, ROUND_HALF_EVEN)
        )
