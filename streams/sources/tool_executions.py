"""JSON lines of our own contract.

A line that brings no identity (no ``event_id``, no transaction) is identified by its whole content, so reading a file again
changes nothing. Two identical lines in one file are two events: the second and later ones get their occurrence number mixed
into the id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from schemas.codec import ContractError, decode, parse
from schemas.events import ToolExecution
from schemas.identity import content_id
from streams.sources.base import Item, Rejected, numbered


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
