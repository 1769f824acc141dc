"""Every metric that the brain exports: name, kind, labels, and what it means. Dashboards, alerts and docs are held against it.

Labels take values from small closed sets: stages, topics, outcomes, categories. Never a wallet, a transaction, an episode or an
agent: each value of a label is a series that a Prometheus keeps for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``kind`` is Prometheus's type; a counter's name ends in ``_total``, units are seconds and bytes."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which its samples appear."""
        if self.kind == "histogram":
            return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


_STAGE = ("stage",)
_READER = ("consumergroup", "topic", "partition")

RECEIVED = Metric("defi_brain_stage_received_records_total", "counter", "Records that a stage has taken from its input.", _STAGE)
OUTCOMES = Metric(
    "defi_brain_stage_records_total",
    "counter",
    "Records by outcome: processed, duplicates, late or rejected. They add up to the received ones.",
    ("stage", "outcome"),
)
REJECTED = Metric(
    "defi_brain_stage_rejected_records_total",
    "counter",
    "Dead letters by reason.",
    ("stage", "reason"),
)
EMITTED = Metric("defi_brain_stage_emitted_records_total", "counter", "Records that a stage has written.", ("stage", "topic"))
REPLAYED = Metric(
    "defi_brain_stage_replayed_records_total",
    "counter",
    "Records fed again after a restart, to bring a stage's state or store up to where its outcomes are committed.",
    _STAGE,
)
RELAYED = Metric("defi_brain_relayed_updates_total", "counter", "Announcements moved from a store's outbox to the log.", _STAGE)
IN_PROCESS = Metric("defi_brain_stage_in_process_records", "gauge", "Records taken and not committed yet.", _STAGE)
HANDLE = Metric("defi_brain_stage_handle_seconds", "histogram", "How long a stage worked on a batch.", _STAGE)
COMMIT = Metric("defi_brain_stage_commit_seconds", "histogram", "How long the transaction of a batch took.", _STAGE)
RECORD_AGE = Metric(
    "defi_brain_stage_record_age_seconds",
    "histogram",
    "From a record's arrival in a stage's input to the commit of its outcome.",
    _STAGE,
)
EVENT_AGE = Metric(
    "defi_brain_stage_event_age_seconds",
    "histogram",
    "From the event's own time to the commit of its outcome: the end-to-end latency of live events, the age of replayed ones.",
    _STAGE,
)
EVENT_TIME = Metric(
    "defi_brain_stage_event_time_seconds", "gauge", "The latest event time that a stage has committed, in Unix seconds.", _STAGE
)
LAST_COMMIT = Metric(
    "defi_brain_stage_last_commit_timestamp_seconds", "gauge", "When a stage last committed, in Unix time.", _STAGE
)
STALLED = Metric(
    "defi_brain_stage_stalled_seconds",
    "gauge",
    "For how long a stage has had records to read and committed nothing; 0 while it works or has nothing to do.",
    _STAGE,
)

LAG = Metric("kafka_consumergroup_lag", "gauge", "Records that a stage or a group of subscribers has not read yet.", _READER)
OFFSET = Metric("kafka_consumergroup_current_offset", "gauge", "The next offset of a stage or a group of subscribers.", _READER)
END_OFFSET = Metric(
    "kafka_topic_partition_current_offset", "gauge", "The offset that a partition's next record will get.", ("topic", "partition")
)
LAG_SECONDS = Metric("defi_brain_lag_seconds", "gauge", "For how long the first unread record has been waiting.", _READER)
LAG_EVENT_TIME = Metric(
    "defi_brain_lag_event_time_seconds",
    "gauge",
    "Event time between the first unread record and the newest one of a partition.",
    _READER,
)
REBALANCES = Metric(
    "defi_brain_kafka_rebalances_total",
    "counter",
    "On Kafka: how often a stage's group gave out its partitions while this worker was in it.",
    _STAGE,
)
ASSIGNED = Metric(
    "defi_brain_kafka_assigned_partitions", "gauge", "On Kafka: partitions that this worker's stage has been given.", _STAGE
)
COMMIT_AGE = Metric(
    "defi_brain_kafka_commit_age_seconds",
    "gauge",
    "On Kafka: since the cluster last saw a stage's group move on, on the partitions that this worker has.",
    _STAGE,
)

STORE_BYTES = Metric("defi_brain_store_bytes", "gauge", "Size on disk of the log, the stores and the embedding cache.", ("store",))
WAL_BYTES = Metric("defi_brain_store_wal_bytes", "gauge", "Size of a SQLite file's write-ahead log.", ("store",))
DISK_FREE = Metric("defi_brain_disk_free_bytes", "gauge", "Free space of the data folder's file system, for this user.")
DISK_SIZE = Metric("defi_brain_disk_size_bytes", "gauge", "Size of the data folder's file system.")
EPISODES = Metric("defi_brain_episodes", "gauge", "Episodes kept.")
EPISODE_FRAGMENTS = Metric("defi_brain_episode_fragments", "gauge", "Fragments of the episode store: many of them slow searches.")
EPISODE_SEGMENTS = Metric("defi_brain_episode_segments", "gauge", "Tables of the episode store.")
OUTBOX = Metric("defi_brain_outbox_records", "gauge", "Updates of insights that are not published yet.")
EPOCH = Metric("defi_brain_writer_epoch", "gauge", "The insight writer's epoch: rises by one whenever a writer takes over.")

