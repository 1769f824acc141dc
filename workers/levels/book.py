"""The book of failures: tallies by key, and the teachers of keys, tools and everything that read them.

At most ``MAX_KEYS`` keys are kept; beyond that the one that spoke longest ago is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.operations import AddInsight, DownvoteInsight, EditInsight, UpvoteInsight
from schemas.windows import WindowClosed
from stores.places import is_simulated
from workers.distil.learner import Level
from workers.distil.said import emitted, said
from workers.levels.group import everything, tool_of
from workers.levels.lessons import Taught, Teacher
from workers.levels.tallies import MAX_WINDOWS, Tally
from workers.levels.words import lesson_category, lesson_sentence
from workers.metrics import rounded
from workers.stage import Emission

AUTHOR = "levels"
MAX_KEYS = 512


class Book:
    """Failures by key and window, and the lessons from them."""

    __slots__ = ("_cuts", "_tallies", "_teachers")

    def __init__(self) -> None:
        self._tallies: dict[str, list[Tally]] = {}
        """In the order in which keys last spoke."""
        self._cuts: dict[str, int] = {}
        self._teachers: dict[str, Teacher] = {}

    def close(self, records: Sequence[WindowClosed], end_ms: int, q: float) -> list[Emission]:
        """Take in a window's records, sorted; the operations on lessons that follow."""
        for record in records:
            self._take(record)
        made: list[Emission] = []
        subjects: dict[str, tuple[Level, str, list[str], bool]] = {}
        for record in records:
            if record.key in self._tallies:  # else so many keys spoke in this window that it is forgotten already
                subjects[record.key] = ("pair", record.label, [record.key], record.simulated)
            for name, prefix in ((tool_of(record), f"{record.tool}:"), (everything(record), "")):
                if name.key not in subjects:
                    subjects[name.key] = (name.level, name.label, self._keys(prefix, record.simulated), record.simulated)
        for key, (level, label, keys, simulated) in sorted(subjects.items()):
            teacher = self._teachers.get(key)
            if teacher is None:
                teacher = self._teachers[key] = Teacher(level, key)
            for taught in teacher.close({one: self._tallies[one] for one in keys}, q):
                made.append(_emission(taught, label, end_ms, simulated=simulated))
        return made

    def _keys(self, prefix: str, simulated: bool) -> list[str]:
        return sorted(key for key in self._tallies if key.startswith(prefix) and is_simulated(key) == simulated)

    def _take(self, record: WindowClosed) -> None:
        tallies = self._tallies.pop(record.key, [])
        cut = record.cuts.get("failed", 0)
        if cut > self._cuts.get(record.key, 0):
            self._cuts[record.key] = cut
            tallies = [tally for tally in tallies if tally.end_ms > cut]
            if record.key in self._teachers:
                self._teachers[record.key].restart()
        tallies.append(Tally(record.start_ms, record.end_ms, record.episodes, dict(record.failures), dict(record.failed)))
        if len(tallies) > 1 and tallies[-2].start_ms > record.start_ms:
            tallies.sort(key=lambda tally: tally.start_ms)
        self._tallies[record.key] = tallies[-MAX_WINDOWS:]
        if len(self._tallies) > MAX_KEYS:
            forgotten = next(iter(self._tallies))
            for kept in (self._tallies, self._cuts, self._teachers):
                kept.pop(forgotten, None)

    def to_plain(self) -> dict[str, Any]:
        """The state as JSON values; the order of keys is kept."""
        return {
            "tallies": [[key, [one.to_plain() for one in tallies]] for key, tallies in self._tallies.items()],
            "cuts": self._cuts,
            "teachers": [[key, one.level, one.to_plain()] for key, one in self._teachers.items()],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Book:
        """The book that gave ``plain``."""
        made = cls()
        made._tallies = {str(key): [Tally.from_plain(one) for one in tallies] for key, tallies in plain["tallies"]}
        made._cuts = {str(key): int(cut) for key, cut in plain["cuts"].items()}
        made._teachers = {str(key): Teacher.from_plain(level, str(key), one) for key, level, one in plain["teachers"]}
        return made


def _emission(taught: Taught, label: str, end_ms: int, *, simulated: bool) -> Emission:
    claim, evidence, kind = taught.lesson.claim, taught.evidence, taught.lesson.kind
    inflated = f"binomial p={evidence.p:.3g}, interval {evidence.low:.3f} to {evidence.high:.3f}, n={evidence.n_inside}"
    known = evidence.episode_ids or (claim.key, str(evidence.n_inside), evidence.last_ts.isoformat())
    fields = said(AUTHOR, claim.insight_id, taught.verb, f"{taught.why}; {inflated}", end_ms, known)
    fields["evidence"] = evidence
    if taught.verb == "UPVOTE":
        return emitted(UpvoteInsight(**fields), end_ms)
    if taught.verb == "DOWNVOTE":
        return emitted(DownvoteInsight(**fields), end_ms)
    fields["text"] = lesson_sentence(claim, evidence, label, simulated=simulated)
    fields["claim"] = claim
    if taught.verb == "EDIT":
        return emitted(EditInsight(**fields), end_ms)
    rate = evidence.inside if claim.level != "tool" else 0.0
    about = {"category": lesson_category(kind, rate), "key": claim.key, "label": label, "importance": rounded(evidence.inside)}
    return emitted(AddInsight(**fields, **about, simulated=simulated), end_ms)
