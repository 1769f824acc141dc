"""The briefing without a model: the top memories as bullets, each with its id. Always there, never blocks."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.quoting import quoted
from gateway.views import BriefingView
from schemas.insights import Insight

FEWEST, MOST = 3, 6
MAX_CHARS = 1_200
INPUTS = 20
PLAIN_BULLETS = 5
"""Without a model the specification takes the top five; a directive may make it six."""


def briefing(directives: Sequence[Insight], insights: Sequence[Insight]) -> BriefingView:
    """Bullets from directives in force, then from insights, both in the caller's order; as many as fit, at most six."""
    chosen = [*directives[: MOST - FEWEST], *insights[:PLAIN_BULLETS]][:MOST]
    bullets: list[str] = []
    ids: list[str] = []
    for insight in chosen:
        share = MAX_CHARS // len(chosen) - 1
        bullet = _bullet(insight, share)
        bullets.append(bullet)
        ids.append(insight.id)
    return BriefingView(text="\n".join(bullets) or "nothing learned yet", bullets=tuple(bullets), memory_ids=tuple(ids))


def _bullet(insight: Insight, room: int) -> str:
    name = "directive" if insight.directive else "note" if insight.note else "insight"
    head = f"• [{name} {insight.id}, confidence {insight.confidence:.2f}{', simulated' if insight.simulated else ''}] "
    return head + quoted(insight.text, max(20, room - len(head) - 2))
