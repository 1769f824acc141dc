"""Operations out of changes of belief: the claim in words, its evidence, who and why. The same for a key and for what is above it.

An operation is dated with the end of the window that it came from and identified by its insight, its kind and its evidence, so a
replay emits the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from schemas.claims import Evidence
from schemas.events import Action
from schemas.identity import content_id
from schemas.operations import AddInsight, ArchiveInsight, DownvoteInsight, EditInsight, UpvoteInsight
from schemas.topics import OPERATIONS
from workers.distil.category import category
from workers.distil.learner import Added, Change, Retired
from workers.distil.verdicts import Belief
from workers.distil.words import sentence
from workers.metrics import METRICS, rounded
from workers.stage import Emission

Operation = AddInsight | ArchiveInsight | UpvoteInsight | DownvoteInsight | EditInsight


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom the operations of a group are about, and who says so: ``label`` is the group's name for people."""

    key: str
    label: str
    action: Action
    author: str


def emission(subject: Subject, change: Change, end_ms: int) -> Emission:
    """The operation that a change is, ready for the log. ``end_ms`` is the end of the window that brought it about."""
    return emitted(_operation(subject, change, end_ms), end_ms)


def emitted(operation: Operation, end_ms: int) -> Emission:
    """An operation as a message."""
    return Emission(OPERATIONS, operation.insight_id, operation, operation.op_id, end_ms)


def said(author: str, insight_id: str, kind: str, reason: str, end_ms: int, episodes: Sequence[str]) -> dict[str, Any]:
    """What every operation says; its id is that of its insight, kind, window and evidence."""
    return {
        "op_id": content_id("operation", kind, insight_id, end_ms, *episodes),
        "insight_id": insight_id,
        "ts": datetime.fromtimestamp(end_ms / 1000, UTC),
        "author": author,
        "reason": reason,
    }


def _operation(subject: Subject, change: Change, end_ms: int) -> Operation:
    insight_id = change.belief.claim.insight_id
    if isinstance(change, Retired):
        fixed = " and ".join(change.by.rule.features)
        reason = f"with {fixed} held fixed nothing that matters is left of the effect: a newer claim explains it"
        rests_on = change.by.comparison.view.ids[-1:]
        return ArchiveInsight(**said(subject.author, insight_id, "ARCHIVE", reason, end_ms, rests_on), cause="explained")
    belief = change.belief
    if isinstance(change, Added):
        comparison, evidence, kind = change.finding.comparison, belief.evidence, "ADD"
        why = "found in the older half of the evidence, confirmed in the newer"
    else:
        comparison, evidence, kind = change.verdict.comparison, change.verdict.evidence, change.verdict.kind
        why = change.verdict.why
    reason = f"{why}; {_numbers(evidence, comparison.between.inflation)}"
    fields = said(subject.author, insight_id, kind, reason, end_ms, evidence.episode_ids)
    fields["evidence"] = evidence
    if kind == "UPVOTE":
        return UpvoteInsight(**fields)
    if kind == "DOWNVOTE":
        return DownvoteInsight(**fields)
    simulated = bool(comparison.view.simulated.any())
    fields["text"] = sentence(belief.claim, evidence, subject.label, simulated=simulated)
    fields["claim"] = belief.claim
    if kind == "EDIT":
        return EditInsight(**fields)
    return AddInsight(**fields, **_about(subject, belief, evidence), simulated=simulated)


def _about(subject: Subject, belief: Belief, evidence: Evidence) -> Mapping[str, Any]:
    """What only an ADD says. Importance is the size of the effect: a claim that tells episodes apart completely has 1."""
    metric = METRICS[belief.claim.metric]
    return {
        "category": category(metric, belief.rule.features, subject.action, evidence.inside),
        "key": subject.key,
        "label": subject.label,
        "importance": rounded(min(1.0, abs(evidence.effect))),
    }


def _numbers(evidence: Evidence, inflation: float) -> str:
    test = "Fisher exact" if evidence.kind == "risk_difference" else "Brunner-Munzel"
    if evidence.spread is not None:
        test = "Mantel-Haenszel" if evidence.kind == "risk_difference" else "van Elteren"
    corrected = f", variance ×{inflation:.2f} for autocorrelation" if inflation > 1.005 else ""
    spread = f", I²={evidence.spread.heterogeneity:.2f} over {evidence.spread.pairs} pairs" if evidence.spread is not None else ""
    return (
        f"{test} p={evidence.p:.3g}, q={evidence.q:.3g}{corrected}; {evidence.kind} {evidence.effect:.3f} "
        f"[{evidence.low:.3f}, {evidence.high:.3f}], n={evidence.n_inside}+{evidence.n_outside}{spread}"
    )
