"""Sources: files of real or simulated trades, read as tool executions.

``FORMATS`` names what ``ingest`` can read. Every record of a file comes out as a valid event or as a :class:`Rejected`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streams.sources import agent_traces, tool_executions, uniswap_v3
from streams.sources.base import Format, Item, Rejected, SourceError

FORMATS: dict[str, Format] = {
    "agent-trace": Format(
        name="agent-trace",
        summary="tau-bench results or a Reflexion trial: attempts of a tool-calling agent as JSON",
        own_contract=False,
        needs_pool=False,
        read=lambda lines, _pool: agent_traces.read(lines),
    ),
    "tool-executions": Format(
        name="tool-executions",
        summary="JSON lines of the tool-execution contract",
        own_contract=True,
        needs_pool=False,
        read=lambda lines, _pool: tool_executions.read(lines),
    ),
    "uniswap-v3-events": Format(
        name="uniswap-v3-events",
        summary="JSON lines of a Uniswap v3 pool's SWAP, MINT and BURN events; wants --pool",
        own_contract=False,
        needs_pool=True,
        read=uniswap_v3.read_described,
    ),
}


def read_file(path: Path, format_name: str, pool: Path | None = None) -> Iterator[Item]:
    """The items of a file, one a record, in the file's order.

    A file is read as it goes; of each event that brings no identity of its own a number is kept, some 150 bytes. A file of agents'
    traces is held as a whole.

    Raises:
        SourceError: unknown format, no pool description where one is needed, or one that cannot be read.
        OSError: the file cannot be opened.
    """
    source = FORMATS.get(format_name)
    if source is None:
        raise SourceError(f"unknown format {format_name!r}; known: {', '.join(sorted(FORMATS))}")
    if source.needs_pool and pool is None:
        raise SourceError(f"format {format_name} needs a pool description (pool.json)")
    described = pool.read_bytes() if pool is not None and source.needs_pool else None
    return _lines(path, source, described)


def _lines(path: Path, source: Format, described: bytes | None) -> Iterator[Item]:
    with path.open("rb") as lines:
        yield from source.read(lines, described)


__all__ = ["FORMATS", "Format", "Item", "Rejected", "SourceError", "read_file"]
