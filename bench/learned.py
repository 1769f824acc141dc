"""What is learned of files that nobody on the project wrote: ``python -m bench.learned [uniswap|tau|reflexion …]``.

Each source is read by its reader and runs through the learning core (reflection, distiller, levels, ledger), without a log and
without a model, as ``ingest`` would run it with both. Printed are the account of the records, every insight with its confidence and
what became of it, and the votes. The judgement on them, made by hand, is in docs/agent-traces.md.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gateway.loop.memory import Memory
from schemas.settings import Settings
from streams.sources import Item, Rejected, read_file

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TRACES = DATA / "agent_traces"
SOURCES = ("uniswap", "tau", "reflexion")


def items(source: str) -> Iterator[Item]:
    """The records of a source, in order."""
    if source == "uniswap":
        folder = DATA / "uniswap_v3"
        yield from read_file(folder / "wbtc_weth_3000_events.jsonl", "uniswap-v3-events", folder / "pool.json")
    elif source == "tau":
        yield from read_file(TRACES / "tau_bench_airline_gpt4o.json", "agent-trace")
    else:
        for trial in range(15):
            yield from read_file(TRACES / "reflexion_alfworld" / f"env_results_trial_{trial}.json", "agent-trace")


def learned(source: Iterable[Item]) -> dict[str, Any]:
    """What a source's records teach, and what became of the records."""
    memory = Memory(Settings(), levels=True)
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    tools: Counter[str] = Counter()
    for item in source:
        counts["read"] += 1
        if isinstance(item, Rejected):
            counts["rejected"] += 1
        elif item.event_id in seen:
            counts["duplicates"] += 1
        else:
            counts["processed"] += 1
            seen.add(item.event_id)
            tools[f"{item.tool} ({item.status})"] += 1
            memory.learn(item)
    return {
        "records": {name: counts[name] for name in ("read", "processed", "duplicates", "rejected")},
        "tools": dict(tools.most_common()),
        "operations": dict(memory.operations),
        "drift_alarms": memory.alarms,
        "insights": [
            {
                "id": one.id,
                "about": one.key.split("/")[0],
                "confidence": str(one.confidence),
                "status": str(one.status),
                "category": str(one.category),
                "votes": f"+{one.upvotes} -{one.downvotes} ~{one.edits}",
                "text": one.text,
            }
            for one in sorted(memory.insights.values(), key=lambda one: (-one.confidence, one.id))
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help=f"{', '.join(SOURCES)}; all, if none is named")
    parser.add_argument("--json", action="store_true", help="one document")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.sources) - set(SOURCES))
    if unknown:
        parser.error(f"there is no source {unknown[0]!r}; there are {', '.join(SOURCES)}")
    if not DATA.is_dir():
        raise SystemExit(f"there are no files at {DATA}: they are not part of the project")
    told = {source: learned(items(source)) for source in given.sources or SOURCES}
    if given.json:
        print(json.dumps(told))
        return
    for source, found in told.items():
        print(f"== {source}: {found['records']}, operations {found['operations']}, {found['drift_alarms']} drift alarms")
        for one in found["insights"]:
            print(f"{one['confidence']:>5} {one['votes']:<9} {one['status']:<8} {one['about']}: {one['text']}")


if __name__ == "__main__":
    main()
