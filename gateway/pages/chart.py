"""What is drawn: an insight's confidence, and signals along the time; as SVG that needs no script and takes the page's colours.

Confidence is a step line through every change of an insight. Each change is at the same distance from the next, because reading
which operation moved it matters more than the days between; the times stand in the table beside it, which says the same in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 160
LEFT, RIGHT, TOP, BOTTOM = 36, 12, 10, 22


@dataclass(frozen=True, slots=True)
class Point:
    """A change's mark."""

    x: float
    y: float
    kind: str
    title: str
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What the template draws: a path, a mark for each change, and horizontal lines at quarters."""

    width: int
    height: int
    path: str
    points: tuple[Point, ...]
    lines: tuple[tuple[float, str], ...]
    left: int
    right: int
    summary: str


def confidence_chart(changes: Sequence[tuple[str, str, float]]) -> Chart:
    """A chart of changes in order: kind, time and the confidence (0 … 1) after each.

    >>> chart = confidence_chart([("ADD", "2026-01-01", 0.6), ("UPVOTE", "2026-01-02", 0.7)])
    >>> chart.summary, len(chart.points)
    ('2 changes, confidence from 0.60 to 0.70', 2)
    """
    inner_w, inner_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = inner_w / max(1, len(changes) - 1)
    every = max(1, -(-len(changes) // 12))
    points = tuple(
        Point(
            round(LEFT + step * n, 1),
            round(TOP + inner_h * (1 - value), 1),
            kind,
            f"{kind} {when}: {value:.2f}",
            str(n + 1) if n % every == 0 else "",
        )
        for n, (kind, when, value) in enumerate(changes)
    )
    path = ""
    for n, point in enumerate(points):
        path += f"M{point.x} {point.y}" if n == 0 else f"H{point.x}V{point.y}"
    lines = tuple((round(TOP + inner_h * (1 - quarter), 1), f"{quarter:.2f}") for quarter in (0.0, 0.25, 0.5, 0.75, 1.0))
    told = f"{len(changes)} change{'' if len(changes) == 1 else 's'}"
    summary = f"{told}, confidence from {changes[0][2]:.2f} to {changes[-1][2]:.2f}" if changes else "no changes"
    return Chart(WIDTH, HEIGHT, path, points, lines, LEFT, WIDTH - RIGHT, summary)


@dataclass(frozen=True, slots=True)
class Lane:
    """One stream's line in a timeline."""

    y: float
    name: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Marks of signals along the time, a lane a stream; ``ends`` are the first and the last moment."""

    width: int
    height: int
    left: int
    right: int
    lanes: tuple[Lane, ...]
    marks: tuple[Point, ...]
    ends: tuple[str, str]
    summary: str


LANE, LANES = 24, 12
NAMES_WIDTH = 380


def timeline(signals: Sequence[tuple[str, str, float, str, str]]) -> Timeline:
    """A timeline of signals: stream, kind, Unix seconds, the moment for people, and what changed; the busiest streams only.

    >>> drawn = timeline([("a|cost", "drift", 10.0, "10 s", "up"), ("b|gas", "regime", 20.0, "20 s", "calm")])
    >>> drawn.summary, [lane.name for lane in drawn.lanes]
    ('2 signals of 2 streams, from 10 s to 20 s', ['a|cost', 'b|gas'])
    """
    counts = Counter(stream for stream, *_ in signals)
    shown = sorted(sorted(counts, key=lambda name: (-counts[name], name))[:LANES])
    lanes = {name: Lane(TOP + LANE * (n + 0.5), name) for n, name in enumerate(shown)}
    left, right = NAMES_WIDTH, WIDTH + NAMES_WIDTH - RIGHT
    moments = [seconds for _, _, seconds, _, _ in signals]
    first, last = min(moments, default=0.0), max(moments, default=0.0)
    scale = (right - left - 12) / max(1e-9, last - first)
    marks = tuple(
        Point(round(left + 6 + (seconds - first) * scale, 1), lanes[stream].y, kind, f"{when} {kind}: {what}", "")
        for stream, kind, seconds, when, what in signals
        if stream in lanes
    )
    by_time = sorted(signals, key=lambda one: one[2])
    ends = (by_time[0][3], by_time[-1][3]) if by_time else ("", "")
    rest = f", the {len(lanes)} busiest drawn" if len(counts) > len(lanes) else ""
    told = f"{len(signals)} signals of {len(counts)} streams{rest}, from {ends[0]} to {ends[1]}" if signals else "no signals"
    return Timeline(WIDTH + NAMES_WIDTH, TOP + LANE * len(lanes) + BOTTOM, left, right, tuple(lanes.values()), marks, ends, told)
