"""Prompts as versioned files: ``prompts/NAME.vN.txt``, a system part and a user part, both with ``$places``.

Places of the system part are filled with words of ours only (``$direction``, ``$advice``); what others wrote belongs into the
user part.

What a model said is recorded with its prompt's name and hash, so a published file is never edited: a change is a new version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from string import Template

_CUT = "\n=====\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: its name with the version, the hash of its file, and its two parts."""

    name: str
    sha256: str
    system: Template
    user: Template

    def filled(self, **values: str) -> tuple[str, str]:
        """Both parts with their places filled. Raises KeyError for one that is not."""
        return self.system.substitute(values), self.user.substitute(values)


def load_prompt(name: str) -> Prompt:
    """The prompt of a file, such as ``claims.v1``.

    Raises:
        FileNotFoundError, ValueError: there is none, or it has not two parts.
    """
    text = files("gateway.llm").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    system, cut, user = text.partition(_CUT)
    if not cut:
        raise ValueError(f"prompt {name} has no user part")
    return Prompt(name, hashlib.sha256(text.encode()).hexdigest(), Template(system.strip()), Template(user.strip()))
