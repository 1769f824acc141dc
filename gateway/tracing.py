"""Spans of what happens to records, sent to an OpenTelemetry collector where an endpoint is set (OTLP over HTTP).

Which trace a record belongs to, and whose child what becomes of it is, stands in the records themselves (``streams/tracing.py``);
here a finished step of a stage is told as one span a followed record. Sending is done by the SDK's batch processor on a thread of
its own: a collector that is slow or away costs spans, never records.

A span's ids are given, not drawn, so spans are built as the SDK's finished form (``ReadableSpan``) and handed to the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from schemas.errors import BrainError
from schemas.settings import Settings
from streams.embedded.worker import Progress
from streams.stages.writer import InsightOutbox, InsightWriter
from streams.tracing import Context, child, parsed

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

Take = Callable[[Progress], None]
SENT_AS = {InsightWriter.name: InsightOutbox.name}
"""What a stage writes through its outbox carries the outbox's name; its spans must lead there."""
SERVICE = "defi-brain"


@contextmanager
def traced(settings: Settings, then: Take | None) -> Iterator[Take | None]:
    """``then``, with spans sent besides where the settings have an endpoint. What is left is sent at the end.

    Raises:
        BrainError: there is an endpoint and the packages of the extra ``tracing`` are missing.
    """
    if not settings.trace_endpoint:
        yield then
        return
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        raise BrainError("trace_endpoint needs the OpenTelemetry SDK", hint='pip install "defi-brain[tracing]"')
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.trace_endpoint), schedule_delay_millis=1_000)
    spans = Spans(processor.on_end, Resource.create({"service.name": SERVICE}), then)
    try:
        yield spans.take
    finally:
        processor.shutdown()  # type: ignore[no-untyped-call]


class Spans:
    """Fed by drivers' threads. ``send`` takes a finished span; ``clock_ns`` is the wall's."""

    def __init__(
        self, send: Callable[[ReadableSpan], None], resource: Any, then: Take | None, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._send = send
        self._resource = resource
        self._then = then
        self._clock_ns = clock_ns

    def take(self, progress: Progress) -> None:
        """A span for each followed record of a step."""
        ended = self._clock_ns()
        begun = ended - round((progress.handle_s + progress.commit_s) * 1e9)
        name = SENT_AS.get(progress.stage, progress.stage)
        told: set[str] = set()
        for delivery in progress.deliveries:
            parent = parsed(delivery.trace)
            if parent is None or not parent.sampled:
                continue
            told.add(parent.text)
            place = delivery.position
            about: dict[str, str | int | float] = {"topic": place.topic, "partition": place.partition, "offset": place.offset}
            waited = max(0.0, begun / 1e9 - delivery.timestamp_ms / 1e3)
            self._tell(progress.stage, child(parent, name), parent, begun, ended, {**about, "waited_s": round(waited, 6)})
        for emission in progress.emissions:
            # A record without a trace that was given one here: its first span has no parent.
            parent = parsed(emission.trace)
            if parent is not None and parent.sampled and parent.text not in told:
                told.add(parent.text)
                self._tell(progress.stage, child(parent, name), None, begun, ended, {"message_id": emission.message_id})
        if self._then is not None:
            self._then(progress)

    def _tell(
        self, stage: str, own: Context, parent: Context | None, begun: int, ended: int, about: dict[str, str | int | float]
    ) -> None:
        from opentelemetry.sdk.trace import ReadableSpan

        self._send(
            ReadableSpan(
                f"stage {stage}",
                context=_context(own),
                parent=None if parent is None else _context(parent),
                resource=self._resource,
                attributes={f"defi_brain.{name}": value for name, value in about.items()} | {"defi_brain.stage": stage},
                start_time=begun,
                end_time=ended,
            )
        )


def _context(context: Context) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=False, trace_flags=TraceFlags(context.flags))
