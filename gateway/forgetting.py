"""Forgetting an episode: a record in the log that takes its place, and the proof that nothing else of it is left.

The record stands in the episodes' own topic under the episode's own key, so whoever reads the log reads it after the episode: a
store that is filled again forgets it again, and nobody learns from it. What was learned with it before stays; insights name it by
its id. The log itself keeps the bytes of the first record until its retention lets them go.
"""

from __future__ import annotations

from gateway.errors import NotFound
from gateway.keys import Caller, Tier
from gateway.views import WriteView
from gateway.writing import Writing, made
from schemas.episodes import Forgotten, tombstone
from stores.recall.recall import Recall
from stores.sqlite import Fate
from streams.publisher import Publisher


class Forgetting(Writing):
    """The part of the service that forgets episodes."""

    _recall: Recall

    def forget_episode(self, caller: Caller, request_id: str, episode_id: str, reason: str, wait_s: float = 0.0) -> WriteView:
        """Delete an episode from the stores for good. Needs an admin key; doing it again changes nothing.

        Raises:
            NotFound: there is none.
        """
        caller.need(Tier.ADMIN)
        found = self._episodes.get(episode_id) if self._episodes is not None else None
        if found is None:
            raise NotFound(f"there is no episode {episode_id!r}", hint="search episodes to get ids")
        operation_id = self._op_id(caller, request_id)
        if found.forgotten is None:
            who = made(Forgotten, by=caller.author, reason=reason, ts=self._clock())
            Publisher(self._log, source="gateway").publish(tombstone(found, who))
        fate = self._wait(lambda: Fate("applied") if self._is_gone(episode_id) else None, wait_s) or Fate("pending")
        return WriteView(request_id=request_id, operation_id=operation_id, state=fate.state, duplicate=found.forgotten is not None)

    def episode_traces(self, caller: Caller, episode_id: str, words: str = "") -> dict[str, int]:
        """Where anything of an episode is left, by place; all zeros prove that it is gone. ``words`` is a phrase of its text."""
        caller.need(Tier.ADMIN)
        if self._episodes is None:
            return {}
        found = self._episodes.get(episode_id)
        return {
            **self._episodes.traces(episode_id, words),
            "row": int(found is not None and found.forgotten is None),
            "memory": self._recall.holds(episode_id, words),
        }

    def _is_gone(self, episode_id: str) -> bool:
        found = self._episodes.get(episode_id) if self._episodes is not None else None
        return found is None or found.forgotten is not None
