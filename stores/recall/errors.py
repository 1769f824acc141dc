"""What can be wrong with a question to the memory."""

from __future__ import annotations

from schemas.errors import BrainError


class BadRecall(BrainError, ValueError):
    """The caller asked for something that has no meaning: a limit under 1, a time without a zone, an unknown recipe."""
