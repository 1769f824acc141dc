"""Examples of the documentation, run as they stand, against the output that they show.

A ``console`` block is a shell session: lines after ``$`` are commands, the others are their output. A ``python`` block with a
``text`` block after it is a program and its output. ``...`` in an output stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of ``docs/<page>``."""
    text = (ROOT / "docs" / page).read_text()
    return [Block(found[1], found[2]) for found in _FENCE.finditer(text)]


def fits(shown: str, got: str) -> bool:
    """Whether an output is the one that is shown."""
    pattern = ".*?".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern + (".*" if shown.strip().endswith("...") else ""), got.strip(), re.DOTALL) is not None


def environment(folder: Path) -> dict[str, str]:
    """With a ``defi-brain`` on the path that needs no model."""
    shims = folder / "bin"
    shims.mkdir(exist_ok=True)
    command = shims / "defi-brain"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.support.slim_cli "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{shims}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def sessions(page: str) -> list[tuple[str, str]]:
    """The commands of a page's console blocks, each with the output that it shows."""
    steps: list[tuple[str, str]] = []
    for block in blocks(page):
        if block.language != "console":
            continue
        for line in block.text.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], ""))
            else:
                command, shown = steps[-1]
                steps[-1] = (command, f"{shown}{line}\n")
    return steps


def run_console(page: str, folder: Path, replaced: dict[str, str]) -> list[tuple[str, str, str]]:
    """Run a page's console blocks as one shell session; command, output shown and output got."""
    steps = sessions(page)
    script = "".join(f"echo; echo '@@@ {number}'\n{command}\n" for number, (command, _) in enumerate(steps))
    for old, new in replaced.items():
        script = script.replace(old, new)
    done = subprocess.run(
        ["bash", "-m"], input=script, capture_output=True, text=True, cwd=folder, env=environment(folder), timeout=250, check=False
    )
    parts = re.split(r"\n?@@@ \d+\n", done.stdout)[1:]
    assert len(parts) == len(steps), done.stdout + done.stderr
    return [(command, shown, got) for (command, shown), got in zip(steps, parts, strict=True)]


def run_programs(page: str, folder: Path) -> list[tuple[str, str, str]]:
    """Run a page's programs in order; program, output shown and output got."""
    found = blocks(page)
    outcomes = []
    for block, after in pairwise(found):
        if (block.language, after.language) != ("python", "text"):
            continue
        program = folder / "program.py"
        program.write_text(block.text)
        runner = f"from tests.support import slim_cli\nwith slim_cli.installed(): exec(open({str(program)!r}).read(), {{}})"
        done = subprocess.run(
            [sys.executable, "-c", runner],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment(folder),
            timeout=250,
            check=False,
        )
        outcomes.append((block.text, after.text, done.stdout if done.returncode == 0 else done.stdout + done.stderr))
    return outcomes
