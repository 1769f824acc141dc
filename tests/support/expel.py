"""ExpeL's rule list, as its reference implementation has it (LeapLabTHU/ExpeL, ``agent/expel.py``), to compare with.

A rule is a text with a count. ADD starts at 2, AGREE and EDIT add 1, REMOVE takes 1, or 3 where the list is full. One round applies
its operations in the order REMOVE, AGREE, EDIT, ADD, whatever order they were proposed in; then rules at 0 or less are dropped and
the rest sorted by count, stably. Numbers are places in the list as it stood before the round, from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

Rules = list[tuple[str, int]]
Operation = tuple[str, int | None, str]
"""Kind, place and text: ``("ADD", None, "New.")``, ``("AGREE", 1, "")``, ``("EDIT", 3, "Better.")``."""

ORDER = ("REMOVE", "AGREE", "EDIT", "ADD")
NEW, FULL = 2, 3


def one_round(rules: Rules, operations: Sequence[Operation], *, full: bool = False) -> Rules:
    """The rules after one round of operations."""
    now = list(rules)
    for kind in ORDER:
        for _, place, text in (one for one in operations if one[0] == kind):
            if place is None:
                now.append((text, NEW))
                continue
            said, count = now[place - 1]
            moved = {"REMOVE": -FULL if full else -1, "AGREE": 1, "EDIT": 1}[kind]
            now[place - 1] = (text if kind == "EDIT" else said, count + moved)
    return sorted((one for one in now if one[1] > 0), key=lambda one: -one[1])
