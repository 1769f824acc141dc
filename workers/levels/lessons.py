"""Lessons from failures, which need no success to compare with (after SaMuLe's three levels).

- **micro**, about a key: its executions fail with one kind of error, at a rate over the floor (``RATE_FLOOR``);
- **meso**, about a tool: of its failures one kind is the most frequent, with the numbers of all kinds (an error taxonomy);
- **macro**, about everything: a kind of error occurs at a rate over the floor in at least two tools.

Each is a claim that can be wrong, ``error_kind == …``, with the same life as any other. It is added when the counts say so: an
exact binomial test, of the newer half against the floor or of all failures for the more frequent of two kinds against one half,
widened for failures that come in bursts, at the α that this look may spend. There is nothing to explore: no condition is searched
for, and kinds are corrected for with Bonferroni. Then only windows that no verdict has used yet are asked:

=====================================================  ========
the interval of the fresh rate (share)                 verdict
=====================================================  ========
lies under the floor (another kind leads)              DOWNVOTE
lies over it, clear of the claimed one and far off     EDIT
lies over it                                           UPVOTE
anything else                                          none yet
=====================================================  ========
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import Any, Literal

from schemas.claims import Claim, Condition, Evidence, Spread
from workers.distil.learner import Level
from workers.distil.mine import RATE_FLOOR
from workers.distil.stats import Dependence, alpha_spent, wilson
from workers.distil.verdicts import FIRST_LOOK, GROWTH, REFUTED_AFTER
from workers.errors import KINDS
from workers.levels.tallies import Tally, binomial_tail, dispersion, halves, merged
from workers.metrics import rounded

ERROR_KIND = "error_kind"
"""The feature that a lesson's condition is on. It is known afterwards only, so nothing else is ever conditioned on it."""
LEAST_FAILURES = 6
"""Fewest failures of a kind for a lesson about it; each further look waits for half as many new ones as there were."""
LEAST_SHARED = 12
"""Fewest failures for a taxonomy; half as many for a vote."""
FAR_OFF = 1.5
"""How many times another a rate must be to be worth an EDIT; a share must have moved by ``SHARE_OFF``."""
SHARE_OFF = 0.2
Verb = Literal["ADD", "UPVOTE", "DOWNVOTE", "EDIT"]
Series = Mapping[str, Sequence[Tally]]
"""Each key's tallies, oldest first."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson believed: its claim, what it rests on, up to when windows are used up, and how long the next look waits."""

    claim: Claim
    evidence: Evidence
    used_ms: int
    look: int
    against: int = 0

    @property
    def kind(self) -> str:
        """The kind of error."""
        return str(self.claim.conditions[0].value)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "claim": self.claim.model_dump(mode="json"),
            "evidence": self.evidence.model_dump(mode="json"),
            "used": self.used_ms,
            "look": self.look,
            "against": self.against,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Lesson:
        """The lesson that gave ``plain``."""
        claim, evidence = Claim.model_validate(plain["claim"]), Evidence.model_validate(plain["evidence"])
        return cls(claim, evidence, int(plain["used"]), int(plain["look"]), int(plain["against"]))


@dataclass(frozen=True, slots=True)
class Taught:
    """What became of a lesson, and why in a few words."""

    verb: Verb
    lesson: Lesson
    evidence: Evidence
    why: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """A rate or share with its interval and p; ``holds`` and ``fails`` say where the interval lies."""

    evidence: Evidence
    holds: bool
    fails: bool


