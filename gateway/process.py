"""Decisions about a whole process, made once by an entry point before numpy is imported and threads start."""

from __future__ import annotations

import os
import sys

from stores.heap import one_arena

SWITCH_S = 0.0005
"""An inference runs outside the interpreter and wants back in when it is done. Python's default lets a busy stage keep it waiting
for 5 ms, which is as long as the inference took."""


def settle() -> None:
    """One malloc arena (see ``stores/heap.py``), one BLAS thread, quick turns at the interpreter.

    The matrices here are small. A second BLAS thread gains nothing on them and spins between calls, which takes a core away from
    the embedding model: mining took three times the CPU with it. A value that the user set is kept.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.setswitchinterval(SWITCH_S)
    one_arena()


def settle_for_stores() -> None:
    """``settle``, and LanceDB imported without what is never used here (see ``stores/episodes/engine.py``): 90 MB less.

    Only for processes that are ours: the remote catalogue of LanceDB does not work in them afterwards.
    """
    from stores.episodes.engine import lean_import

    settle()
    lean_import()
