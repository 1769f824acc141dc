"""What is learned of a simulated market, beside what is planted in it: ``python -m bench.planted --seeds 1-5 [--events N]``.

Each seed is run through reflection and the distil stage, without a log and without a model; its operations are judged against the
market's truth. ``--null`` runs markets with nothing planted instead, where every ADD is wrong. A row has

- found: planted effects that some claim shows, of those there from the start;
- noticed: effects that replaced another one at the regime change, and were claimed, voted or edited afterwards;
- planted, unplanted: insights that show planted effects, and insights that do not (``--verbose`` lists the latter and the missed);
- the operations by kind, and events a second.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from time import perf_counter
from typing import Any

from schemas.episodes import Episode, episode_id
from schemas.events import ToolExecution
from schemas.topics import EPISODES_RECORDED, OPERATIONS
from streams.sources.market import Report, judge_operations, simulate, truth_of
from workers.distil.stage import DistilStage
from workers.ledger import Operation
from workers.reflect import reflect
from workers.stage import Delivery, Position, StatefulStage

EVENTS = 20_000
BATCH = 256


@dataclass(frozen=True, slots=True)
class Run:
    """One market, learned and judged."""

    seed: int
    events: int
    planted: bool
    operations: Counter[str]
    report: Report
    seconds: float

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "seed": self.seed,
            "events": self.events,
            "planted": self.planted,
            "operations": dict(sorted(self.operations.items())),
            "seconds": round(self.seconds, 1),
            **self.report.to_plain(),
        }


def run(seed: int, events: int = EVENTS, *, effects: bool = True, make_stage: Callable[[], StatefulStage] = DistilStage) -> Run:
    """Simulate, reflect, distil, judge."""
    started = perf_counter()
    said = list(operations(simulate(seed, events, effects=effects), make_stage()))
    seconds = perf_counter() - started
    report = judge_operations(truth_of(seed, events, effects=effects), said)
    return Run(seed, events, effects, Counter(operation.kind for operation in said), report, seconds)


def operations(events: Iterable[ToolExecution], stage: StatefulStage) -> Iterator[Operation]:
    """What a distil stage makes of events, in order."""
    deliveries = (_delivery(event, offset) for offset, event in enumerate(events))
    while batch := list(islice(deliveries, BATCH)):
        for emission in stage.handle(batch).emissions:
            if emission.topic is OPERATIONS:
                yield emission.message  # type: ignore[misc]


def _delivery(event: ToolExecution, offset: int) -> Delivery:
    thought = reflect(event)
    episode = Episode(
        id=episode_id(event),
        key=event.key,
        label=f"{event.tool} {event.pair_label} on {event.chain}",
        event=event,
        metrics=thought.metrics,
        features=thought.features,
        reflection=thought.text,
        sentence=thought.sentence,
        vector=b"",
        model="none",
        importance=thought.importance,
    )
    position = Position(EPISODES_RECORDED.name, 0, offset)
    return Delivery(position, event.key.encode(), episode, round(event.ts_executed.timestamp() * 1000))


def seeds_of(text: str) -> list[int]:
    """Seeds from ``1-5``, ``7`` or ``1-3,9``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def row(run: Run) -> str:
    """A run in one line."""
    report, kinds = run.report, run.operations
    starting, following = len(report.found) + len(report.missed), len(report.noticed) + len(report.unnoticed)
    counted = " ".join(f"{kind} {kinds[kind]:>3}" for kind in ("ADD", "UPVOTE", "DOWNVOTE", "EDIT"))
    return (
        f"{run.seed:>6}  {len(report.found):>3}/{starting:<3} {len(report.noticed):>3}/{following:<3} "
        f"{len(report.planted_claims):>7} {len(report.unplanted_claims):>9}  {counted}  {run.events / run.seconds:>6.0f}/s"
    )


def details(run: Run) -> Iterator[str]:
    """What went wrong in a run, line by line."""
    for effect in (*run.report.missed, *run.report.unnoticed):
        yield f"        missed     {effect}"
    for verdict in run.report.unplanted_claims:
        yield f"        unplanted  {verdict.stated.claim.key.split('/')[0]}: {verdict.stated.text} — {verdict.why}"


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """The figures over all runs: pooled precision, mean recall, share of runs with any unplanted insight."""
    good = sum(len(run.report.planted_claims) for run in runs)
    bad = sum(len(run.report.unplanted_claims) for run in runs)
    return {
        "runs": len(runs),
        "precision": round(good / (good + bad), 4) if good + bad else 1.0,
        "recall": round(fmean(run.report.recall for run in runs), 4),
        "noticed": round(fmean(len(run.report.noticed) for run in runs), 2),
        "runs_with_unplanted": sum(bool(run.report.unplanted_claims) for run in runs),
        "insights": good + bad,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("1-5"))
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--null", action="store_true", help="plant nothing")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", action="store_true", help="one document instead of the table")
    given = parser.parse_args(arguments)
    if not given.json:
        print(f"  seed    found noticed planted unplanted  operations ({given.events} simulated events)")
    runs = []
    for seed in given.seeds:
        runs.append(run(seed, given.events, effects=not given.null))
        if not given.json:
            print("\n".join([row(runs[-1]), *(details(runs[-1]) if given.verbose else ())]), flush=True)
    print(json.dumps({"summary": summary(runs), "runs": [each.to_plain() for each in runs]}) if given.json else summary(runs))


if __name__ == "__main__":
    main()