class Teacher:
    """The lessons of one level about one group: a key, a tool or everything. ``kinds`` are the looks spent on each kind."""

    __slots__ = ("_looks", "key", "lessons", "level")

    def __init__(self, level: Level, key: str) -> None:
        self.level = level
        self.key = key
        self.lessons: list[Lesson] = []
        self._looks: dict[str, tuple[int, int]] = {}
        """By kind: looks, and failures at the last of them."""

    def close(self, series: Series, q: float) -> list[Taught]:
        """What the tallies, the last of which have just come in, change. ``q`` is spent over the kinds and the looks."""
        taught = [one for i, lesson in enumerate(self.lessons) if (one := self._judge(i, lesson, series)) is not None]
        known = {lesson.kind for lesson in self.lessons}
        totals: dict[str, int] = {}
        for tallies in series.values():
            for tally in tallies:
                for kind, count in tally.kinds.items():  # a tenth of the time of Counter.update, and every window comes here
                    totals[kind] = totals.get(kind, 0) + count
        for kind, failures in sorted(totals.items()):
            found = None if kind in known else self._look(kind, failures, series, q)
            if found is not None:
                taught.append(found)
        return taught

    def restart(self) -> None:
        """The evidence was closed: looks start anew. What is believed stays, to be judged by what comes."""
        self._looks = {}

    def _look(self, kind: str, failures: int, series: Series, q: float) -> Taught | None:
        looks, before = self._looks.get(kind, (0, 0))
        if failures < max(LEAST_FAILURES, ceil(before * GROWTH)):
            return None
        reading = self._read(kind, series, alpha_spent(q / len(KINDS), looks + 1))
        if reading is None:
            return None
        self._looks[kind] = (looks + 1, failures)
        if not reading.holds:
            return None
        condition = Condition(feature=ERROR_KIND, op="==", value=kind)
        claim = Claim(level=self.level, key=self.key, metric="failed", conditions=(condition,), direction="higher")
        lesson = Lesson(claim, reading.evidence, _end(series), FIRST_LOOK)
        self.lessons.append(lesson)
        return Taught("ADD", lesson, reading.evidence, "the counts say so")

    def _judge(self, i: int, lesson: Lesson, series: Series) -> Taught | None:
        fresh = {key: [one for one in tallies if one.start_ms >= lesson.used_ms] for key, tallies in series.items()}
        fresh = {key: tallies for key, tallies in fresh.items() if tallies}
        size = sum(one.failures if self.level == "tool" else one.n for tallies in fresh.values() for one in tallies)
        if size < lesson.look:
            return None
        reading = self._read(lesson.kind, fresh, None)
        if reading is None or not (reading.holds or reading.fails):
            self.lessons[i] = replace(lesson, look=ceil(size * GROWTH))
            return None
        after = replace(lesson, used_ms=_end(series), look=FIRST_LOOK, against=lesson.against + 1 if reading.fails else 0)
        if reading.fails:
            self.lessons[i] = after
            gone = "another kind of error leads" if self.level == "tool" else "it hardly happens any more"
            return Taught("DOWNVOTE", after, reading.evidence, gone) if after.against <= REFUTED_AFTER else None
        if self._otherwise(lesson.evidence, reading.evidence):
            self.lessons[i] = after = replace(after, evidence=reading.evidence)
            return Taught("EDIT", after, reading.evidence, "it is another rate than claimed")
        self.lessons[i] = after
        return Taught("UPVOTE", after, reading.evidence, "the same holds")

    def _otherwise(self, claimed: Evidence, seen: Evidence) -> bool:
        apart = seen.low > claimed.high or seen.high < claimed.low
        if self.level == "tool":
            return apart and abs(seen.inside - claimed.inside) > SHARE_OFF
        return apart and max(seen.inside, claimed.inside) > FAR_OFF * min(seen.inside, claimed.inside)

    def _read(self, kind: str, series: Series, alpha: float | None) -> _Reading | None:
        """What tallies say of a kind; with ``alpha`` as a new claim, without it as a vote on one (by the interval)."""
        if self.level == "tool":
            return _share(kind, series, alpha)
        if self.level == "pair":
            return _rate(kind, merged(one for tallies in series.values() for one in tallies), alpha)
        return _in_tools(kind, series, alpha)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "lessons": [one.to_plain() for one in self.lessons],
            "looks": {kind: list(one) for kind, one in self._looks.items()},
        }

    @classmethod
    def from_plain(cls, level: Level, key: str, plain: dict[str, Any]) -> Teacher:
        """The teacher that gave ``plain``."""
        made = cls(level, key)
        made.lessons = [Lesson.from_plain(one) for one in plain["lessons"]]
        made._looks = {kind: (int(looks), int(failures)) for kind, (looks, failures) in plain["looks"].items()}
        return made


def _rate(kind: str, series: Sequence[Tally], alpha: float | None, spread: Spread | None = None) -> _Reading | None:
    """The share of executions that fail with a kind: of the newer half for a new claim, of all rows for a vote."""
    older, newer = halves(series) if alpha is not None else ([], list(series))
    k, n = sum(one.of(kind) for one in newer), sum(one.n for one in newer)
    if not n:
        return None
    wide = dispersion([one.of(kind) for one in newer], [one.n for one in newer])
    p = Dependence(wide, max(1.0, len(newer) - 1.0)).deflate(binomial_tail(k, n, RATE_FLOOR))
    before = sum(one.n for one in older)
    outside = sum(one.of(kind) for one in older) / before if before else 0.0
    evidence = _evidence(kind, series, (k, n, before), outside, wide, p, spread)
    if alpha is None:
        return _Reading(evidence, evidence.low > RATE_FLOOR, evidence.high < RATE_FLOOR)
    return _Reading(evidence, p <= alpha, False)