INSIGHTS = Metric(
    "defi_brain_insights", "gauge", "Insights by category, status and band of confidence.", ("category", "status", "confidence")
)
OPERATIONS = Metric("defi_brain_operations_total", "counter", "Operations applied to insights.", ("kind",))
REFUSED = Metric("defi_brain_operations_refused_total", "counter", "Operations that the ledger refused.")
ALARMS = Metric("defi_brain_drift_alarms_total", "counter", "Drift alarms by level of the stream and metric.", ("level", "metric"))
REGIMES = Metric(
    "defi_brain_regime_keys", "gauge", "Record keys of real executions by the regime that their market is in.", ("regime",)
)
REGIME_CHANGES = Metric(
    "defi_brain_regime_changes_total", "counter", "Regimes that real markets have entered, first ones included.", ("regime",)
)
EMBEDDED = Metric(
    "defi_brain_embedded_texts_total", "counter", "Texts asked for, by what answered: the cache or the model.", ("source",)
)

PORTFOLIOS = Metric(
    "defi_brain_portfolios",
    "gauge",
    "Portfolios by the state of their breaker, and by whether their valuations can be judged (seen) or not (blind).",
    ("state", "sight"),
)
DRAWDOWN = Metric("defi_brain_worst_drawdown_ratio", "gauge", "The deepest fall of a portfolio from its high-water mark, 0 to 1.")
CIRCUIT = Metric(
    "defi_brain_circuit_state",
    "gauge",
    "Where the circuit around calls to the outside stands: 1 for its state.",
    ("circuit", "state"),
)
CIRCUIT_CALLS = Metric(
    "defi_brain_circuit_calls_total",
    "counter",
    "Calls to the outside by how they ended; refused ones were not made.",
    ("circuit", "outcome"),
)

NOTES = Metric(
    "defi_brain_notes_total",
    "counter",
    "Notes that agents wrote, by what became of them: new, or merged with one that stood near.",
    ("event",),
)
RECALLS = Metric("defi_brain_recalls_total", "counter", "Questions to the memory, by the grade of the answer.", ("grade",))
RECALLED = Metric("defi_brain_recalled_memories_total", "counter", "Memories handed out, by kind.", ("kind",))
RECALL_SECONDS = Metric("defi_brain_recall_seconds", "histogram", "How long an answer took.")
RANKER_ACTIVE = Metric("defi_brain_ranker_active", "gauge", "1 while the learned ranking takes part in recall.")
RANKER_USES = Metric("defi_brain_ranker_uses", "gauge", "Reported uses that the ranker may learn from.")

INFO = Metric("defi_brain_info", "gauge", "Always 1; the labels say what is running.", ("version", "model", "sqlite"))
SCRAPE_ERRORS = Metric(
    "defi_brain_scrape_errors_total", "counter", "Scrapes in which a part of the metrics could not be read.", ("part",)
)
SCRAPE_SECONDS = Metric("defi_brain_scrape_seconds", "gauge", "How long reading a part of the metrics took.", ("part",))

METRICS: tuple[Metric, ...] = (
    RECEIVED, OUTCOMES, REJECTED, EMITTED, REPLAYED, RELAYED, IN_PROCESS, HANDLE, COMMIT, RECORD_AGE, EVENT_AGE, EVENT_TIME,
    LAST_COMMIT, STALLED, LAG, OFFSET, END_OFFSET, LAG_SECONDS, LAG_EVENT_TIME, REBALANCES, ASSIGNED, COMMIT_AGE,
    STORE_BYTES, WAL_BYTES, DISK_FREE, DISK_SIZE, EPISODES, EPISODE_FRAGMENTS, EPISODE_SEGMENTS, OUTBOX, EPOCH, INSIGHTS,
    OPERATIONS, REFUSED, ALARMS, REGIMES, REGIME_CHANGES, EMBEDDED,
    PORTFOLIOS, DRAWDOWN, CIRCUIT, CIRCUIT_CALLS, NOTES, RECALLS, RECALLED, RECALL_SECONDS, RANKER_ACTIVE, RANKER_USES,
    INFO, SCRAPE_ERRORS, SCRAPE_SECONDS,
)  # fmt: skip
"""All of them, in the order of the exposition."""

ON_KAFKA: tuple[Metric, ...] = (REBALANCES, ASSIGNED, COMMIT_AGE)
"""Those that only workers on Kafka export."""

ON_SERVE: tuple[Metric, ...] = (RECALLS, RECALLED, RECALL_SECONDS, RANKER_ACTIVE, RANKER_USES)
"""Those that only a process exports which answers questions: ``serve`` and ``mcp``."""

RUNTIME: tuple[str, ...] = (
    "process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_start_time_seconds",
    "process_open_fds", "process_max_fds", "python_gc_objects_collected_total", "python_gc_objects_uncollectable_total",
    "python_gc_collections_total", "python_info",
)  # fmt: skip
"""What prometheus-client itself says of the process."""
