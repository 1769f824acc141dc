"""What is learned of a simulated market, beside what is planted in it: ``python -m bench.planted --seeds 1-5 [--events N]``.

Each seed is run through reflection, the distil stage and the levels stage, without a log and without a model; the operations are
judged against the market's truth, which says what is planted in each key, above the keys, and which errors deserve a lesson.
``--only-pairs`` plants and learns nothing above the keys: the market of a seed as it was before there were levels. ``--null`` runs
markets with nothing planted instead, where every claim is wrong and only the taxonomies of what failed are right; ``--null-kind``
says with which noise. A row has, for each part (claims about pairs, tools, everything; lessons about keys, tools, everything),

- effects that some claim shows of those there from the start, and claims that show planted effects + claims that do not;
- noticed: effects that replaced another one at the regime change, and were claimed, voted or edited afterwards;
- below .5: how many episodes with the metric, after the reversal planted in one key, until the insight concerned had lost its
  confidence; and how many votes went against insights that nothing had happened to meanwhile;
- events a second. ``--verbose`` lists the claims that are not planted, and what was missed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import islice
from statistics import fmean, median
from time import perf_counter
from typing import Any, get_args

from schemas.episodes import Episode, episode_id
from schemas.events import ToolExecution
from schemas.insights import Insight
from schemas.topics import EPISODES_RECORDED, OPERATIONS, WINDOWS_CLOSED
from streams.sources.market import PARTS, NullKind, Report, Truth, by_part, judge_operations, simulate, truth_of
from streams.sources.market.judge import stated_by, verdict
from workers.distil.learning import Learning
from workers.distil.stage import DistilStage
from workers.ledger import Operation, Rejected, apply
from workers.levels.stage import LevelsStage
from workers.reflect import reflect
from workers.stage import Delivery, Position, StatefulStage

EVENTS = 20_000
BATCH = 64
WITHIN = 500
"""Relevant episodes after a reversal, inside which the insight concerned should have lost its confidence."""
HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class Reversal:
    """What became of the insights about an effect that turned round. ``episodes`` is None where none lost its confidence in time,
    ``concerned`` how many of them were believed at the change, ``unaffected_lost`` the votes against others within ``WITHIN``, and
    ``lost_before`` those against the same others in as many episodes before the change, when nothing had turned.
    """

    concerned: int
    episodes: int | None
    unaffected_lost: int
    lost_before: int


@dataclass(frozen=True, slots=True)
class Run:
    """One market, learned and judged."""

    seed: int
    events: int
    planted: bool
    operations: Counter[str]
    report: Report
    parts: dict[str, Report]
    reversal: Reversal | None
    seconds: float

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "seed": self.seed,
            "events": self.events,
            "planted": self.planted,
            "operations": dict(sorted(self.operations.items())),
            "seconds": round(self.seconds, 1),
            "reversal": None
            if self.reversal is None
            else {name: getattr(self.reversal, name) for name in ("concerned", "episodes", "unaffected_lost", "lost_before")},
            "parts": {part: report.to_plain() for part, report in self.parts.items()},
            **self.report.to_plain(),
        }


def run(seed: int, events: int = EVENTS, *, effects: bool = True, above: bool = True, null_kind: NullKind = "market") -> Run:
    """Simulate, reflect, distil, judge."""
    started = perf_counter()
    relevant: dict[str, list[float]] = {}
    market = _noting(simulate(seed, events, effects=effects, above=above, null_kind=null_kind), relevant)
    told = [
        (operation, {key: len(times) for key, times in relevant.items()})
        for operation in operations(market, DistilStage(Learning()), LevelsStage(sources=1) if above else None)
    ]
    said = [operation for operation, _ in told]
    seconds = perf_counter() - started
    truth = truth_of(seed, events, effects=effects, above=above)
    if not above:
        truth = truth.model_copy(update={"above": (), "lessons": ()})
    report = judge_operations(truth, said)
    turned = reversal(truth, told, relevant) if effects else None
    kinds = Counter(str(operation.kind) for operation in said)
    return Run(seed, events, effects, kinds, report, by_part(truth, report), turned, seconds)


def _noting(events: Iterable[ToolExecution], relevant: dict[str, list[float]]) -> Iterator[ToolExecution]:
    """The same events; the times of each key's successes are noted on the way."""
    for event in events:
        if event.status == "success":
            relevant.setdefault(event.key, []).append(event.ts_executed.timestamp())
        yield event


