"""What the cores need from outside, as protocols: implementations are in ``stores`` and are passed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Text to normalised vectors.

    ``embed`` gives shape ``(len(texts), dimension)``, float32, rows of norm 1, and bit-identical rows for the same text whatever
    stands beside it in the batch.
    """

    model_id: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors in the order of ``texts``."""
        ...
