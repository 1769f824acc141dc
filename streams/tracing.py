"""Trace contexts (W3C Trace Context, level 1) along the records: whose child a record is, found anew from what it came of.

A producer may give a record a ``traceparent``. What a stage makes of it belongs to the same trace, as a child whose span id follows
from the parent and the stage's name and from nothing else: a batch that is handled again after a crash sends the same context, and
a fold's emissions stay a function of its records. So a trace reads producer → embed → distil → writer → whoever reads the update.

Nothing here exports spans; ``gateway/tracing.py`` does, where an endpoint is set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

_SHAPE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")
_ZEROS = ("0" * 32, "0" * 16)
SAMPLED = 1


@dataclass(frozen=True, slots=True)
class Context:
    """A trace context: which trace, whose child, and whether it is kept."""

    trace_id: str
    span_id: str
    flags: int

    @property
    def sampled(self) -> bool:
        """Whether somebody wants to see this trace."""
        return bool(self.flags & SAMPLED)

    @property
    def text(self) -> str:
        """As the header has it."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def parsed(text: str | None) -> Context | None:
    """The context of a ``traceparent``; None where there is none, or none that is valid, which starts no trace and harms nothing.

    >>> parsed("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").sampled
    True
    """
    found = _SHAPE.match(text) if text else None
    if found is None or found[1] == _ZEROS[0] or found[2] == _ZEROS[1]:
        return None
    return Context(found[1], found[2], int(found[3], 16))


def child(parent: Context, stage: str) -> Context:
    """The context of what a stage does with a record of this one."""
    span_id = sha256(f"{parent.trace_id}/{parent.span_id}/{stage}".encode()).hexdigest()[:16]
    return Context(parent.trace_id, span_id, parent.flags)


def handed_on(traceparent: str | None, stage: str) -> str | None:
    """The ``traceparent`` of what a stage makes of a record that has this one."""
    parent = parsed(traceparent)
    return None if parent is None else child(parent, stage).text


def root(name: str, ratio: float) -> str | None:
    """The ``traceparent`` of a record that came without one; None for the share of ``1 - ratio`` that nobody follows.

    Which records are followed depends on their names (an event's id) alone.

    >>> root("event-1", 1.0) == root("event-1", 1.0), root("event-1", 0.0)
    (True, None)
    """
    digest = sha256(f"trace/{name}".encode()).hexdigest()
    if int(digest[:8], 16) >= ratio * 2**32:
        return None
    return Context(digest[8:40], digest[40:56], SAMPLED).text
