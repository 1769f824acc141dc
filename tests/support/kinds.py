"""Writing and asking, as the tests in ``tests/kinds`` do it."""

from __future__ import annotations

from gateway.keys import Caller
from stores.recall.filters import RecallFilters
from tests.support.gateway import AGENT, READER, WAIT, Brain


def told(brain: Brain, request_id: str, text: str, caller: Caller = AGENT, **fields: object) -> str:
    """Write a note and give the id of the insight that holds it."""
    done = brain.service.remember(caller, request_id, text, wait_s=WAIT, **fields)  # type: ignore[arg-type]
    assert done.state == "applied"
    return str(done.insight_id)


def recalled(brain: Brain, query: str, **filters: object) -> list[str]:
    """What is recalled of the animal that the question begins with; other tests' animals are in the same brain."""
    found = brain.service.recall(READER, query, RecallFilters(**filters), 20)  # type: ignore[arg-type]
    return [hit.id for hit in found.result.hits if query.split()[0] in hit.text.lower()]
