"""The one family of errors that reach a person: what is wrong, where, and what to do."""

from __future__ import annotations


class BrainError(Exception):
    """A failure with a hint. Command lines show both in a line each and no traceback; APIs put them into the reason.

    >>> str(BrainError("the log is locked", hint="stop the other process"))
    'the log is locked'
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
