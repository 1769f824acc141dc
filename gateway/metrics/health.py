"""Is it well? Said from progress, not from a port that answers.

**Alive** is a brain in which no stage has had records to read for ``stall_s`` seconds and committed nothing in all that time. A
restart may help one that is not.

**Ready** is one that is alive and whose stages have left no record waiting for more than ``behind_s`` seconds: what it answers
is what happened, up to then. One that is working off a backlog is alive and not ready, and a restart would only make it later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from streams.embedded.tallies import Lag


@dataclass(frozen=True, slots=True)
class StageHealth:
    """One stage: records not read, how long the first of them has waited, how long ago the stage last did something (or was
    started), and for how long it has been stalled. Seconds."""

    lag: int
    waiting_s: float
    silent_s: float
    stalled_s: float


@dataclass(frozen=True, slots=True)
class Health:
    """The whole: whether it is alive, whether it is ready, and what speaks against that, in words."""

    alive: bool
    ready: bool
    problems: tuple[str, ...]
    stages: dict[str, StageHealth]

    def plain(self) -> dict[str, object]:
        """As JSON values."""
        return {
            "alive": self.alive,
            "ready": self.ready,
            "problems": list(self.problems),
            "stages": {name: {field: round(value, 3) for field, value in asdict(one).items()} for name, one in self.stages.items()},
        }


def look(
    lags: Iterable[Lag], stages: Collection[str], last_commits: Mapping[str, float], started_s: float, now_s: float
) -> dict[str, StageHealth]:
    """How each of this process's stages is. A stage that has nothing to read is never stalled, however long it is silent.

    Times are Unix seconds.
    """
    behind: dict[str, int] = dict.fromkeys(stages, 0)
    waiting: dict[str, float] = dict.fromkeys(stages, 0.0)
    silent = {name: max(0.0, now_s - last_commits.get(name, started_s)) for name in stages}
    for lag in lags:
        if lag.kind != "stage" or lag.consumer not in behind or not lag.records:
            continue
        behind[lag.consumer] += lag.records
        since = silent[lag.consumer] if lag.oldest_ms is None else max(0.0, now_s - lag.oldest_ms / 1000)
        waiting[lag.consumer] = max(waiting[lag.consumer], since)
    return {
        name: StageHealth(
            behind[name], waiting[name], silent[name], min(waiting[name], silent[name]) if behind[name] else 0.0
        )
        for name in stages
    }  # fmt: skip


def judge(stages: dict[str, StageHealth], *, stall_s: float, behind_s: float) -> Health:
    """The verdict over all stages."""
    stalled = [
        f"{name} has committed nothing for {one.stalled_s:.0f} s with {one.lag} records to read"
        for name, one in stages.items()
        if one.stalled_s > stall_s
    ]
    late = [
        f"{name} is {one.waiting_s:.0f} s behind ({one.lag} records)" for name, one in stages.items() if one.waiting_s > behind_s
    ]
    return Health(alive=not stalled, ready=not stalled and not late, problems=(*stalled, *late), stages=stages)
