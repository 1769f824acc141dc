"""What the dashboard shows, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from deploy.grafana.panels import Panel

_R = "[$__rate_interval]"


def _p(quantile: float, metric: str, by: str = "stage", more: str = "") -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate({metric}_bucket{{@{more}}}{_R})))"


def _stage_lag(metric: str) -> str:
    """A lag of stages only: groups of subscribers may read when they like."""
    relabelled = f'label_replace({metric}{{@}}, "stage", "$1", "consumergroup", "(.+)")'
    return f"{relabelled} and on (instance, stage) defi_brain_stage_received_records_total{{@}}"


GOLDEN = (
    Panel(
        "Up", "Whether the brain answers scrapes. Without it records wait in the log.",
        [("min(up{@}) or vector(0)", "up")], kind="stat", columns=4, rows=4, low=True, thresholds=(0.5, 1),
        mappings=(("0", "down", "red"), ("1", "up", "green")),
    ),
    Panel(
        "Events in", "Tool executions taken from the log, a second.",
        [(f'sum(rate(defi_brain_stage_received_records_total{{@,stage="embed"}}{_R})) or vector(0)', "events")],
        unit="cps", kind="stat", columns=4, rows=4,
    ),
    Panel(
        "Rejected", "Share of records that became dead letters. Alert: DefiBrainDeadLetters from 1 %.",
        [(
            f'sum(rate(defi_brain_stage_records_total{{@,outcome="rejected"}}{_R}))'
            f" / clamp_min(sum(rate(defi_brain_stage_received_records_total{{@}}{_R})), 1e-9) or vector(0)", "rejected",
        )],
        unit="percentunit", kind="stat", columns=4, rows=4, thresholds=(0.001, 0.01), decimals=2,
    ),
    Panel(
        "Behind", "How long the record that a stage reads next has been waiting. Alert: DefiBrainBehind from 5 minutes.",
        [(f"max({_stage_lag('defi_brain_lag_seconds')}) or vector(0)", "waiting")],
        unit="s", kind="stat", columns=4, rows=4, thresholds=(60, 300),
    ),
    Panel(
        "Stalled", "How long a stage has had records to read and committed nothing. Alert: DefiBrainStageStuck from 2 minutes.",
        [("max(defi_brain_stage_stalled_seconds{@}) or vector(0)", "stalled")],
        unit="s", kind="stat", columns=4, rows=4, thresholds=(30, 120),
    ),
    Panel(
        "Insights", "Active insights that are good enough to hand to an agent (confidence 0.5 and more).",
        [('sum(defi_brain_insights{@,status="active",confidence=~"(0.5|0.7|0.9)-.+"}) or vector(0)', "insights")],
        kind="stat", columns=4, rows=4,
    ),
    Panel(
        "Traffic", "Records that each stage takes, a second.",
        [(f"sum by (stage) (rate(defi_brain_stage_received_records_total{{@}}{_R}))", "{{stage}}")], unit="cps",
    ),
    Panel(
        "Latency, arrival to commit, p95", "From a record's arrival in a stage's input to the commit of its outcome.",
        [(_p(0.95, "defi_brain_stage_record_age_seconds"), "{{stage}}")], unit="s",
    ),
    Panel(
        "Latency, event to commit", "From the event's own time: the end-to-end latency of live events, the age of replayed ones.",
        [
            (_p(0.5, "defi_brain_stage_event_age_seconds"), "{{stage}} p50"),
            (_p(0.95, "defi_brain_stage_event_age_seconds"), "{{stage}} p95"),
        ],
        unit="s",
    ),
    Panel(
        "Errors", "Dead letters by stage and reason, a second. `defi-brain dlq list` shows them.",
        [(f"sum by (stage, reason) (rate(defi_brain_stage_rejected_records_total{{@}}{_R}))", "{{stage}}: {{reason}}")],
        unit="cps",
    ),
    Panel(
        "Outcomes", "What becomes of records, over all stages. The four add up to what came in.",
        [(f"sum by (outcome) (rate(defi_brain_stage_records_total{{@}}{_R}))", "{{outcome}}")], unit="cps", stacked=True,
    ),
    Panel(
        "Saturation", "Records in hand: taken from the log, not committed yet.",
        [("sum by (stage) (defi_brain_stage_in_process_records{@})", "{{stage}}")], stacked=True,
    ),
)  # fmt: skip

CONSUMERS = (
    Panel(
        "Lag in records", "Records not read yet, by stage or group of subscribers.",
        [("sum by (consumergroup) (kafka_consumergroup_lag{@})", "{{consumergroup}}")],
    ),
    Panel(
        "Lag in time", "How long the first unread record has been waiting, by the clock.",
        [("max by (consumergroup) (defi_brain_lag_seconds{@})", "{{consumergroup}}")], unit="s",
    ),
    Panel(
        "Lag in event time", "Event time between the first unread record and the newest: how much of the market is not known yet.",
        [("max by (consumergroup) (defi_brain_lag_event_time_seconds{@})", "{{consumergroup}}")], unit="s",
    ),
    Panel(
        "Produced and consumed: executions", "Where the lines part, a lag grows.",
        [
            (f'sum(rate(kafka_topic_partition_current_offset{{@,topic="brain.tools.executed.v1"}}{_R}))', "produced"),
            (f'sum(rate(kafka_consumergroup_current_offset{{@,topic="brain.tools.executed.v1"}}{_R}))', "consumed"),
        ],
        unit="cps",
    ),
    Panel(
        "Written by topic", "Records that stages write, a second.",
        [(f"sum by (topic) (rate(defi_brain_stage_emitted_records_total{{@}}{_R}))", "{{topic}}")], unit="cps",
    ),
    Panel(
        "Stalled", "How long a stage has had records to read and committed nothing.",
        [("max by (stage) (defi_brain_stage_stalled_seconds{@})", "{{stage}}")], unit="s",
    ),
    Panel(
        "Work on a batch, p95", "How long a stage works on a batch, before the commit.",
        [(_p(0.95, "defi_brain_stage_handle_seconds"), "{{stage}}")], unit="s",
    ),
    Panel(
        "Commit, p95", "How long the transaction takes that commits outputs, offsets and counts.",
        [(_p(0.95, "defi_brain_stage_commit_seconds"), "{{stage}}")], unit="s",
    ),
    Panel(
        "Since the last commit", "An idle stage's grows without harm; compare with the lag.",
        [("max by (stage) (time() - defi_brain_stage_last_commit_timestamp_seconds{@})", "{{stage}}")], unit="s",
    ),
    Panel(
        "Kafka: since the group moved on", "By the cluster's own account. An idle one grows without harm; compare with the lag.",
        [("max by (stage) (defi_brain_kafka_commit_age_seconds{@})", "{{stage}}")], unit="s",
    ),
    Panel(
        "Kafka: rebalances and partitions", "Each rebalance stops its group. Partitions of a stage add up to those of its input.",
        [
            (f"sum by (stage) (rate(defi_brain_kafka_rebalances_total{{@}}{_R})) * 60", "{{stage}} rebalances a minute"),
            ("sum by (stage) (defi_brain_kafka_assigned_partitions{@})", "{{stage}} partitions"),
        ],
    ),
    Panel(
        "Replayed and relayed", "Records fed again after a restart; updates moved from the outbox to the log.",
        [
            (f"sum by (stage) (rate(defi_brain_stage_replayed_records_total{{@}}{_R}))", "{{stage}} replayed"),
            (f'sum by (stage) (rate(defi_brain_relayed_updates_total{{@,stage="writer"}}{_R}))', "{{stage}} relayed"),
        ],
        unit="cps",
    ),
)  # fmt: skip

STORES = (
    Panel(
        "Disk free", "Share of the data folder's file system. Alert: DefiBrainDiskLow under 10 %.",
        [("min(defi_brain_disk_free_bytes{@} / defi_brain_disk_size_bytes{@})", "free")],
        unit="percentunit", kind="stat", columns=4, rows=7, low=True, thresholds=(0.1, 0.2),
    ),
    Panel(
        "Size", "On disk. LanceDB's includes versions that are not cleaned up yet.",
        [("sum by (store) (defi_brain_store_bytes{@})", "{{store}}")], unit="bytes", columns=10, stacked=True,
    ),
    Panel(
        "Write-ahead logs", "SQLite's. One that grows without end is held open by a reader that never finishes.",
        [("sum by (store) (defi_brain_store_wal_bytes{@})", "{{store}}")], unit="bytes", columns=10,
    ),
    Panel(
        "Episodes", "Kept in LanceDB, retracted and pending ones included.",
        [("sum(defi_brain_episodes{@})", "episodes")],
    ),
    Panel(
        "Fragments and segments", "Fragments fall when the store is compacted. Many of them slow searches.",
        [("sum(defi_brain_episode_fragments{@})", "fragments"), ("sum(defi_brain_episode_segments{@})", "segments")],
    ),
    Panel(
        "Store writes, p95", "What a batch costs the two sinks: LanceDB (episodes) and SQLite with its vectors (writer).",
        [(_p(0.95, "defi_brain_stage_handle_seconds", more=',stage=~"episodes|writer"'), "{{stage}}")], unit="s",
    ),
    Panel(
        "Outbox", "Updates not published yet. Alert: DefiBrainOutboxStuck.",
        [("sum(defi_brain_outbox_records{@})", "updates")],
    ),
    Panel(
        "Writer's epoch", "Rises by one at each takeover. Alert: DefiBrainWriterFlapping over three in a quarter of an hour.",
        [("max by (instance) (defi_brain_writer_epoch{@})", "{{instance}}")],
    ),
    Panel(
        "Embedding cache", "Share of texts that did not go through the model.",
        [(
            f'sum(rate(defi_brain_embedded_texts_total{{@,source="cache"}}{_R}))'
            f" / clamp_min(sum(rate(defi_brain_embedded_texts_total{{@}}{_R})), 1e-9)", "from the cache",
        )],
        unit="percentunit",
    ),
)  # fmt: skip

LEARNING = (
    Panel(
        "Insights by category", "Active ones.",
        [('sum by (category) (defi_brain_insights{@,status="active"}) > 0', "{{category}}")], stacked=True,
    ),
    Panel(
        "Insights by confidence", "Active ones. New ones start at 0.6; from 0.5 on they are handed to agents.",
        [('sum by (confidence) (defi_brain_insights{@,status="active"})', "{{confidence}}")], stacked=True,
    ),
    Panel(
        "Archived", "Insights out of context: kept, not used.",
        [('sum(defi_brain_insights{@,status="archived"})', "archived")],
    ),
    Panel(
        "Operations", "What happens to insights, a minute. ADD alone is no good sign: votes are what tests them.",
        [(f"sum by (kind) (rate(defi_brain_operations_total{{@}}{_R})) * 60", "{{kind}}")], unit="cpm",
    ),
    Panel(
        "Refused operations", "What the ledger did not apply: an operation on an unknown insight, a revision that is gone.",
        [(f"sum(rate(defi_brain_operations_refused_total{{@}}{_R})) * 60", "refused")], unit="cpm",
    ),
    Panel(
        "Duplicates and late records", "Shares of what a stage took. Duplicates: an event sent twice. Late: kept, not learned.",
        [
            (
                f'sum by (stage) (rate(defi_brain_stage_records_total{{@,outcome="{outcome}"}}{_R}))'
                f" / clamp_min(sum by (stage) (rate(defi_brain_stage_received_records_total{{@}}{_R})), 1e-9)",
                f"{{{{stage}}}} {outcome}",
            )
            for outcome in ("duplicates", "late")
        ],
        unit="percentunit",
    ),
    Panel(
        "Notes", "What became of agents' notes, a minute: `new` ones are kept, others merged with what stood near.",
        [(f"60 * sum by (event) (rate(defi_brain_notes_total{{@}}{_R}))", "{{event}}")],
    ),
    Panel(
        "Questions", "Questions to the memory by the grade of the answer, a minute: `incorrect` means that nothing bore on it.",
        [(f"60 * sum by (grade) (rate(defi_brain_recalls_total{{@}}{_R})) or vector(0)", "{{grade}}")],
    ),
    Panel(
        "Memories handed out", "By kind, a minute.",
        [(f"60 * sum by (kind) (rate(defi_brain_recalled_memories_total{{@}}{_R})) or vector(0)", "{{kind}}")],
    ),
    Panel(
        "Recall's latency", "How long an answer takes, the question's embedding included.",
        [
            (f"histogram_quantile(0.5, sum by (le) (rate(defi_brain_recall_seconds_bucket{{@}}{_R}))) or vector(0)", "p50"),
            (f"histogram_quantile(0.95, sum by (le) (rate(defi_brain_recall_seconds_bucket{{@}}{_R}))) or vector(0)", "p95"),
        ],
        unit="s",
    ),
    Panel(
        "Ranker", "Whether the learned ranking takes part (1), and the uses that it may learn from.",
        [("max(defi_brain_ranker_active{@}) or vector(0)", "takes part"), ("max(defi_brain_ranker_uses{@}) or vector(0)", "uses")],
    ),
)  # fmt: skip

MARKET = (
    Panel(
        "Drift alarms by metric", "In the last hour: detectors that found a stream's mean moved.",
        [("sum by (metric) (increase(defi_brain_drift_alarms_total{@}[1h]))", "{{metric}}")], stacked=True,
    ),
    Panel(
        "Drift alarms by level", "In the last hour, by what the stream covers: a pair, a tool, everything.",
        [("sum by (level) (increase(defi_brain_drift_alarms_total{@}[1h]))", "{{level}}")], stacked=True,
    ),
    Panel(
        "Alarms an episode", "Alert: DefiBrainDriftStorm from one in five hundred.",
        [(
            "sum(increase(defi_brain_drift_alarms_total{@}[30m]))"
            ' / clamp_min(sum(increase(defi_brain_stage_records_total{@,stage="signals",outcome="processed"}[30m])), 1)', "share",
        )],
        unit="percentunit",
    ),
    Panel(
        "Markets by regime", "Real record keys whose regime is known, by the one they are in.",
        [("sum by (regime) (defi_brain_regime_keys{@})", "{{regime}}")], stacked=True,
    ),
    Panel(
        "Changes of regime", "In the last hour, by the regime entered.",
        [("sum by (regime) (increase(defi_brain_regime_changes_total{@}[1h]))", "{{regime}}")], stacked=True,
    ),
    Panel(
        "Portfolios by breaker", "How many portfolios stand how; blind ones cannot be judged and keep their last state.",
        [("sum by (state, sight) (defi_brain_portfolios{@})", "{{state}}, {{sight}}")], stacked=True,
    ),
    Panel(
        "Worst drawdown", "The deepest fall of a portfolio from its mark: 3 % warns, 7 % halts new positions, 13 % stops.",
        [("max(defi_brain_worst_drawdown_ratio{@})", "drawdown")], unit="percentunit",
    ),
    Panel(
        "Circuits that are not closed", "Calls to the outside that are refused, or tried by a single probe.",
        [('max by (circuit, state) (defi_brain_circuit_state{@,state!="closed"})', "{{circuit}}, {{state}}")],
    ),
    Panel(
        "Calls to the outside", "A minute, by how they ended.",
        [(f"sum by (circuit, outcome) (rate(defi_brain_circuit_calls_total{{@}}{_R})) * 60", "{{circuit}}, {{outcome}}")],
        unit="cpm",
    ),
    Panel(
        "Event time reached", "How long ago, in event time, is what each stage has committed last.",
        [("time() - max by (stage) (defi_brain_stage_event_time_seconds{@})", "{{stage}}")], unit="s", columns=24, minimum=None,
    ),
)  # fmt: skip

RUNTIME = (
    Panel(
        "Running", "Version, model and SQLite, as labels.",
        [("max by (version, model, sqlite) (defi_brain_info{@})", "{{version}} · {{model}} · {{sqlite}}")],
        kind="stat", columns=8, rows=4,
    ),
    Panel(
        "Python", "The interpreter, as labels.",
        [("max by (implementation, version) (python_info{@})", "{{implementation}} {{version}}")], kind="stat", columns=8, rows=4,
    ),
    Panel(
        "Uptime", "Since the process started.",
        [("time() - max(process_start_time_seconds{@})", "uptime")], unit="s", kind="stat", columns=8, rows=4,
    ),
    Panel(
        "Memory", "Resident. The specification's figure for a small brain is 150 to 250 MB.",
        [("sum by (instance) (process_resident_memory_bytes{@})", "{{instance}}")], unit="bytes",
    ),
    Panel(
        "CPU", "Cores in use.",
        [(f"sum by (instance) (rate(process_cpu_seconds_total{{@}}{_R}))", "{{instance}}")],
    ),
    Panel(
        "Open files", "Share of what the process may open.",
        [("max by (instance) (process_open_fds{@} / process_max_fds{@})", "{{instance}}")], unit="percentunit",
    ),
    Panel(
        "Garbage collections", "A second, by generation.",
        [(f"sum by (generation) (rate(python_gc_collections_total{{@}}{_R}))", "generation {{generation}}")], unit="cps",
    ),
    Panel(
        "What a scrape costs", "How long reading each part of the metrics took.",
        [("max by (part) (defi_brain_scrape_seconds{@})", "{{part}}")], unit="s",
    ),
    Panel(
        "Metrics that cannot be read", "Failed reads a minute, by part. Alert: DefiBrainMetricsIncomplete.",
        [(f"sum by (part) (rate(defi_brain_scrape_errors_total{{@}}{_R})) * 60", "{{part}}")], unit="cpm",
    ),
)  # fmt: skip

ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    ("Golden signals", GOLDEN),
    ("Consumers", CONSUMERS),
    ("Stores", STORES),
    ("Learning", LEARNING),
    ("Market signals", MARKET),
    ("Runtime", RUNTIME),
)

NOT_SHOWN = {
    "process_virtual_memory_bytes": "address space, of which most is never touched",
    "python_gc_objects_collected_total": "collections are enough",
    "python_gc_objects_uncollectable_total": "always 0 since Python 3.4",
}
"""Exported metrics that are on no panel, and why."""
