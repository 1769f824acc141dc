"""What the memory is worth to an agent that trades: ``python -m bench.loop --seeds 3001-3030 --jobs 2``.

Each seed's market is traded by a plain agent and by one that lets the memory move soft parameters (docs/closed-loop.md); a row is a
kind of market, costs in basis points an order, negative differences are savings. ``low`` and ``high`` are the ends of the 95 %
paired t interval over seeds, ``boot`` those of a bootstrap. ``tried`` is the part of the difference that comes from orders in which
the agent tried something out; ``trips`` counts how often a stop-loss took advice away, ``turns`` how often a misleading market
turned on the agent, both a run. The market that misleads passes when the mean loss is within the stated bound. ``--only`` leaves
the memory one parameter, the others fixed at their habits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from bench.planted import seeds_of
from gateway.loop import BOUND_BPS, MARKETS, Bounds, Result, Table, habits_of, run, table
from schemas.settings import Settings

ORDERS = 3_000


def bounds_for(only: str | None, seed: int) -> Bounds:
    """The bounds, or those that leave one parameter to the memory and the others at the seed's habits."""
    bounds = Bounds()
    if only is None:
        return bounds
    habits = habits_of(seed, bounds)
    return Bounds(
        routers=bounds.routers if only == "router" else (habits.router,),
        pieces=bounds.pieces if only == "pieces" else (habits.pieces,),
        wait_h=bounds.wait_h if only == "wait" else (habits.wait_h,),
        bound_bps=bounds.bound_bps if only == "bound" else (habits.bound_bps,),
    )


def one(kind: str, orders: int, only: str | None, seed: int) -> Result:
    """One seed."""
    return run(kind, seed, orders, Settings(), bounds=bounds_for(only, seed))


def results(kind: str, seeds: Sequence[int], orders: int, only: str | None, jobs: int) -> Iterator[Result]:
    """A market's results in the order of the seeds."""
    work = partial(one, kind, orders, only)
    if jobs == 1:
        yield from map(work, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, seeds)


def row(one: Table) -> str:
    """A market in one line."""
    return (
        f"{one.kind:<11} {one.seeds:>5} {one.plain:>7.2f} {one.remembering:>8.2f} {one.difference:>+7.2f} "
        f"[{one.low:>+6.2f}, {one.high:>+6.2f}] [{one.boot[0]:>+6.2f}, {one.boot[1]:>+6.2f}] {one.better:>6.0%} {one.worst:>+6.2f} "
        f"{one.explored:>+6.2f} {one.trips:>5.1f} {one.turns:>5.1f}"
    )


HEAD = (
    f"{'market':<11} {'seeds':>5} {'plain':>7} {'remember':>8} {'differ':>7} {'low, high':>16} {'boot':>16} {'better':>6} "
    f"{'worst':>6} {'tried':>6} {'trips':>5} {'turns':>5}"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 1 where the market that misleads cost more than the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("1-4"))
    parser.add_argument("--markets", default=",".join(MARKETS), help=f"of {', '.join(MARKETS)}")
    parser.add_argument("--orders", type=int, default=ORDERS, help="orders a run")
    parser.add_argument("--only", choices=("pieces", "router", "bound", "wait"), help="leave the memory this parameter alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true", help="one document instead of the table")
    given = parser.parse_args(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not given.json:
        print(
            f"simulated orders: {given.orders} a run; basis points an order; bound where the past misleads: {BOUND_BPS:g}\n{HEAD}"
        )
    tables: list[Table] = []
    seeds: dict[str, dict[int, float]] = {}
    for kind in given.markets.split(","):
        found = list(results(kind, given.seeds, given.orders, given.only, given.jobs))
        tables.append(table(found))
        seeds[kind] = {each.seed: round(each.difference, 3) for each in found}
        if not given.json:
            print(row(tables[-1]), flush=True)
    kept = all(each.difference <= BOUND_BPS for each in tables if each.kind == "misleading")
    if given.json:
        told = {"simulated": True, "orders": given.orders, "bound_bps": BOUND_BPS, "bound_kept": kept, "only": given.only}
        print(json.dumps({**told, "markets": [each.to_plain() for each in tables], "differences": seeds}))
    elif not kept:
        print(f"the memory cost more than {BOUND_BPS:g} bps an order where the past misleads")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
