"""``python -m deploy.kafka fetch|up|down|kill|status``."""

# ruff: noqa: T201 - a command that prints its answer
from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deploy.kafka.broker import CACHE, BrokerError, LocalBroker, answers, libraries, version


def main() -> int:
    """0 done, 1 failed, 3 not running (status)."""
    parser = argparse.ArgumentParser(prog="python -m deploy.kafka", description=f"Apache Kafka {version()} on loopback")
    parser.add_argument("action", choices=("fetch", "up", "down", "kill", "status"))
    parser.add_argument("--dir", type=Path, default=CACHE / "broker", help="folder of the broker (default: .cache/kafka/broker)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: the last one used here, else a free one)")
    options = parser.parse_args()
    broker = LocalBroker(options.dir, options.port)
    try:
        if options.action == "fetch":
            print(libraries())
        elif options.action == "up":
            print(f"kafka://{broker.up()}")
        elif options.action == "down":
            broker.down()
        elif options.action == "kill":
            broker.kill()
        else:
            running = broker.pid is not None and answers(broker.port)
            print(f"kafka://{broker.address}" if running else "not running")
            return 0 if running else 3
    except BrokerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
