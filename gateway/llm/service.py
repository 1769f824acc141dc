"""The service's part that takes proposals from a model that somebody else asks: the question out, the answer in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.breaking import Breaker
from gateway.keys import Caller, Tier
from gateway.llm.asker import Asker, Budget
from gateway.llm.history import History, records
from gateway.llm.port import Answer, Ask, ModelUnavailable, estimated_tokens
from gateway.llm.propose import Proposer
from gateway.views import View
from gateway.writing import Log
from schemas.identity import content_id
from schemas.model_said import ModelSaid
from schemas.settings import Settings
from stores.episodes import EpisodeStore
from stores.sqlite import InsightStore


@dataclass(frozen=True, slots=True)
class Bounds:
    """What proposals are held to: ``q``, the error rate that they may spend, a key; ``limit``, the most episodes of a key; and
    ``summary_chars``, the longest summary in a question. The same as for a model that the operator sets up."""

    q: float
    limit: int
    summary_chars: int

    @classmethod
    def of(cls, settings: Settings) -> Bounds:
        """Those of the settings."""
        return cls(settings.llm_fdr, settings.evidence_limit, settings.llm_summary_chars)


class VerdictView(View):
    """A proposal and what the evidence says of it."""

    proposal: str
    accepted: bool
    reason: str


class ReflectionView(View):
    """What a model's proposals came to. Those that were accepted are operations now, and become insights."""

    key: str
    outcome: str
    verdicts: tuple[VerdictView, ...]


@dataclass(slots=True)
class Sampled:
    """A model that has answered already. It answers once."""

    name: str
    text: str | None

    def complete(self, ask: Ask) -> Answer:
        """See :class:`gateway.llm.port.LanguageModel`."""
        if self.text is None:
            raise ModelUnavailable("the client's model was asked one question")
        text, self.text = self.text, None
        return Answer(text, self.name, estimated_tokens(ask.text), estimated_tokens(text))


class Proposing:
    """The service's part that takes proposals from outside. Mixed into :class:`~gateway.service.BrainService`."""

    _log: Log
    _insights: InsightStore
    _episodes: EpisodeStore | None
    _clock: Callable[[], datetime]
    _bounds: Bounds

    def question_about(self, caller: Caller, key: str) -> Ask | None:
        """What a model may be asked about a key; None where there is not enough to ask about."""
        caller.need(Tier.FEEDBACK)
        proposer = self._proposer(Sampled("-", None))
        return proposer.question(key) if proposer else None

    def reflected(self, caller: Caller, request_id: str) -> ReflectionView | None:
        """What came of a request of the caller's that was answered before."""
        wanted = _request(caller, request_id)
        found = next((one for _, one in records(self._log) if one is not None and one.request == wanted), None)
        return None if found is None else _view(found.subject, [found])

    def take_answer(self, caller: Caller, request_id: str, key: str, model: str, text: str) -> ReflectionView:
        """Test what a model answered, record it, and send what the evidence agrees with."""
        caller.need(Tier.FEEDBACK)
        proposer = self._proposer(Sampled(model[:100] or "client", text))
        done = proposer.round(key=key, words=False, request=_request(caller, request_id)) if proposer else None
        return _view(key, done.said if done else ())

    def _proposer(self, model: Sampled) -> Proposer | None:
        if self._episodes is None:
            return None
        history = History(self._log)
        asker = Asker(model, Breaker("sampling"), Budget(1_000_000), clock=self._clock, retries=0)
        q, limit, chars = self._bounds.q, self._bounds.limit, self._bounds.summary_chars
        return Proposer(asker, self._log, self._episodes, self._insights, history, q=q, limit=limit, summary_chars=chars)


def _request(caller: Caller, request_id: str) -> str:
    """The id of a caller's own request: nobody can take another's."""
    return content_id("client-operation", caller.author, request_id)


def _view(key: str, said: Sequence[ModelSaid]) -> ReflectionView:
    verdicts = tuple(
        VerdictView(proposal=one.proposal, accepted=one.accepted, reason=one.reason) for each in said for one in each.judgements
    )
    return ReflectionView(key=key, outcome=said[0].outcome if said else "nothing to ask about", verdicts=verdicts)
