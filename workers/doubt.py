"""Doubt: since when a claim is under re-examination.

A drift alarm closes the evidence of what it concerns (``workers/distil``): the claim is then judged on fresh rows alone, and until
enough of them are in, what it rests on is a market that has moved. So an insight is under re-examination from the first alarm after
its last vote or edit, until the next one. Nothing is written for that: alarms and votes both are kept with their event times, and
the answer is the same in whatever order they arrived.

What concerns a claim: an alarm of its own group (level and key) on its metric or one that moves with it, or on a feature that one
of its conditions is about.
"""

from __future__ import annotations

from schemas.claims import Claim
from workers.distil.learner import MOVES_WITH
from workers.metrics import WATCHED


def alarms_about(claim: Claim) -> frozenset[str]:
    """The watched metrics whose alarms concern a claim.

    >>> from schemas.claims import Condition
    >>> deep = Condition(feature="pool_depth_usd", op=">=", value=1e6)
    >>> sorted(alarms_about(Claim(key="swap:1:a/b", metric="slippage_bps", conditions=(deep,), direction="lower")))
    ['cost_bps', 'pool_depth_usd']
    """
    moved = {alarmed for alarmed, metrics in MOVES_WITH.items() if claim.metric in metrics}
    return frozenset(moved | {condition.feature for condition in claim.conditions if condition.feature in WATCHED})
