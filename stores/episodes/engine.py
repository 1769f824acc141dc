"""LanceDB, imported late and, on request, lean.

``import lancedb`` takes a second and 118 MB, half of which this project never uses:

- pyarrow looks whether pandas is there, and by looking imports it (57 MB) where it is installed, as it is beside statsmodels;
- ``lancedb`` imports the client of a REST catalogue, some three hundred pydantic models (33 MB, half a second).

:func:`lean_import` imports LanceDB with both out of reach. Names that LanceDB takes from the client become empty classes, so the
remote catalogue does not work in that process afterwards; local tables do, and the store's tests run both ways. It is a decision
about a whole process, so only a composition root may take it; a library inside somebody's agent must not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from datetime import timedelta
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

INDEX_CACHE_BYTES = 32 << 20
"""LanceDB's cache of index pages; its default is gigabytes. At 100,000 episodes the text indexes have 30 MB, and a search over all
of them is five times as slow with 4 MB; resident memory is the same."""
METADATA_CACHE_BYTES = 8 << 20
"""Its cache of what tables consist of. With four times as much a process is 8 MB larger and a search not faster."""

ALWAYS = timedelta(0)
"""How long what was read of a table may be taken for new."""

_CLIENT = ("lance_namespace", "lance_namespace_urllib3_client")


def lean_import() -> bool:
    """Import LanceDB without what is never used here. Whether it was (False: somebody imported it whole before)."""
    if "lancedb" in sys.modules:
        return False
    finder = _OutOfReach()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("lancedb")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in _CLIENT]:
            del sys.modules[name]
    return True


def new_session() -> Any:
    """Caches that several connections may share."""
    import lancedb

    return lancedb.Session(INDEX_CACHE_BYTES, METADATA_CACHE_BYTES)


def connect(folder: Path, session: Any) -> Any:
    """A LanceDB connection whose every read sees the newest version."""
    import lancedb

    return lancedb.connect(folder, read_consistency_interval=ALWAYS, session=session)


async def connect_async(folder: Path, session: Any) -> Any:
    """The same for asynchronous questions."""
    import lancedb

    return await lancedb.connect_async(folder, read_consistency_interval=ALWAYS, session=session)


class _OutOfReach(MetaPathFinder, Loader):
    """Answers for pandas that it is not there, and for the catalogue's client with modules of empty classes."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        root = name.partition(".")[0]
        if root == "pandas" and "pandas" not in sys.modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return ModuleSpec(name, self, is_package=True) if root in _CLIENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyClasses(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: its names are made when they are asked for."""


class _EmptyClasses(ModuleType):
    def __getattr__(self, name: str) -> type[Exception]:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Exception,), {})  # an exception, for some of these names are caught
        setattr(self, name, made)
        return made
