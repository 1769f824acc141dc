"""One question to a model: within the budget, behind the breaker, with retries, and written down whatever comes back.

The pipeline never waits for this. Whoever asks gets an :class:`Asked` and no exception; without an answer the words and claims made
by rule stay, which is the fallback.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from gateway.breaking import Breaker, CircuitOpen, TookTooLong
from gateway.llm.port import Answer, Ask, LanguageModel, ModelError, ModelUnavailable, estimated_tokens
from gateway.llm.prompts import Prompt
from schemas.errors import BrainError
from schemas.identity import content_id
from schemas.model_said import MAX_ASKED, MAX_SAID, ModelSaid, Purpose

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
HOUR = timedelta(hours=1)


class BudgetSpent(ModelError):
    """The hour's tokens are used up."""


class Budget:
    """Tokens of the last hour. ``spent`` is what the log knows of, so that a restart does not start a new hour."""

    def __init__(self, tokens_per_hour: int, spent: Iterable[tuple[datetime, int]] = ()) -> None:
        self._limit = tokens_per_hour
        self._spent: deque[tuple[datetime, int]] = deque(sorted(spent))

    def left(self, now: datetime) -> int:
        """What may still be spent."""
        while self._spent and self._spent[0][0] <= now - HOUR:
            self._spent.popleft()
        return self._limit - sum(tokens for _, tokens in self._spent)

    def spend(self, now: datetime, tokens: int) -> None:
        """Take note of what was spent."""
        self._spent.append((now, tokens))


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of a question: its record, still without judgements, and the answer's JSON, if it is any."""

    said: ModelSaid
    plain: Any = None

    @property
    def answered(self) -> bool:
        """Whether there is something to judge."""
        return self.said.outcome == "answered"


class Asker:
    """Asks a model. ``clock`` dates what is said, ``sleep`` and ``random`` space out the retries."""

    def __init__(
        self,
        model: LanguageModel,
        breaker: Breaker,
        budget: Budget,
        *,
        clock: Callable[[], datetime],
        retries: int = 2,
        max_tokens: int = 700,
        sleep: Callable[[float], object] = time.sleep,
        random: Random | None = None,
    ) -> None:
        self.model = model
        self.breaker = breaker
        self._budget = budget
        self._clock = clock
        self._retries = retries
        self._max_tokens = max_tokens
        self._sleep = sleep
        self._random = random or Random()  # noqa: S311 - jitter

    def ask(self, purpose: Purpose, subject: str, prompt: Prompt, schema: dict[str, Any], basis: str, **values: str) -> Asked:
        """Ask, and say what came of it. ``basis`` tells questions about one subject apart: the same question has the same id."""
        ask = self.question(purpose, prompt, schema, **values)
        now = self._clock()
        fields: dict[str, Any] = {
            "said_id": said_id(purpose, subject, prompt.name, self.model.name, basis),
            "ts": now,
            "purpose": purpose,
            "subject": subject[:512],
            "prompt": prompt.name,
            "prompt_sha256": prompt.sha256,
            "model": self.model.name[:128],
            "asked": _storable(ask.text, MAX_ASKED),
        }
        try:
            answer = self._answer(ask, now)
        except BrainError as error:
            return Asked(ModelSaid(**fields, outcome="unavailable", problem=_storable(str(error), 1000)))
        spent = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
        fields |= {"model": answer.model or fields["model"], "raw": _storable(answer.text, MAX_SAID), **spent}
        fields["cut"] = answer.cut or len(answer.text) > MAX_SAID
        plain = read_json(answer.text)
        if plain is None:
            return Asked(ModelSaid(**fields, outcome="unusable", problem="the answer holds no JSON object"))
        return Asked(ModelSaid(**fields, outcome="answered"), plain)

    def question(self, purpose: Purpose, prompt: Prompt, schema: dict[str, Any], **values: str) -> Ask:
        """What would be asked."""
        system, user = prompt.filled(**values)
        return Ask(system, user, schema, purpose, self._max_tokens)

    def _answer(self, ask: Ask, now: datetime) -> Answer:
        wanted = estimated_tokens(ask.text) + ask.max_tokens
        if wanted > self._budget.left(now):
            raise BudgetSpent(f"this question may need {wanted} tokens, and {max(0, self._budget.left(now))} are left this hour")
        attempt = 0
        while True:
            try:
                answer = self.breaker.call(lambda: self.model.complete(ask))
            except (ModelUnavailable, TookTooLong) as error:
                self._budget.spend(now, estimated_tokens(ask.text))  # it may have been read and paid for
                if attempt == self._retries or wanted > self._budget.left(now):
                    raise
                self._sleep(self._pause(attempt, getattr(error, "retry_after_s", None)))
                attempt += 1
            except CircuitOpen:
                raise
            except BrainError:
                raise
            except Exception as error:
                raise ModelUnavailable(f"the adapter failed: {type(error).__name__}") from error
            else:
                self._budget.spend(now, answer.prompt_tokens + answer.completion_tokens)
                return answer

    def _pause(self, attempt: int, wished_s: float | None) -> float:
        """Full jitter under a doubling bound; never less than the endpoint asks for."""
        bound = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
        return float(max(self._random.uniform(0.0, bound), min(LONGEST_PAUSE_S, wished_s or 0.0)))


def said_id(purpose: str, subject: str, prompt: str, model: str, basis: str) -> str:
    """The id of a question."""
    return content_id("said", purpose, subject, prompt, model, basis)


def read_json(text: str) -> dict[str, Any] | None:
    """The JSON object in an answer: the whole of it, or what stands between its first and last brace. None: there is none.

    >>> read_json('Sure!\\n```json\\n{"claims": []}\\n```')
    {'claims': []}
    >>> read_json('{"a": NaN}') is None
    True
    """
    for candidate in (text.strip(), text[text.find("{") : text.rfind("}") + 1]):
        try:
            plain = json.loads(candidate, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
        if isinstance(plain, dict):
            return plain
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _storable(text: str, longest: int) -> str:
    """Text that any log can hold: cut, and without halves of characters."""
    return text[:longest].encode("utf-8", "replace").decode()
