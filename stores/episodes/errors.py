"""What can be wrong with the episode store."""

from __future__ import annotations

from schemas.errors import BrainError


class EpisodeStoreError(BrainError):
    """The store is missing, held by another process, made by another model or for another log, or damaged."""
