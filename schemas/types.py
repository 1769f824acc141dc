"""Exact scalar types: raw token amounts, moments, chains, addresses, finite numbers.

Each refuses what has cost other systems money, with a named error (see ``docs/contracts.md``): a float that cannot hold an
integer exactly, a naive timestamp, a symbol with control characters.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

UINT256_MAX = 2**256 - 1
FLOAT_EXACT_MAX = 2**53
DECIMAL_REACH = 100
SENTINEL_AMOUNTS = frozenset({2**255, UINT256_MAX})
"""Amounts that mean "all" or "no limit" in contracts' calls, never an executed amount."""

_DIGITS = re.compile(r"[0-9]{1,78}\Z")


def _raw_amount(value: Any) -> int:
    if isinstance(value, bool):
        raise PydanticCustomError("raw_amount", "a raw amount is an integer, not a boolean")
    if isinstance(value, float):
        if not value.is_integer() or abs(value) > FLOAT_EXACT_MAX:
            raise PydanticCustomError(
                "inexact_amount",
                "a raw amount came as a float that cannot hold it exactly; send it as text",
            )
        value = int(value)
    elif isinstance(value, str):
        if not _DIGITS.match(value):
            raise PydanticCustomError("raw_amount", "a raw amount in text is decimal digits only")
        value = int(value)
    if not isinstance(value, int):
        raise PydanticCustomError("raw_amount", "a raw amount is an integer or decimal digits in text")
    if not 0 <= value <= UINT256_MAX:
        raise PydanticCustomError("amount_out_of_range", "a raw amount lies in 0 … 2^256-1")
    return value


RawAmount = Annotated[
    int,
    BeforeValidator(_raw_amount),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": "^[0-9]{1,78}$"}, {"type": "integer", "minimum": 0}],
            "description": "integer in the token's smallest unit, 0 … 2^256-1; written as text",
        }
    ),
]
"""An integer amount in the token's smallest unit; text in JSON, because JSON numbers lose digits over 2^53."""


