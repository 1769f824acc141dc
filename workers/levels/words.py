"""A lesson from failures in a sentence, its category, and what such failures call for. No number but the evidence's own (law 7)."""

from __future__ import annotations

from schemas.claims import Category, Claim, Evidence
from workers.distil.category import EMERGENCY_RATE
from workers.wording import SIMULATED, number

CALLS_FOR = {
    "slippage": "quote anew just before sending, or trade smaller, before widening the bound",
    "deadline": "send sooner after the quote, or with a later deadline",
    "allowance": "check the allowance before the trade and approve in time",
    "gas": "estimate gas anew and leave room in its limit and price",
    "nonce": "send one at a time from one account, or track its nonce in one place",
    "funds": "check balances, gas included, before sending",
    "liquidity": "look at the depth before, split the order or route it elsewhere",
    "policy": "ask within the limits that are set; they are there on purpose",
    "paused": "stop using it until it runs again, and check what stands open there",
    "oracle": "wait for a fresh price; trade nothing on a stale one",
    "transport": "retry with backoff and another endpoint; look whether it went through before sending it again",
    "transfer": "simulate first; the token or its balance may not allow the transfer",
    "absent": "look up what is there before asking for it by name",
    "arguments": "check what goes in against what the tool takes",
    "unsolved": "look what the task asked for at the very end, and check that it is there before closing",
    "dropped": "replace it with a better price, and look whether it was mined before sending it again",
    "rejected": "read why it was turned down before asking again",
    "unknown": "keep the error's own words: without them there is nothing to tell such failures apart by",
}
"""What each kind of error calls for; advice, not a claim."""

_CATEGORIES = {
    "slippage": Category.SLIPPAGE,
    "gas": Category.GAS_TIMING,
    "dropped": Category.GAS_TIMING,
    "liquidity": Category.LIQUIDITY_DEPTH,
    "paused": Category.EMERGENCY,
}


def lesson_category(kind: str, rate: float) -> Category:
    """Where every second execution fails it is an emergency, whatever the kind.

    >>> str(lesson_category("transport", 0.1)), str(lesson_category("transport", 1.0)), str(lesson_category("paused", 0.1))
    ('general', 'emergency', 'emergency')
    """
    return Category.EMERGENCY if rate >= EMERGENCY_RATE else _CATEGORIES.get(kind, Category.GENERAL)


def lesson_sentence(claim: Claim, evidence: Evidence, label: str, *, simulated: bool = False) -> str:
    """What fails, with what, how often, and how often before. ``label`` names the group for people."""
    kind = str(claim.conditions[0].value)
    told = {"pair": _micro, "tool": _meso, "global": _macro}[claim.level](kind, evidence)
    return f"{SIMULATED + ' ' if simulated else ''}{label}: {told}"


def _micro(kind: str, evidence: Evidence) -> str:
    if evidence.inside == 1.0 and evidence.outside in (0.0, 1.0) and (evidence.outside == 1.0) == (evidence.n_outside > 0):
        earlier = f", as did all {evidence.n_outside} before" if evidence.n_outside else ""
        return f"all of the last {evidence.n_inside} executions failed with {kind}{earlier}."
    return f"executions fail with {kind}: {_rate(evidence)}{_before(evidence)}."


def _meso(kind: str, evidence: Evidence) -> str:
    kinds = sorted((evidence.kinds or {}).items(), key=lambda item: (-item[1], item[0]))
    counted = ", ".join(f"{name} {count}" for name, count in kinds)
    spread = evidence.spread
    where = f", seen in {spread.pairs_shown} of {spread.pairs} pairs that fail" if spread is not None else ""
    earlier = f", {_percent(evidence.outside)} of the {evidence.n_outside} before" if evidence.n_outside else ""
    share = f"{_percent(evidence.inside)} of the last {evidence.n_inside} failures{earlier}"
    return f"it fails with {kind} most often: {share}{where}; in all {sum((evidence.kinds or {}).values())}: {counted}."


def _macro(kind: str, evidence: Evidence) -> str:
    spread = evidence.spread
    where = f" in {spread.tools_shown} of {spread.tools} tools" if spread is not None else ""
    return f"executions fail with {kind}{where}: {_rate(evidence)} there{_before(evidence)}. What helps: {CALLS_FOR[kind]}."


def _rate(evidence: Evidence) -> str:
    return (
        f"{_percent(evidence.inside)} of the last {evidence.n_inside} "
        f"(interval {_percent(evidence.low)} to {_percent(evidence.high)})"
    )


def _before(evidence: Evidence) -> str:
    return f", {_percent(evidence.outside)} of the {evidence.n_outside} before" if evidence.n_outside else ""


def _percent(share: float) -> str:
    return f"{number(float(f'{100.0 * share:.4g}'))} %"
