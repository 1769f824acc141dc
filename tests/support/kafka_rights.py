"""The table of rights in docs/kafka.md."""

from __future__ import annotations

import re
from pathlib import Path

from schemas.topics import BY_NAME

ROW = re.compile(r"^\| (?P<role>[^|]+) \| (?P<topics>(?:R|W) [^|]+) \| (?P<groups>[^|]+) \|$", re.MULTILINE)


def documented() -> dict[str, dict[str, list[str]]]:
    """Role → {"R": topics, "W": topics} out of the table."""
    table = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
    rights: dict[str, dict[str, list[str]]] = {}
    for row in ROW.finditer(table):
        rights[row["role"].strip("`")] = found = {"R": [], "W": []}
        for right, names in re.findall(r"(R|W) ([^;]+)", row["topics"]):
            for name in re.findall(r"`([^`]+)`", names.split(", W")[0]):
                found[right] += [topic for topic in BY_NAME if topic in (name, f"brain.{name}.v1")]
            for name in re.findall(r"W `([^`]+)`", names):
                found["W"] += [topic for topic in BY_NAME if topic in (name, f"brain.{name}.v1")]
    return rights