def operations(events: Iterable[ToolExecution], stage: StatefulStage, levels: StatefulStage | None = None) -> Iterator[Operation]:
    """What a distil stage, and the levels stage behind it, make of events, in order."""
    deliveries = (_delivery(event, offset) for offset, event in enumerate(events))
    windows = 0
    while batch := list(islice(deliveries, BATCH)):
        handed: list[Delivery] = []
        for emission in stage.handle(batch).emissions:
            if emission.topic is OPERATIONS:
                yield emission.message  # type: ignore[misc]
            elif emission.topic is WINDOWS_CLOSED:
                position = Position(WINDOWS_CLOSED.name, 0, windows + len(handed))
                handed.append(Delivery(position, emission.key.encode(), emission.message, emission.ts_ms))
        windows += len(handed)
        for emission in levels.handle(handed).emissions if levels is not None else ():
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


def reversal(truth: Truth, told: Sequence[tuple[Operation, dict[str, int]]], relevant: dict[str, list[float]]) -> Reversal | None:
    """What the operations did to the insights about the effect whose direction turned; None where none was believed by then.

    ``told`` has, beside each operation, how many successes of each key had been seen when it came out, to a batch. Concerned are
    insights that show the effect before the change and are wrong after it; unaffected are those that show other effects, before and
    after.
    """
    (turning,) = [effect for effect in truth.effects if effect.follows and effect.id.endswith("router-moves-cost:changed")]
    change = truth.change_ts
    start = sum(time <= change.timestamp() for time in relevant.get(turning.key, ()))
    insights: dict[str, Insight] = {}
    before = [operation for operation, seen in told if seen.get(turning.key, 0) <= start]
    for operation in before:
        _fold(insights, operation)
    concerned, unaffected = set(), set()
    for identity, insight in insights.items():
        claim = stated_by(insight)
        if claim is None or insight.confidence < HALF:
            continue
        early = verdict(truth, replace(claim, first_ts=truth.start_ts, last_ts=truth.start_ts))
        late = verdict(truth, replace(claim, first_ts=change, last_ts=change))
        if early.planted and turning.follows not in early.effects and late.planted:
            unaffected.add(identity)
        elif early.planted and turning.follows in early.effects and not late.planted:
            concerned.add(identity)
    if not concerned:
        return None
    earlier = [operation for operation, seen in told[: len(before)] if start - seen.get(turning.key, 0) <= WITHIN]
    lost_before = sum(operation.insight_id in unaffected and operation.kind == "DOWNVOTE" for operation in earlier)
    lost, fell = 0, None
    for operation, seen in told[len(before) :]:
        since = seen[turning.key] - start
        _fold(insights, operation)
        lost += operation.insight_id in unaffected and operation.kind == "DOWNVOTE" and since <= WITHIN
        if fell is None and all(insights[one].confidence < HALF for one in concerned):
            fell = since
    return Reversal(len(concerned), fell, lost, lost_before)


def _fold(insights: dict[str, Insight], operation: Operation) -> None:
    after = apply(insights.get(operation.insight_id), operation)  # type: ignore[arg-type]
    if not isinstance(after, Rejected):
        insights[operation.insight_id] = after


