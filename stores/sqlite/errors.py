"""What can go wrong with the insight store, by whose fault."""

from __future__ import annotations

from schemas.errors import BrainError


class StoreError(BrainError):
    """The store cannot be used as it stands: missing, of another model, of another version, held by another process, damaged."""


class FencedOut(StoreError):
    """Another writer took the store over. Nothing of the transaction was written; stop this process."""


class BadQuery(StoreError, ValueError):
    """The caller asked for something that has no meaning: a wrong dimension, k out of bounds, a cursor that is not ours."""
