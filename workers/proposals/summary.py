"""What a proposer is shown of a key: the older half of its rows, in numbers and quoted names. Nothing of the newer half.

Text that producers wrote (categories) is quoted, cut and called data. A proposer that follows it anyway can only propose, and what
it proposes is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from workers.distil.observations import View
from workers.metrics import METRICS
from workers.proposals.claims import Evidence
from workers.wording import number, quoted

BINS = 4
MOST_FEATURES = 12
MOST_LEVELS = 8
FEWEST = 60
"""Rows of the older half without which a metric is not worth a question."""

Kinds = dict[str, Literal["number", "text", "bool"]]


def askable(evidence: Evidence) -> list[str]:
    """The metrics with rows enough."""
    return [name for name in METRICS if len(evidence.of(name)[0]) >= FEWEST]


def feature_kinds(view: View) -> Kinds:
    """The features of some rows with their types, numbers first."""
    kinds: Kinds = {}
    for name in view.numbers:
        if not np.isnan(view.numbers[name]).all():
            kinds[name] = "number"
    for name, levels in view.levels.items():
        if name not in kinds and (view.codes[name] >= 0).any():
            kinds[name] = "bool" if all(isinstance(level, bool) for level in levels) else "text"
    return kinds


def summary(label: str, evidence: Evidence, longest: int = 8000) -> str:
    """Every askable metric's older half, by feature: rows and the metric's typical value in each part of its range.

    Whole lines only, as many as fit into ``longest`` characters, what is watched first. Empty where nothing can be asked.
    """
    lines: list[str] = []
    for name in askable(evidence):
        older, _ = evidence.of(name)
        metric = METRICS[name]
        level = "share" if metric.binary else "median"
        outcome = older.metrics[name]
        typical = outcome.mean() if metric.binary else np.median(outcome)
        lines.append(
            f"metric {name} ({metric.phrase}, {metric.unit}; {metric.worse} is worse): {len(older)} rows, {level} {_short(typical)}"
        )
        lines += _by_feature(older, name)
    if not lines:
        return ""
    kept = [f"market {quoted(label)}"]
    room = longest - len(kept[0])
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _by_feature(view: View, metric: str) -> Iterator[str]:
    for name, kind in list(feature_kinds(view).items())[:MOST_FEATURES]:
        parts = _bins(view, name, metric) if kind == "number" else _levels(view, name, metric)
        if len(parts) > 1:
            yield f"  feature {name} ({kind}): {'; '.join(parts)}"


def _bins(view: View, feature: str, metric: str) -> list[str]:
    column = view.numbers[feature]
    known = column[~np.isnan(column)]
    edges = np.unique(np.quantile(known, np.linspace(0, 1, BINS + 1)))
    parts = []
    for i in range(len(edges) - 1):
        last = i == len(edges) - 2
        inside = (column >= edges[i]) & ((column <= edges[i + 1]) if last else (column < edges[i + 1]))
        if inside.any():
            parts.append(f"{_short(edges[i])} to {_short(edges[i + 1])}: n {int(inside.sum())}, {_level(view, metric, inside)}")
    return parts


def _levels(view: View, feature: str, metric: str) -> list[str]:
    codes = view.codes[feature]
    counted = sorted(((int((codes == code).sum()), code) for code in range(len(view.levels[feature]))), reverse=True)
    parts = []
    for count, code in counted[:MOST_LEVELS]:
        if count:
            level = view.levels[feature][code]
            name = str(level).lower() if isinstance(level, bool) else quoted(level)
            parts.append(f"{name}: n {count}, {_level(view, metric, codes == code)}")
    return parts


def _level(view: View, metric: str, rows: np.typing.NDArray[np.bool_]) -> str:
    outcome = view.metrics[metric][rows]
    return _short(outcome.mean() if METRICS[metric].binary else np.median(outcome))


def _short(value: float) -> str:
    return number(float(f"{float(value):.4g}"))
