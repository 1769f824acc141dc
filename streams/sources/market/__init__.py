"""A simulated trading desk with planted effects, the truth about it, and a judge of what was learned from it.

Nothing here is real: every event is marked ``simulated``, comes from the agent ``simulator`` and happens on development chains.
"""

from streams.sources.market.judge import PARTS, Report, Stated, Verdict, by_part, judge, judge_operations, judge_stated, stated
from streams.sources.market.simulate import NullKind, simulate
from streams.sources.market.truth import Effect, Truth, truth_of

__all__ = [
    "PARTS",
    "Effect",
    "NullKind",
    "Report",
    "Stated",
    "Truth",
    "Verdict",
    "by_part",
    "judge",
    "judge_operations",
    "judge_stated",
    "simulate",
    "stated",
    "truth_of",
]
