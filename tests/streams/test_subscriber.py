"""Subscribers get each revision once, in order, from any process, and go on where their group stopped."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from schemas.insights import InsightUpdate
from schemas.topics import INSIGHTS_UPDATED
from streams.embedded.log import EmbeddedLog
from streams.log import NewRecord
from streams.subscriber import Subscriber
from tests.support.streams import update


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path / "log.db")


def announce(log: EmbeddedLog, *updates: InsightUpdate) -> None:
    log.append([NewRecord(INSIGHTS_UPDATED.name, one.insight.id.encode(), one.to_wire()) for one in updates])


def seen(subscriber: Subscriber) -> list[tuple[str, int]]:
    return [(one.insight.id, one.revision) for one in subscriber.updates(timeout_s=0)]


def test_each_revision_once_and_in_order(log: EmbeddedLog) -> None:
    announce(log, update("a", 1), update("b", 1), update("a", 2), update("a", 1), update("a", 2), update("a", 3), update("b", 2))
    got = seen(Subscriber(log))
    assert [revision for insight, revision in got if insight == "a"] == [1, 2, 3]
    assert [revision for insight, revision in got if insight == "b"] == [1, 2]


def test_from_now_on_means_from_now_on(log: EmbeddedLog) -> None:
    announce(log, update("a", 1))
    subscriber = Subscriber(log, from_start=False)
    announce(log, update("a", 2))
    assert seen(subscriber) == [("a", 2)]


def test_garbage_is_skipped_and_counted(log: EmbeddedLog) -> None:
    log.append([NewRecord(INSIGHTS_UPDATED.name, b"a", value) for value in (b"junk", None)])
    announce(log, update("a", 1))
    subscriber = Subscriber(log)
    assert seen(subscriber) == [("a", 1)]
    assert subscriber.skipped == 2


def test_a_group_goes_on_where_it_committed(log: EmbeddedLog) -> None:
    announce(log, *(update("a", revision) for revision in range(1, 6)))
    first = Subscriber(log, group="desk")
    updates = first.updates(timeout_s=0)
    assert [next(updates).revision for _ in range(2)] == [1, 2]
    first.commit()
    assert next(updates).revision == 3, "handed out, not committed"
    assert [revision for _, revision in seen(Subscriber(log, group="desk", from_start=False))] == [3, 4, 5]
    assert [revision for _, revision in seen(Subscriber(log, group="other"))] == [1, 2, 3, 4, 5]


def test_a_group_is_past_what_it_skips_as_well(log: EmbeddedLog) -> None:
    """Else it would lag for ever behind junk at the end, and get repeated revisions anew after a restart."""
    junk = NewRecord(INSIGHTS_UPDATED.name, b"a", b"junk")
    announce(log, update("a", 1), update("a", 2), update("a", 1), update("a", 2))
    log.append([junk, junk])
    first = Subscriber(log, group="desk")
    assert seen(first) == [("a", 1), ("a", 2)]
    first.commit()
    assert sum(lag.records for lag in log.lags() if lag.kind == "group") == 0
    assert seen(Subscriber(log, group="desk")) == []
    announce(log, update("a", 3), update("a", 4))
    log.append([junk])
    updates = first.updates(timeout_s=0)
    assert next(updates).revision == 3
    first.commit()
    assert seen(Subscriber(log, group="desk")) == [("a", 4)], "what waits is not committed, nor what comes after it"


def test_committing_needs_a_group(log: EmbeddedLog) -> None:
    with pytest.raises(ValueError, match="without a group"):
        Subscriber(log).commit()


def test_an_endless_subscriber_waits_for_news_and_stops(log: EmbeddedLog) -> None:
    got: list[int] = []
    third = threading.Event()
    subscriber = Subscriber(log)

    def follow() -> None:
        for one in subscriber:
            got.append(one.revision)
            if one.revision == 3:
                third.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for revision in (1, 2, 3):
        announce(log, update("a", revision))
    assert third.wait(60)
    subscriber.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert got == [1, 2, 3]


FOLLOW = """
import sys
from streams.embedded.log import EmbeddedLog
from streams.subscriber import Subscriber
with EmbeddedLog(sys.argv[1]) as log:
    for update in Subscriber(log, group="desk"):
        print(update.insight.id, update.revision, flush=True)
"""


def test_it_follows_from_another_process(log: EmbeddedLog) -> None:
    announce(log, update("a", 1))
    follower = subprocess.Popen([sys.executable, "-c", FOLLOW, str(log.path)], stdout=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    assert follower.stdout.readline() == "a 1\n"
    announce(log, update("b", 1), update("a", 2))
    assert sorted(follower.stdout.readline() for _ in range(2)) == ["a 2\n", "b 1\n"]
    follower.kill()
    follower.wait()
    follower.stdout.close()
