"""JSON Schemas of the contracts: ``python -m schemas.export`` writes them beside this file, ``--check`` only compares.

They describe what a producer may *send* (validation mode): a raw amount as text or as an integer, a moment in any of its spellings.
What is refused beyond a field's own shape (a swap without tokens, a stale oracle, …) no schema can say: ``schemas/events.py`` does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.codec import CONTRACTS

FOLDER = Path(__file__).parent / "json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def file_name(carries: str) -> str:
    """A contract's file: ``tool-execution`` → ``tool-execution.v1.json``."""
    return f"{carries}.v1.json"


def schema_of(carries: str) -> dict[str, Any]:
    """The JSON Schema of what a topic carries."""
    schema = CONTRACTS[carries].json_schema(mode="validation")
    return {"$schema": DIALECT, "$id": f"urn:defi-brain:{carries}:v1", **schema}


def rendered() -> dict[str, str]:
    """Every file's name and text."""
    return {file_name(carries): json.dumps(schema_of(carries), indent=2, ensure_ascii=False) + "\n" for carries in CONTRACTS}


def differences(folder: Path = FOLDER) -> list[str]:
    """Files that are missing, out of date or of no contract."""
    wanted = rendered()
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m schemas.export", description="JSON Schemas of the contracts")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs from its model")
    if parser.parse_args(arguments).check:
        stale = differences()
        if stale:
            sys.stderr.write(f"out of date: {', '.join(stale)}; run python -m schemas.export\n")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name in differences():
        (FOLDER / name).unlink(missing_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