def _share(kind: str, series: Series, alpha: float | None) -> _Reading | None:
    """The share of a tool's failures that are of a kind, and whether it leads: over all of them, and in the newer half too."""
    whole = [one for one in merged(one for tallies in series.values() for one in tallies) if one.failures]
    older, newer = halves(whole) if alpha is not None else ([], whole)
    kinds, late = _by_kind(whole), _by_kind(newer)
    n = sum(late.values())
    if sum(kinds.values()) < (LEAST_SHARED if alpha is not None else LEAST_SHARED // 2) or not n:
        return None
    k, second = kinds.get(kind, 0), max((count for name, count in kinds.items() if name != kind), default=0)
    wide = dispersion([one.of(kind) for one in whole], [one.failures for one in whole])
    p = Dependence(wide, max(1.0, len(whole) - 1.0)).deflate(binomial_tail(k, k + second, 0.5)) if k else 1.0
    before = sum(one.failures for one in older)
    outside = sum(one.of(kind) for one in older) / before if before else 0.0
    evidence = _evidence(kind, whole, (late.get(kind, 0), n, before), outside, wide, p, _spread(kind, series), all_kinds=True)
    if alpha is not None:
        return _Reading(evidence, p <= alpha and late.get(kind, 0) == max(late.values()), False)
    low, high = wilson(k / wide, (k + second) / wide) if k + second else (0.0, 1.0)
    return _Reading(evidence, low > 0.5, high < 0.5)


def _by_kind(series: Sequence[Tally]) -> dict[str, int]:
    """Failures by kind."""
    total: Counter[str] = Counter()
    for one in series:
        total.update(one.kinds)
    return dict(sorted(total.items()))


def _in_tools(kind: str, series: Series, alpha: float | None) -> _Reading | None:
    """The rate over the tools in which a kind occurs at all; it has to hold in two of them by themselves."""
    tools: dict[str, list[Tally]] = {}
    for key, tallies in series.items():
        tools.setdefault(key.partition(":")[0], []).extend(tallies)
    whole = {tool: merged(tallies) for tool, tallies in sorted(tools.items())}
    read = {tool: reading for tool, rows in whole.items() if (reading := _rate(kind, rows, alpha)) is not None}
    holding = [tool for tool, reading in read.items() if reading.holds]
    occurs = [tool for tool, rows in whole.items() if any(one.of(kind) for one in rows)]
    concerned = holding if len(holding) >= 2 else occurs or list(whole)  # nowhere: all that there was speaks against it
    rows = merged(one for tool in concerned for one in whole[tool])
    keys = [key for key in series if key.partition(":")[0] in concerned]
    shown = sum(any(one.of(kind) for one in series[key]) for key in keys)
    spread = Spread(pairs=max(1, len(keys)), pairs_shown=shown, tools=max(1, len(tools)), tools_shown=len(holding))
    whole_reading = _rate(kind, rows, alpha, spread)
    if whole_reading is None:
        return None
    fewer_than_two = sum(not reading.fails for reading in read.values()) < 2
    return _Reading(whole_reading.evidence, len(holding) >= 2, alpha is None and fewer_than_two)


def _spread(kind: str, series: Series) -> Spread:
    failing = [any(one.of(kind) for one in tallies) for tallies in series.values() if any(one.failures for one in tallies)]
    return Spread(pairs=max(1, len(failing)), pairs_shown=sum(failing), tools=1, tools_shown=1)


def _evidence(
    kind: str,
    series: Sequence[Tally],
    counts: tuple[int, int, int],
    outside: float,
    wide: float,
    p: float,
    spread: Spread | None,
    *,
    all_kinds: bool = False,
) -> Evidence:
    """``counts``: failures of the kind, of how many, and how many came before."""
    k, n, before = counts
    low, high = wilson(k / wide, n / wide)
    ids = [identity for one in series for identity in one.ids.get(kind, ())]
    return Evidence(
        kind="rate",
        effect=rounded(k / n),
        low=rounded(max(0.0, low)),
        high=rounded(min(1.0, high)),
        n_inside=n,
        n_outside=before,
        inside=rounded(k / n),
        outside=rounded(outside),
        unit="rate",
        p=rounded(p),
        q=rounded(min(1.0, p * len(KINDS))),
        first_ts=datetime.fromtimestamp(series[0].start_ms / 1000, UTC),
        last_ts=datetime.fromtimestamp((series[-1].end_ms - 1) / 1000, UTC),
        episode_ids=tuple(dict.fromkeys(ids[-20:])),
        spread=spread,
        kinds=_by_kind(series) if all_kinds else None,
    )


def _end(series: Series) -> int:
    return max(one.end_ms for tallies in series.values() for one in tallies)
