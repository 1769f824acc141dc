"""What rows that came since say of a claim that was proposed and confirmed before: the distiller's own verdicts.

A proposer keeps no state between rounds, so looks come at fixed sizes: the first 40 fresh rows, then 60, 90, 120, … Between two
sizes a round sees the same rows as the last, decides the same, and sends the same operation, which counts once.
"""

from __future__ import annotations

import math

from schemas.insights import Insight
from workers.distil.learner import Judged
from workers.distil.verdicts import FIRST_LOOK, FULL_LOOK, GROWTH, Belief, judge
from workers.proposals.claims import Evidence


def judged_again(insight: Insight, evidence: Evidence, limit: int) -> Judged | None:
    """The verdict on an insight with a claim, if its fresh rows give one."""
    claim, last = insight.claim, insight.latest or insight.evidence
    if claim is None or insight.evidence is None or last is None:
        return None
    known = evidence.rows.having(claim.metric)
    cut = max(evidence.cuts.get(claim.metric, 0), int(last.last_ts.timestamp() * 1000) + 1)
    fresh = known.where(known.ts_ms >= cut) if len(known) else known
    size = look_size(len(fresh))
    if size is None:
        return None
    rows = fresh.rows(0, size)
    belief = Belief.new(claim, insight.evidence, rows.first)
    after, verdict = judge(belief, rows, limit)
    return None if verdict is None else Judged(after, verdict)


def look_size(rows: int) -> int | None:
    """The largest size of a look that there are rows for.

    >>> [look_size(n) for n in (39, 40, 100, 120, 500)]
    [None, 40, 90, 120, 405]
    """
    size, found = FIRST_LOOK, None
    while size <= rows:
        found = size
        grown = math.ceil(size * GROWTH)
        size = FULL_LOOK if size < FULL_LOOK < grown else grown
    return found
