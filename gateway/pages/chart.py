"""Confidence drawn: a step line through every change of an insight, as an SVG that needs no script and takes the page's colours.

Each change is at the same distance from the next, because reading which operation moved it matters more than the days between; the
times stand in the table beside it, which says the same in words.
"""

from __future__ import annotations

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
