"""Rounds of proposals: claims about keys, better words for what is believed, lessons from it.

A round goes through the keys that have enough new episodes. What the model proposes becomes an operation only where the evidence
agrees (``workers/proposals``); the answer, the verdict on each proposal and the operations go into the log together. What it
proposed before is looked at again like any belief: rows that came since vote it up or down.

Nothing of this is needed: without an endpoint, or with one that is down, the distiller's claims and sentences stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from gateway.llm.answers import TEXT_SCHEMA, claims_schema
from gateway.llm.asker import Asked, Asker, said_id
from gateway.llm.evidence import BELIEVED, Subject, load_subject
from gateway.llm.history import History
from gateway.llm.port import Ask
from gateway.llm.prompts import Prompt, load_prompt
from gateway.quoting import has_marks, reads_like_an_instruction
from schemas.claims import Evidence
from schemas.insights import Insight
from schemas.model_said import Judgement, ModelSaid
from schemas.operations import EditInsight
from stores.episodes import EpisodeStore
from stores.sqlite import InsightStore
from streams.log import LogAppender
from streams.publisher import Publisher
from workers.distil import said as saying
from workers.distil.confirm import Finding
from workers.distil.learner import FIRST_MINING, GROWTH, Added, Judged
from workers.distil.observations import View
from workers.distil.stage import AUTHOR as DISTILLER
from workers.distil.words import conditions as spoken_conditions
from workers.metrics import METRICS
from workers.proposals.claims import MOST, Proposed, added, read_proposal, round_alpha, weigh_proposals
from workers.proposals.judging import judged_again
from workers.proposals.summary import askable, feature_kinds, summary
from workers.proposals.words import Refused, refuse_lesson, refuse_words
from workers.wording import SIMULATED, quoted

AUTHOR = "model:"
LESSON = " Lesson: "
PER_ROUND = 8
"""Most keys, and most insights, that are asked about in one round."""


@dataclass(slots=True)
class Round:
    """What a round did: each answer as it was recorded, and the operations that were sent (or would be, in a dry run)."""

    said: list[ModelSaid] = field(default_factory=list)
    operations: list[saying.Operation] = field(default_factory=list)

    @property
    def judgements(self) -> list[Judgement]:
        """All verdicts of the round."""
        return [one for said in self.said for one in said.judgements]


class Proposer:
    """Asks, tests and sends. ``q`` is the error rate that proposals may spend, a key; ``limit`` the most episodes of a key."""

    def __init__(
        self,
        asker: Asker,
        log: LogAppender,
        episodes: EpisodeStore,
        insights: InsightStore,
        history: History,
        *,
        q: float,
        limit: int,
        summary_chars: int = 8000,
    ) -> None:
        self._asker = asker
        self._publisher = Publisher(log, source="model")
        self._episodes = episodes
        self._insights = insights
        self._history = history
        self._q = q
        self._limit = limit
        self._summary_chars = summary_chars
        self._claims, self._words, self._lesson = (load_prompt(name) for name in ("claims.v1", "words.v1", "lesson.v1"))

    def question(self, key: str) -> Ask | None:
        """What a round would ask about a key, for whoever carries the question himself; None where there is nothing to ask."""
        subject = load_subject(self._episodes, self._insights, key, self._limit)
        shown = summary(subject.label, subject.evidence, self._summary_chars) if subject else ""
        return self._asker.question("claims", self._claims, _schema(subject), summary=shown) if subject and shown else None

    def round(self, *, key: str | None = None, dry_run: bool = False, words: bool = True, request: str | None = None) -> Round:
        """One round over the keys that are due, or over one key whether due or not; ``words``: ask for words and lessons, too."""
        self._history.refresh()
        done = Round()
        counts = self._episodes.keys()
        chosen = [key] if key is not None else self._due(counts)
        for name in chosen:
            subject = load_subject(self._episodes, self._insights, name, self._limit)
            if subject is None:
                continue
            self._look_again(subject, done, dry_run)
            self._ask_claims(subject, counts.get(name, 0), done, dry_run, request)
        if words:
            self._ask_words(chosen, done, dry_run)
        return done

    def _due(self, counts: dict[str, int]) -> list[str]:
        """Keys that have grown by half since they were last asked about, those with the most new episodes first."""
        due = [
            (self._history.rows(name) - count, name)
            for name, count in counts.items()
            if count >= max(FIRST_MINING, GROWTH * self._history.rows(name))
        ]
        return [name for _, name in sorted(due)[:PER_ROUND]]

    # --- claims

    def _look_again(self, subject: Subject, done: Round, dry_run: bool) -> None:
        """Vote on what a model had proposed about a key, on the rows that came since.

        What the distiller votes on, having found it too, it judges alone: the same rows are no evidence twice.
        """
        operations = []
        for insight in subject.insights:
            if not insight.author.startswith(AUTHOR) or any(one.author == DISTILLER for one in self._insights.history(insight.id)):
                continue
            change = judged_again(insight, subject.evidence, self._limit)
            if change is not None:
                operations.append(self._operation(subject, insight.author, change, change.verdict.evidence))
        self._send(None, operations, done, dry_run)

    def _ask_claims(self, subject: Subject, rows: int, done: Round, dry_run: bool, request: str | None) -> None:
        shown = summary(subject.label, subject.evidence, self._summary_chars)
        if not shown:
            return
        look = self._history.looks(subject.key) + 1
        asked = self._asker.ask("claims", subject.key, self._claims, _schema(subject), f"look {look}", summary=shown)
        more: dict[str, Any] = {"look": look, "rows": rows, "request": request}
        operations: list[saying.Operation] = []
        if asked.answered:
            judgements, operations, alpha = self._weighed(subject, asked, look)
            more |= {"judgements": tuple(judgements), "alpha": alpha}
        self._send(asked.said.model_copy(update=more), operations, done, dry_run)

    def _weighed(self, subject: Subject, asked: Asked, look: int) -> tuple[list[Judgement], list[saying.Operation], float]:
        plain = asked.plain.get("claims")
        if not isinstance(plain, list):
            return [_refused(asked.plain, "no_list_of_claims")], [], 0.0
        kinds = feature_kinds(_older(subject))
        read = [read_proposal(one, kinds) for one in plain[:MOST]]
        proposed = [one for one in read if isinstance(one, Proposed)]
        verdicts = iter(weigh_proposals(subject.evidence, proposed, q=self._q, look=look, believed=subject.believed))
        judgements, operations = [], []
        for given, one in zip(plain[:MOST], read, strict=True):
            verdict = next(verdicts) if isinstance(one, Proposed) else one
            if isinstance(verdict, str):
                judgements.append(_refused(given, verdict))
                continue
            assert isinstance(verdict, Finding)
            operation = self._added(subject, asked, verdict)
            if self._insights.get(operation.insight_id) is not None:
                judgements.append(_refused(given, "known"))
                continue
            operations.append(operation)
            judgements.append(Judgement(proposal=_short(given), accepted=True, reason="confirmed", op_id=operation.op_id))
        return judgements, operations, round_alpha(proposed, self._q, look) if proposed else 0.0

    def _added(self, subject: Subject, asked: Asked, finding: Finding) -> saying.Operation:
        change = added(finding, subject.key)
        return self._operation(subject, f"{AUTHOR}{asked.said.model}", change, change.belief.evidence)

    def _operation(self, subject: Subject, author: str, change: Added | Judged, evidence: Evidence) -> saying.Operation:
        """Dated with the last episode that it rests on."""
        end_ms = int(evidence.last_ts.timestamp() * 1000)
        about = saying.Subject(subject.key, subject.label, subject.action, author[:128])
        return cast(saying.Operation, saying.emission(about, change, end_ms).message)

    # --- words and lessons

    def _ask_words(self, keys: Iterable[str], done: Round, dry_run: bool) -> None:
        for insight in self._believed(keys)[:PER_ROUND]:
            for purpose in ("words", "lesson"):
                self._ask_text(purpose, insight, done, dry_run)

    def _believed(self, keys: Iterable[str]) -> list[Insight]:
        """What is believed of some keys, and above them, and has not been put to this model in this form."""
        found: list[Insight] = []
        for key in keys:
            subject = load_subject(self._episodes, self._insights, key, 1)
            found += [one for one in (subject.insights if subject else ()) if one.confidence >= BELIEVED and _sayable(one)]
        return sorted(found, key=lambda one: (-one.confidence, -one.importance, one.id))

    def _ask_text(self, purpose: Literal["words", "lesson"], insight: Insight, done: Round, dry_run: bool) -> None:
        claim, evidence = insight.claim, insight.evidence
        assert claim is not None
        assert evidence is not None
        prompt: Prompt = self._words if purpose == "words" else self._lesson
        basis = f"{evidence.digest} {claim.model_dump_json()}"
        if self._history.has(said_id(purpose, insight.id, prompt.name, self._asker.model.name, basis)):
            return
        metric = METRICS[claim.metric]
        sentence, _, lesson = insight.text.partition(LESSON)
        values = {
            "finding": quoted(sentence),
            "metric": metric.phrase,
            "conditions": quoted(spoken_conditions(claim.conditions)),
            "direction": claim.direction,
            "advice": "Avoid" if claim.direction == metric.worse else "Prefer",
        }
        asked = self._asker.ask(purpose, insight.id, prompt, TEXT_SCHEMA, basis, **values)
        operations: list[saying.Operation] = []
        more: dict[str, Any] = {}
        if asked.answered:
            text = asked.plain.get("text")
            refused = _refuse(purpose, text, insight)
            if refused is None and not any(mine.insight_id == insight.id for mine in done.operations):
                told = _headed(insight, text) if purpose == "words" else sentence
                tail = lesson if purpose == "words" else text
                operations.append(_edit(insight, evidence, f"{told}{LESSON}{tail}" if tail else told, asked))
            judgement = Judgement(
                proposal=_short(text),
                accepted=bool(operations),
                reason="said" if operations else refused.reason if refused else "edited_in_this_round",
                detail=refused.detail[:1000] if refused else "",
                op_id=operations[0].op_id if operations else None,
            )
            more["judgements"] = (judgement,)
        self._send(asked.said.model_copy(update=more), operations, done, dry_run)

    # --- sending

    def _send(self, said: ModelSaid | None, operations: Sequence[saying.Operation], done: Round, dry_run: bool) -> None:
        """What was said and what comes of it, in one append."""
        if said is not None:
            said = said.model_copy(update={"dry_run": dry_run})
            done.said.append(said)
        done.operations += operations
        messages = [*([said] if said is not None else []), *(() if dry_run else operations)]
        if messages:
            self._publisher.publish_many(messages)
        self._history.refresh()


def _older(subject: Subject) -> View:
    """The rows that are shown: those of the first metric that can be asked about, which all others are seldom without."""
    return subject.evidence.of(askable(subject.evidence)[0])[0]


def _schema(subject: Subject) -> dict[str, Any]:
    older = _older(subject)
    return claims_schema(askable(subject.evidence), feature_kinds(older), older.levels)


def _sayable(insight: Insight) -> bool:
    return (
        insight.claim is not None and insight.evidence is not None and insight.evidence.kind in ("cliffs_delta", "risk_difference")
    )


def _refuse(purpose: str, text: Any, insight: Insight) -> Refused | None:
    assert insight.claim is not None
    assert insight.evidence is not None
    if not isinstance(text, str):
        return Refused("no_text")
    if reads_like_an_instruction(text) or has_marks(text):
        return Refused("reads_like_an_instruction")
    test = refuse_words if purpose == "words" else refuse_lesson
    return test(text, insight.claim, insight.evidence, insight.label)


def _headed(insight: Insight, text: str) -> str:
    """Words under the head that every sentence has: whether it was simulated, and of what it speaks."""
    named = text if insight.label.lower() in text.lower() else f"{insight.label}: {text}"
    return f"{SIMULATED} {named}" if insight.simulated else named


def _edit(insight: Insight, evidence: Evidence, text: str, asked: Asked) -> EditInsight:
    said = asked.said
    return EditInsight(
        **saying.said(
            f"{AUTHOR}{said.model}"[:128],
            insight.id,
            "EDIT",
            f"{said.purpose} of a language model ({said.prompt}), held against the evidence",
            int(evidence.last_ts.timestamp() * 1000),
            (said.said_id,),
        ),
        text=text,
        of_evidence=evidence.digest,
    )


def _refused(given: Any, reason: str) -> Judgement:
    return Judgement(proposal=_short(given), accepted=False, reason=reason)


def _short(given: Any) -> str:
    """A proposal as JSON text, cut to size and fit for a record."""
    return json.dumps(given, ensure_ascii=False, default=str)[:1000].encode("utf-8", "replace").decode()
