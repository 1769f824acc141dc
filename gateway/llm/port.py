"""What is asked of a language model and what it answers, whichever one it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.errors import BrainError


class ModelError(BrainError):
    """No answer that can be used."""


class ModelUnavailable(ModelError):
    """It may pass: busy, out of reach, broken for the moment. ``retry_after_s`` is the endpoint's own wish."""

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class ModelRefused(ModelError):
    """It will not pass by itself: the key, the model's name or the request is not accepted."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. ``schema`` is the JSON Schema of the answer; ``system`` holds the rules, ``user`` the data."""

    system: str
    user: str
    schema: dict[str, Any] = field(repr=False)
    name: str
    max_tokens: int

    @property
    def text(self) -> str:
        """All of it, as it is recorded."""
        return f"{self.system}\n\n{self.user}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``cut``: the endpoint stopped it at the limit. Tokens are the endpoint's count, or an estimate."""

    text: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cut: bool = False


class LanguageModel(Protocol):
    """Something that answers. Blocking; may be called from any thread, by one at a time."""

    name: str

    def complete(self, ask: Ask) -> Answer:
        """One answer.

        Raises:
            ModelUnavailable, ModelRefused: there is none.
        """
        ...


def estimated_tokens(text: str) -> int:
    """Tokens of a text, for want of a count: three characters each, which is more than any tokenizer makes of English."""
    return -(-len(text) // 3)
