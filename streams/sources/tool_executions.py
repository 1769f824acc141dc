"""JSON lines of our own contract.

A line that brings no identity (no ``event_id``, no transaction) is identified by its whole content, so reading a file again
changes nothing. Two identical lines in one file are two events: the second and later ones get their occurrence number mixed
into the id.

A line is read as it is or not at all: one that the program would write larger than anybody reads (``1e15`` becomes
``1000000000000000.0``) is rejected, and whoever puts it onto the log as it came has it taken from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from schemas.codec import MAX_VALUE_BYTES, ContractError, decode, parse
from schemas.events import ToolExecution
from schemas.identity import content_id
from streams.sources.base import Item, Rejected, numbered

_GROWTH = 8
"""JSON does not grow more than this when it is written again: the worst are numbers, four times."""


def read(lines: Iterable[bytes]) -> Iterator[Item]:
    """One item a line. Rejections carry the codec's reasons (``not_json``, ``same_token``, ``unknown_version``, …)."""
    seen: Counter[int] = Counter()
    for line_no, raw in numbered(lines):
        try:
            event: ToolExecution = decode("tool-execution", raw)
            plain = parse(raw)
        except ContractError as error:
            yield Rejected(line_no, raw, error.reason, error.detail)
            continue
        if len(raw) > MAX_VALUE_BYTES // _GROWTH and (size := len(event.to_wire())) > MAX_VALUE_BYTES:
            yield Rejected(line_no, raw, "too_large", f"{size} bytes when it is written; at most {MAX_VALUE_BYTES} are read")
            continue
        yield event if _identified(plain) else _occurrence(event, seen)


def _identified(plain: dict[str, Any]) -> bool:
    return bool(plain.get("event_id")) or (plain.get("tx_hash") is not None and plain.get("chain_id") is not None)


def _occurrence(event: ToolExecution, seen: Counter[int]) -> ToolExecution:
    # 64 bits of the id are kept, not the id: a file of millions of lines must not fill the memory with text.
    mark = int(event.event_id[:18].replace("-", ""), 16)
    seen[mark] += 1
    if seen[mark] == 1:
        return event
    return event.model_copy(update={"event_id": content_id("event", event.event_id, "occurrence", seen[mark])})
