"""The facts of a serving process: its settings with their sources, and the stages' counters from the log that it has open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.pages.facts import Facts, SettingFact, StageFact
from gateway.settings import sources
from gateway.writing import Log
from schemas.settings import Settings
from streams.embedded.log import EmbeddedLog


def facts_of(settings: Settings, log: Log, arguments: Mapping[str, str | None]) -> Facts:
    """Facts for the pages. On Kafka the counters are in the workers' metrics, and no stages are shown here."""
    origin = sources(**arguments)
    values = settings.plain()
    shown = tuple(
        SettingFact(name, "" if values[name] is None else str(values[name]), origin[name], field.description or "")
        for name, field in Settings.model_fields.items()
    )
    stages = (lambda: _stages(log)) if isinstance(log, EmbeddedLog) else (lambda: ())
    return Facts(settings=lambda: shown, stages=stages)


def _stages(log: EmbeddedLog) -> Sequence[StageFact]:
    waiting: dict[str, int] = {}
    for lag in log.lags():
        if lag.kind == "stage":
            waiting[lag.consumer] = waiting.get(lag.consumer, 0) + lag.records
    return tuple(
        StageFact(name, one.received, one.processed, one.duplicates, one.rejected, waiting.get(name, 0))
        for name, one in log.tallies().items()
    )
