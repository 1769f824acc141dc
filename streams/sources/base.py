"""What a source is: a file of somebody's records, read as tool executions, losing nothing.

A reader yields one item for each record: a valid :class:`~schemas.events.ToolExecution`, or a :class:`Rejected` with the
original bytes and the reason. It never stops at a bad line; only a file that cannot be opened, or a source that is described
wrongly, raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from schemas.codec import NAMED_REASONS
from schemas.errors import BrainError
from schemas.events import ToolExecution


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that is no tool execution. ``line_no`` counts from 1; ``raw`` is the line without its end; ``reason`` is a code."""

    line_no: int
    raw: bytes
    reason: str
    detail: str


Item = ToolExecution | Rejected


class SourceError(BrainError, ValueError):
    """The source itself is described wrongly (no pool given, a pool file that is none): nothing can be read from it."""


@dataclass(frozen=True, slots=True)
class Format:
    """One input format.

    ``own_contract`` says that the lines are meant as our own contract: a rejected one belongs on the log as it came, where the
    pipeline dead-letters it. Otherwise the caller counts and reports it. ``needs_pool`` says that ``read`` wants the bytes of a
    pool description.
    """

    name: str
    summary: str
    own_contract: bool
    needs_pool: bool
    read: Callable[[Iterable[bytes], bytes | None], Iterator[Item]]


def numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, ends stripped; blank lines are no records."""
    for number, line in enumerate(lines, start=1):
        stripped = line.rstrip(b"\r\n")
        if stripped.strip():
            yield number, stripped


def why(error: ValidationError) -> tuple[str, str]:
    """The first problem of a value that does not fit its contract, as (reason, detail); the codec's names are used."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    reason = first["type"] if first["type"] in NAMED_REASONS else "contract_violation"
    return reason, f"{where + ': ' if where else ''}{first['msg']}"[:1000]
