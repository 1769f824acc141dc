"""What the pages show that no service knows: how this process was set up, and how far each stage is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettingFact:
    """A setting's effective value, and where it comes from."""

    name: str
    value: str
    source: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class StageFact:
    """How far a stage is: records by what became of them, and how many wait."""

    name: str
    received: int
    processed: int
    duplicates: int
    rejected: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Looked at anew for each page."""

    settings: Callable[[], Sequence[SettingFact]]
    stages: Callable[[], Sequence[StageFact]]


def no_facts() -> Facts:
    """Of a process that has none."""
    return Facts(settings=lambda: (), stages=lambda: ())