def seeds_of(text: str) -> list[int]:
    """Seeds from ``1-5``, ``7`` or ``1-3,9``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def row(run: Run) -> str:
    """A run in one line."""
    cells = []
    for report in run.parts.values():
        effects = f"{len(report.found)}/{len(report.found) + len(report.missed)}"
        cells.append(f"{effects:>7} {len(report.planted_claims):>3}+{len(report.unplanted_claims):<2}")
    report = run.report
    noticed = f"{len(report.noticed)}/{len(report.noticed) + len(report.unnoticed)}"
    turned = "-" if run.reversal is None else f"{run.reversal.episodes or '>'},{run.reversal.unaffected_lost}"
    return f"{run.seed:>6} {' '.join(cells)} {noticed:>8} {turned:>8} {run.events / run.seconds:>6.0f}/s"


def header(events: int) -> str:
    """The table's head."""
    parts = " ".join(f"{part:>14}" for part in PARTS)
    return f"  seed {parts}  noticed below .5   ({events} simulated events; found/planted, right+wrong claims)"


def details(run: Run) -> Iterator[str]:
    """What went wrong in a run, line by line."""
    for effect in (*run.report.missed, *run.report.unnoticed):
        yield f"        missed     {effect}"
    for verdict_ in run.report.unplanted_claims:
        claim = verdict_.stated.claim
        yield f"        unplanted  {claim.level} {claim.key.split('/')[0]}: {verdict_.stated.text} — {verdict_.why}"


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """The figures over all runs: pooled precision, mean recall, share of runs with any unplanted insight; whole and by part."""
    turned = [run.reversal for run in runs if run.reversal is not None]
    return {
        "runs": len(runs),
        **_figures([run.report for run in runs]),
        "noticed": round(fmean(len(run.report.noticed) for run in runs), 2),
        "parts": {part: _figures([run.parts[part] for run in runs]) for part in PARTS},
        "reversal": {
            "runs": len(turned),
            "below_half_in_time": sum(one.episodes is not None and one.episodes <= WITHIN for one in turned),
            "median_episodes": median([one.episodes for one in turned if one.episodes is not None] or [0]),
            "unaffected_lost": sum(one.unaffected_lost for one in turned),
            "lost_before": sum(one.lost_before for one in turned),
            "runs_with_unaffected_lost": sum(one.unaffected_lost > 0 for one in turned),
        },
        "seconds": round(sum(run.seconds for run in runs), 1),
    }


def _figures(reports: Sequence[Report]) -> dict[str, Any]:
    good = sum(len(report.planted_claims) for report in reports)
    bad = sum(len(report.unplanted_claims) for report in reports)
    return {
        "precision": round(good / (good + bad), 4) if good + bad else 1.0,
        "recall": round(fmean(report.recall for report in reports), 4),
        "insights": good + bad,
        "unplanted": bad,
        "runs_with_unplanted": sum(bool(report.unplanted_claims) for report in reports),
        "share_of_runs_with_unplanted": round(fmean(bool(report.unplanted_claims) for report in reports), 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("1-5"))
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--null", action="store_true", help="plant nothing")
    parser.add_argument("--null-kind", choices=get_args(NullKind), default="market", help="noise of a null market")
    parser.add_argument("--only-pairs", action="store_true", help="plant and learn nothing above the keys")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time, a process each")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", action="store_true", help="one document instead of the table")
    given = parser.parse_args(arguments)
    if given.null_kind != "market" and not given.null:
        parser.error("--null-kind goes with --null")
    if not given.json:
        print(header(given.events))
    one = partial(run, events=given.events, effects=not given.null, above=not given.only_pairs, null_kind=given.null_kind)
    runs = []
    for done in _each(one, given.seeds, given.jobs):
        runs.append(done)
        if not given.json:
            print("\n".join([row(done), *(details(done) if given.verbose else ())]), flush=True)
    told = summary(runs)
    print(json.dumps({"summary": told, "runs": [each.to_plain() for each in runs]}) if given.json else json.dumps(told, indent=2))


def _each(one: partial[Run], seeds: Sequence[int], jobs: int) -> Iterator[Run]:
    """The seeds' runs, in order."""
    if jobs <= 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(one, seeds)


if __name__ == "__main__":
    main()
