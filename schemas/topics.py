"""Topics: names, partition counts, retention and the contract each carries. Both drivers and AsyncAPI read this table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DAY_MS = 86_400_000


class Cleanup(StrEnum):
    """What the log may forget."""

    KEEP = "keep"
    DELETE = "delete"
    COMPACT = "compact"
    COMPACT_DELETE = "compact,delete"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. ``partitions`` is fixed for its life: the partitioner and event order depend on it.

    ``carries`` names the contract of its values (see ``schemas/codec.py``).
    """

    name: str
    carries: str
    partitions: int
    cleanup: Cleanup = Cleanup.KEEP
    retention_ms: int | None = None

    def __str__(self) -> str:
        return self.name


DATA_PARTITIONS = 4

TOOLS_EXECUTED = Topic("brain.tools.executed.v1", "tool-execution", DATA_PARTITIONS)
EPISODES_RECORDED = Topic("brain.episodes.recorded.v1", "episode", DATA_PARTITIONS)
WINDOWS_CLOSED = Topic("brain.windows.closed.v1", "window-closed", 1)
SIGNALS_RAISED = Topic("brain.signals.raised.v1", "signal", DATA_PARTITIONS)
OPERATIONS = Topic("brain.insights.operations.v1", "insight-operation", 1)
INSIGHTS_UPDATED = Topic("brain.insights.updated.v1", "insight-update", DATA_PARTITIONS, Cleanup.COMPACT_DELETE, 30 * DAY_MS)
MEMORY_USED = Topic("brain.memory.used.v1", "memory-used", DATA_PARTITIONS)
PORTFOLIO_VALUED = Topic("brain.portfolio.valued.v1", "portfolio-valuation", DATA_PARTITIONS)
PORTFOLIO_STANDING = Topic("brain.portfolio.standing.v1", "portfolio-standing", DATA_PARTITIONS, Cleanup.COMPACT)
MODEL_SAID = Topic("brain.model.said.v1", "model-said", 1)
CHECKPOINTS = Topic("brain.checkpoints.v1", "checkpoint", 1, Cleanup.COMPACT)
RECORDS_REJECTED = Topic("brain.records.rejected.v1", "dead-letter", 1, Cleanup.DELETE, 30 * DAY_MS)

TOPICS: tuple[Topic, ...] = (
    TOOLS_EXECUTED,
    EPISODES_RECORDED,
    WINDOWS_CLOSED,
    SIGNALS_RAISED,
    OPERATIONS,
    INSIGHTS_UPDATED,
    MEMORY_USED,
    PORTFOLIO_VALUED,
    PORTFOLIO_STANDING,
    MODEL_SAID,
    CHECKPOINTS,
    RECORDS_REJECTED,
)
BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPICS}
