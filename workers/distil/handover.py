"""What a key's closed window hands to the levels above: its fresh observations, in bounded size (ADR 0007).

Of a window with more than ``MAX_ROWS`` observations every n-th is sent, evenly over its time; how many are left out is in the
record. Failures are counted before that. What means something else in every pair, or is an identifier, stays behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from schemas.events import Action
from schemas.identity import content_id
from schemas.topics import WINDOWS_CLOSED
from schemas.windows import MAX_FAILED, MAX_ROWS, WindowClosed
from workers.distil.observations import Cell, Observation
from workers.metrics import workable
from workers.stage import Emission

OF_THE_PAIR = frozenset({"pool", "side", "size"})
"""Features that have no common meaning across pairs: ``size`` is in the pair's own first token, ``side`` names it."""
LONGEST_LABEL = 64


def window_closed(
    *,
    key: str,
    label: str,
    action: Action,
    start_ms: int,
    end_ms: int,
    source: int,
    sequence: int,
    watermark_ms: int | None,
    closing: Sequence[Observation],
    cuts: Mapping[str, int],
) -> Emission:
    """The record of a window whose observations are ``closing``, in order."""
    n = len(closing)
    kept = closing if n <= MAX_ROWS else [closing[i * n // MAX_ROWS] for i in range(MAX_ROWS)]
    failed = [one for one in closing if one.error]
    kinds = Counter(one.error for one in failed)
    message = WindowClosed(
        id=content_id("window", key, start_ms, source, sequence),
        key=key,
        tool=key.partition(":")[0],
        label=label,
        action=action,
        simulated=any(one.simulated for one in closing),
        source=source,
        sequence=sequence,
        start_ms=start_ms,
        end_ms=end_ms,
        watermark_ms=watermark_ms,
        episodes=n,
        thinned=n - len(kept),
        ids=tuple(one.id for one in kept),
        ts_ms=tuple(one.ts_ms for one in kept),
        metrics={name: tuple(one.metrics.get(name) for one in kept) for name in _names([one.metrics for one in kept])},
        **_features(kept),
        failures=dict(sorted(kinds.items())),
        failed={kind: tuple(one.id for one in failed if one.error == kind)[-MAX_FAILED:] for kind in sorted(kinds)},
        cuts=dict(sorted(cuts.items())),
    )
    return Emission(WINDOWS_CLOSED, message.tool, message, message.id, end_ms)


def _names(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return sorted({name for row in rows for name in row})


def _features(kept: Sequence[Observation]) -> dict[str, dict[str, tuple[Cell | None, ...]]]:
    """Numbers and labels apart; a feature that is now one and now the other is in both."""
    numbers: dict[str, list[Cell | None]] = {}
    labels: dict[str, list[Cell | None]] = {}
    for i, one in enumerate(kept):
        for name, cell in one.features.items():
            if name in OF_THE_PAIR or (isinstance(cell, str) and len(cell.encode()) > LONGEST_LABEL):
                continue
            columns = labels if isinstance(cell, (bool, str)) else numbers
            columns.setdefault(name, [None] * len(kept))[i] = cell
    return {
        "numbers": {name: tuple(column) for name, column in sorted(numbers.items())},
        "labels": {name: tuple(column) for name, column in sorted(labels.items())},
    }


def observations_of(record: WindowClosed) -> list[Observation]:
    """The observations that a record carries, whoever wrote it."""
    rows = []
    for i, (identity, ts_ms) in enumerate(zip(record.ids, record.ts_ms, strict=True)):
        metrics = {name: value for name, column in record.metrics.items() if (value := column[i]) is not None and workable(value)}
        features: dict[str, Cell] = {
            name: cell for name, column in record.numbers.items() if (cell := column[i]) is not None and workable(cell)
        }
        features |= {name: label for name, column in record.labels.items() if (label := column[i]) is not None}
        rows.append(Observation(ts_ms, identity, metrics, features, record.simulated, group=record.key))
    return rows
