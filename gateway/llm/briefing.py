"""The briefing in a model's words: shorter and put together, and nothing in it that the memories do not hold.

Only the schedule asks a model, so nobody waits for it. Directives are the operator's words and stay as they are. Each bullet of the
model names the memories that it rests on; one whose numbers, identifiers, sides or polarity are not theirs is thrown away (law 7).
With too few left, or no answer, the briefing is the plain one. What was asked and said goes into the log like everything that a
model says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gateway.briefing import FEWEST, MAX_CHARS, MOST, Write, briefing, bullet, fitting
from gateway.llm.asker import Asker
from gateway.llm.history import History
from gateway.llm.prompts import load_prompt
from gateway.llm.wiring import AnyLog, make_asker, model_breaker, open_model
from gateway.quoting import has_marks, quoted, reads_like_an_instruction
from gateway.views import BriefingView
from schemas.identity import content_id
from schemas.insights import Insight
from schemas.model_said import Judgement, ModelSaid
from schemas.settings import Settings
from streams.publisher import Publisher
from workers.values import Values, values

LOGGER = logging.getLogger(__name__)

LONGEST = 100
"""Characters of a bullet's sentence: six of them with the ids of two memories each fit into the briefing."""

BULLETS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "bullets": {
            "type": "array",
            "maxItems": MOST,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "from": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
                },
                "required": ["text", "from"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["bullets"],
    "additionalProperties": False,
}


class BriefingWriter:
    """Writes briefings with a model. ``publish`` puts what was said into the log. Asks anew only when the memories have changed.

    ``asker`` makes an asker for each briefing, with the budget that is left by then: proposals are paid out of the same one.
    """

    def __init__(self, asker: Callable[[], Asker], publish: Callable[[ModelSaid], object]) -> None:
        self._asker = asker
        self._publish = publish
        self._prompt = load_prompt("briefing.v1")
        self._last: tuple[str, BriefingView] | None = None

    def write(self, directives: Sequence[Insight], insights: Sequence[Insight]) -> BriefingView:
        """The briefing, in the model's words where they hold, else the plain one."""
        if len(insights) < FEWEST:
            return briefing(directives, insights)
        basis = content_id("briefing", *(f"{one.id} {one.revision}" for one in (*directives, *insights)))
        if self._last is not None and self._last[0] == basis:
            return self._last[1]
        told = self._asked(directives[: MOST - FEWEST], insights, basis) or briefing(directives, insights)
        self._last = (basis, told)
        return told

    def _asked(self, directives: Sequence[Insight], insights: Sequence[Insight], basis: str) -> BriefingView | None:
        listed = "\n".join(f"{number}. {quoted(one.text)}" for number, one in enumerate(insights, 1))
        room = {"fewest": str(FEWEST), "most": str(MOST - len(directives)), "longest": str(LONGEST)}
        asked = self._asker().ask("briefing", "briefing", self._prompt, BULLETS_SCHEMA, basis, memories=listed, **room)
        said = asked.said
        kept: list[tuple[str, tuple[Insight, ...]]] = []
        judgements = []
        proposals = asked.plain.get("bullets") if asked.answered else None
        for proposal in proposals[: 2 * MOST] if isinstance(proposals, list) else ():
            text, cited, reason = judged(proposal, insights)
            accepted = not reason and len(kept) < MOST - len(directives)
            if accepted:
                kept.append((text, cited))
            told = reason or ("said" if accepted else "too_many")
            judgements.append(Judgement(proposal=quoted(str(proposal), 1000), accepted=accepted, reason=told))
        self._publish(said.model_copy(update={"judgements": tuple(judgements)}))
        if len(kept) < FEWEST:
            LOGGER.warning("the briefing is the plain one: %s", said.problem or f"{len(kept)} bullets of the model hold")
            return None
        return _view(directives, kept)


@contextmanager
def briefing_by_model(settings: Settings, log: AnyLog) -> Iterator[Write]:
    """What writes briefings with the settings' model."""
    with open_model(settings) as model:
        asker = partial(make_asker, settings, model, History(log), model_breaker(settings))
        yield BriefingWriter(asker, Publisher(log, source="gateway").publish).write


def judged(proposal: Any, insights: Sequence[Insight]) -> tuple[str, tuple[Insight, ...], str]:
    """A proposed bullet: its text, what it rests on, and why it is refused (empty: it holds)."""
    if not isinstance(proposal, Mapping):
        return "", (), "no_bullet"
    text, numbers = proposal.get("text"), proposal.get("from")
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        return "", (), "no_text"
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= 2:
        return "", (), "no_source"
    if not all(type(one) is int and 1 <= one <= len(insights) for one in numbers):
        return "", (), "no_source"
    if reads_like_an_instruction(text) or has_marks(text):
        return "", (), "reads_like_an_instruction"
    cited = tuple(insights[one - 1] for one in dict.fromkeys(numbers))
    return text, cited, _unfounded(values(text), [values(one.text) for one in cited])


def _unfounded(said: Values, known: Sequence[Values]) -> str:
    """What a sentence holds that none of its sources does; empty where there is nothing."""
    measures = {(unit, value) for one in known for unit, found in one.measures for value in found}
    if not {(unit, value) for unit, found in said.measures for value in found} <= measures:
        return "numbers"
    if not set(said.bare) <= {value for one in known for value in one.bare}:
        return "numbers"
    if not said.identifiers <= frozenset[str]().union(*(one.identifiers for one in known)):
        return "identifiers"
    if not said.sides <= frozenset[tuple[str, int]]().union(*(one.sides for one in known)):
        return "side"
    if said.negated not in {one.negated for one in known}:
        return "polarity"
    return ""


def _view(directives: Sequence[Insight], kept: Sequence[tuple[str, tuple[Insight, ...]]]) -> BriefingView:
    share = MAX_CHARS // (len(directives) + len(kept)) - 1
    bullets = [bullet(one, share) for one in directives]
    for text, cited in kept:
        head = f"• [{', '.join(one.id for one in cited)}{', simulated' if any(one.simulated for one in cited) else ''}] "
        bullets.append(head + fitting(text, share - len(head)))
    ids = dict.fromkeys([*(one.id for one in directives), *(one.id for _, cited in kept for one in cited)])
    return BriefingView(text="\n".join(bullets), bullets=tuple(bullets), memory_ids=tuple(ids))
