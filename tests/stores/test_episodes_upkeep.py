"""When a segment is compacted."""

from __future__ import annotations

from stores.episodes.upkeep import FEW, MANY, RETRY_S, ROWS, SHARE, Upkeep


def with_batches(count: int, rows: int = 1, **fields: object) -> Upkeep:
    upkeep = Upkeep(**fields)  # type: ignore[arg-type]
    for _ in range(count):
        upkeep.added(rows)
    return upkeep


def test_nothing_is_due_without_writes() -> None:
    assert not Upkeep().due(0.0, idle=True)
    assert not Upkeep(closed=True).due(0.0, idle=True)


def test_few_fragments_wait_many_do_not() -> None:
    assert not with_batches(FEW - 1).due(0.0)
    assert with_batches(FEW).due(0.0)
    assert with_batches(1, ROWS).due(0.0)


def test_a_quiet_moment_is_used() -> None:
    assert with_batches(2).due(0.0, idle=True)
    assert not with_batches(1).due(0.0, idle=True)


def test_compaction_takes_a_twentieth_of_the_time_unless_it_cannot_wait() -> None:
    upkeep = with_batches(FEW)
    upkeep.done(FEW, FEW, started=100.0, now=102.0, keep_s=60.0)
    for _ in range(FEW):
        upkeep.added(1)
    assert not upkeep.due(102.0 + SHARE * 2.0 - 0.1)
    assert upkeep.due(102.0 + SHARE * 2.0)
    for _ in range(MANY - FEW):
        upkeep.added(1)
    assert upkeep.due(102.5)


def test_batches_that_come_during_a_compaction_still_count() -> None:
    upkeep = with_batches(FEW, 10)
    upkeep.added(7)
    upkeep.done(FEW, 10 * FEW, started=0.0, now=1.0, keep_s=60.0)
    assert (upkeep.fragments, upkeep.rows) == (1, 7)


def test_a_closed_segment_is_compacted_at_once_and_then_at_its_turn() -> None:
    upkeep = with_batches(1, not_before=1000.0)
    upkeep.close()
    assert upkeep.due(0.0)
    upkeep.done(1, 1, started=0.0, now=1.0, keep_s=60.0)
    upkeep.added(1)
    assert not upkeep.due(2.0)
    assert upkeep.due(1.0 + SHARE)


def test_old_versions_are_removed_when_they_may_be() -> None:
    closed = with_batches(1)
    closed.close()
    closed.done(1, 1, started=0.0, now=1.0, keep_s=60.0)
    assert not closed.due(60.9)
    assert closed.due(61.0)
    closed.done(0, 0, started=61.0, now=61.1, keep_s=60.0)
    assert not closed.due(10_000.0, idle=True)

    last = with_batches(FEW)
    last.done(FEW, FEW, started=0.0, now=1.0, keep_s=60.0)
    assert not last.due(61.0)
    assert last.due(61.0, idle=True)


def test_a_failure_waits_before_the_next_try() -> None:
    upkeep = with_batches(MANY)
    upkeep.failed(10.0)
    assert not upkeep.due(10.0 + RETRY_S - 0.1, idle=True)
    assert upkeep.due(10.0 + RETRY_S)


def test_the_thread_sleeps_when_nothing_can_become_due() -> None:
    assert not Upkeep().waiting
    assert not with_batches(1).waiting
    assert with_batches(2).waiting
    assert with_batches(1, closed=True).waiting
    assert Upkeep(sweep_at=5.0).waiting
