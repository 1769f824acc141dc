"""The base of every contract: frozen, versioned, unknown fields kept.

Wire form is UTF-8 JSON. A contract is written with orjson and its fields in declaration order, so the same value always
gives the same bytes. Unknown fields survive a round trip: a newer producer's additions pass through an older reader.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Self

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


def _known_major(value: str) -> str:
    major, _, _ = value.partition(".")
    if major != "1":
        raise PydanticCustomError(
            "unknown_version",
            "schema_version {version} has a major version this reader does not know; it reads 1.x",
            {"version": value[:32]},
        )
    return value


SchemaVersion = Annotated[str, AfterValidator(_known_major)]
"""``major.minor``. A reader accepts any minor of a major it knows; another major is dead-lettered, never guessed at."""


def compact(plain: dict[str, Any]) -> bytes:
    """JSON values as compact UTF-8, whatever the size of their integers; ``pydantic_core.from_json`` reads them as they were.

    >>> compact({"raw": 2**65})
    b'{"raw":36893488147419103232}'
    """
    try:
        return orjson.dumps(plain)
    except TypeError:  # an unknown field that was kept holds an integer over 64 bits, which orjson does not write
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


class Contract(BaseModel):
    """A frozen value with a schema version that keeps fields it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        allow_inf_nan=False,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="null",
    )

    schema_version: SchemaVersion = "1.0"

    wire_name: ClassVar[str] = ""

    def to_wire(self) -> bytes:
        """The record's value: compact UTF-8 JSON.

        >>> Contract().to_wire()
        b'{"schema_version":"1.0"}'
        """
        return compact(self.model_dump(mode="json", exclude_none=True))

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """The contract held by parsed JSON.

        Raises:
            pydantic.ValidationError: the JSON does not fit the contract.
        """
        return cls.model_validate(plain)


class Part(BaseModel):
    """A frozen piece of a contract: same rules, no version of its own."""

    model_config = Contract.model_config