def moment(value: Any) -> tuple[datetime, str]:
    """A UTC moment and the unit it came in: ``iso``, ``s``, ``ms`` or ``us``.

    Numbers are Unix time; the unit is inferred by range (seconds below 10^11, milliseconds below 10^14, else
    microseconds), so every moment from 1970 to 5138 reads back as meant.

    >>> moment(1651833550758)[1], moment(1651833550)[0].isoformat()
    ('ms', '2022-05-06T10:39:10+00:00')

    Raises:
        PydanticCustomError: ``naive_timestamp``, ``bad_timestamp``.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise PydanticCustomError("naive_timestamp", "a timestamp without a time zone is ambiguous; add Z or +00:00")
        try:
            return value.astimezone(UTC), "iso"
        except OverflowError:  # the first or last hours there are, in a zone that puts them outside
            raise PydanticCustomError("bad_timestamp", "a timestamp lies in the years 1 to 9999, in UTC") from None
    if isinstance(value, bool) or value is None:
        raise PydanticCustomError("bad_timestamp", "a timestamp is ISO 8601 with a zone, or Unix time as a number")
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("bad_timestamp", "a timestamp is ISO 8601 with a zone, or Unix time as a number") from None
        if "T" not in value and " " not in value:
            raise PydanticCustomError("bad_timestamp", "a date without a time of day is not a moment")
        return moment(parsed)
    if isinstance(value, (int, float, Decimal)):
        return _unix_moment(value)
    raise PydanticCustomError("bad_timestamp", "a timestamp is ISO 8601 with a zone, or Unix time as a number")


def _unix_moment(value: int | float | Decimal) -> tuple[datetime, str]:
    exact = Decimal(str(value))
    if not exact.is_finite() or exact < 0:
        raise PydanticCustomError("bad_timestamp", "Unix time is a finite number from 1970 on")
    unit, scale = ("s", 10**6) if exact < 10**11 else ("ms", 10**3) if exact < 10**14 else ("us", 1)
    micros = int(exact * scale)
    seconds, rest = divmod(micros, 10**6)
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest), unit
    except (ValueError, OverflowError, OSError):
        raise PydanticCustomError("bad_timestamp", "Unix time lies beyond the year 9999") from None


def iso(value: datetime) -> str:
    """RFC 3339 in UTC with microseconds only where there are any.

    >>> iso(moment(0)[0])
    '1970-01-01T00:00:00Z'
    """
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Moment = Annotated[
    datetime,
    BeforeValidator(lambda value: moment(value)[0]),
    PlainSerializer(iso, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "number", "minimum": 0}],
            "description": "RFC 3339 with a zone, or Unix time in s, ms or µs; written as RFC 3339 UTC",
        }
    ),
]
"""A moment in UTC. A naive timestamp is refused."""


def chain_number(value: Any) -> int:
    """An EIP-155 chain id from any of its spellings.

    >>> {chain_number(spelling) for spelling in (1, "1", "0x1", "eip155:1")}
    {1}

    Raises:
        PydanticCustomError: ``chain_id``.
    """
    if isinstance(value, str):
        text = value.removeprefix("eip155:")
        try:
            value = int(text, 16) if text.lower().startswith("0x") else int(text)
        except ValueError:
            raise PydanticCustomError("chain_id", 'a chain is 1, "1", "0x1" or "eip155:1"') from None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise PydanticCustomError("chain_id", 'a chain is a positive integer: 1, "1", "0x1" or "eip155:1"')
    return value


ChainId = Annotated[
    int,
    BeforeValidator(chain_number),
    WithJsonSchema({"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string"}], "description": "EIP-155"}),
]
"""An EIP-155 chain id: accepts 1, "1", "0x1" and "eip155:1"."""

_ADDRESS = re.compile(r"0x[0-9a-f]{40}\Z")
_HASH = re.compile(r"0x[0-9a-f]{64}\Z")


def _hex(pattern: re.Pattern[str], name: str) -> Any:
    def check(value: Any) -> str:
        if isinstance(value, (bytes, bytearray)):
            value = "0x" + bytes(value).hex()
        if not isinstance(value, str) or not pattern.match(value.lower()):
            raise PydanticCustomError(
                name,
                "{name} is 0x and {digits} hexadecimal digits",
                {
                    "name": name,
                    "digits": 40 if pattern is _ADDRESS else 64,
                },
            )
        return value.lower()

    return check


Address = Annotated[str, BeforeValidator(_hex(_ADDRESS, "address")), Field(pattern=r"^0x[0-9a-fA-F]{40}$")]
"""A 20-byte address, kept in lower case."""
Hash32 = Annotated[str, BeforeValidator(_hex(_HASH, "hash")), Field(pattern=r"^0x[0-9a-fA-F]{64}$")]
"""A 32-byte hash, kept in lower case."""


def clean_symbol(value: Any) -> str:
    """A token's display symbol without padding and control characters; for display only, never for identity.

    >>> clean_symbol("WETH\\x00\\x00")
    'WETH'
    """
    if not isinstance(value, str):
        raise PydanticCustomError("symbol", "a symbol is text")
    kept = "".join(ch for ch in value if ch.isprintable() and ch not in "\ufffd:/")
    return kept.strip()[:32] or "?"


Symbol = Annotated[str, BeforeValidator(clean_symbol)]


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "a number, not a boolean")
    if isinstance(value, (int, float, str, Decimal)):
        try:
            exact = Decimal(str(value))
        except InvalidOperation:
            raise PydanticCustomError("number", "not a number") from None
        if not exact.is_finite():
            raise PydanticCustomError("not_finite", "NaN and infinity are refused")
        if exact and not -DECIMAL_REACH <= exact.adjusted() <= DECIMAL_REACH:
            raise PydanticCustomError("number", "a number beyond 1e±100 is an error, and its plain text could be a megabyte")
        return exact
    raise PydanticCustomError("number", "a number, or a number in text")


def _plain(value: Decimal) -> str:
    return format(value.normalize(), "f") if value else "0"


Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A number of things: blocks, gas, log indexes. Fits every store."""

ExactDecimal = Annotated[
    Decimal,
    BeforeValidator(_decimal),
    PlainSerializer(_plain, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "description": "finite decimal; written as text"}),
]
"""A finite decimal number; text in JSON. Money, prices and thresholds are these."""

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9_.\-]*$")]
"""A machine name: lower case, starts with a letter."""


def _no_nul(value: str) -> str:
    if "\x00" in value:
        raise PydanticCustomError("nul_in_text", "text with a NUL character is refused")
    return value


Label = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_no_nul)]
"""A short name for people or other systems."""
Text = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_no_nul)]
"""Words of people or agents."""
