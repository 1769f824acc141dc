"""kill -9 at random moments of an ingest, a restart each time: is the brain the same as that of an undisturbed run?

``python -m bench.kills [--kills 20] [--events 3000] [--seed 1]`` simulates a market, ingests it once undisturbed, then again in
a process that is killed at moments drawn at random over the undisturbed run's length, until ``--kills`` kills are done, and lets
the last run finish. Prints each kill's moment and the fingerprints; exit code 1 when they differ, or when rebuilding from the
disturbed log gives another.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-c", "from gateway.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial of many kills found. ``kills`` are seconds after each process's start."""

    undisturbed: str
    disturbed: str
    rebuilt: str
    kills: tuple[float, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing was lost and nothing doubled."""
        return self.undisturbed == self.disturbed == self.rebuilt


def trial(folder: Path, *, kills: int, events: int, seed: int) -> Trial:
    """Run the trial in an empty folder."""
    market = folder / "market.jsonl"
    brain(folder / "none", "simulate", "--seed", str(seed), "--events", str(events), "--out", str(market), "--json")
    started = time.monotonic()
    brain(folder / "calm", "ingest", str(market), "--format", "tool-executions", "--json")
    length = time.monotonic() - started
    moments = disturb(folder / "rough", market, kills, length, random.Random(seed))
    return Trial(
        brain(folder / "calm", "fingerprint", "--json")["sha256"],
        brain(folder / "rough", "fingerprint", "--json")["sha256"],
        brain(folder / "rough", "rebuild", "--into", str(folder / "rebuilt"), "--json")["rebuilt"]["sha256"],
        tuple(moments),
    )


def disturb(data: Path, market: Path, kills: int, length: float, chance: random.Random) -> list[float]:
    """Kill ``kills`` ingests of the market, then let one through. A run that ends before its kill starts anew in the same data."""
    moments: list[float] = []
    while len(moments) < kills:
        process = subprocess.Popen(
            [*COMMAND, "--data-dir", str(data), "ingest", str(market), "--format", "tool-executions"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        moment = chance.uniform(0.0, length)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            moments.append(round(moment, 3))
    brain(data, "ingest", str(market), "--format", "tool-executions", "--json")
    return moments


def brain(data: Path, *arguments: str) -> dict[str, Any]:
    """Run a command and read its JSON document."""
    done = subprocess.run([*COMMAND, "--data-dir", str(data), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a trial and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp())
    try:
        found = trial(folder, kills=given.kills, events=given.events, seed=given.seed)
    finally:
        shutil.rmtree(folder)
    print(f"killed {len(found.kills)} times, seconds after each start: {', '.join(f'{moment:.2f}' for moment in found.kills)}")
    print(f"undisturbed {found.undisturbed}\ndisturbed   {found.disturbed}\nrebuilt     {found.rebuilt}")
    print("equal" if found.equal else "DIFFERENT")
    return 0 if found.equal else 1


if __name__ == "__main__":
    sys.exit(main())
