"""``python -m bench``: the measurements that the README quotes, one after the other; each is a command of its own as well."""

from __future__ import annotations

import subprocess
import sys

MEASUREMENTS = (
    ("bench.pipeline",),
    ("bench.kills",),
    ("bench.planted", "--seeds", "1-3"),
    ("bench.planted", "--seeds", "1-3", "--null"),
    ("bench.loop", "--seeds", "1-4"),
    ("bench.regimes", "--runs", "4"),
    ("bench.dedup",),
    ("bench.learned",),
    ("bench.metrics",),
)


def main() -> int:
    """Run each and say what it was; the first that fails ends it."""
    for module, *arguments in MEASUREMENTS:
        print(f"== python -m {module} {' '.join(arguments)}".rstrip(), flush=True)
        done = subprocess.run([sys.executable, "-m", module, *arguments], check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
