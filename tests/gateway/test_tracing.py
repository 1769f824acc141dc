"""Spans: a followed record's path arrives at a collector as one trace; a collector that is away costs nothing but spans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.metrics.wiring import open_observed
from gateway.tracing import traced
from schemas.errors import BrainError
from schemas.events import ToolExecution
from schemas.settings import Settings
from streams.publisher import Publisher
from streams.tracing import parsed
from tests.support.events import swap
from tests.support.gateway import WordEmbedder
from tests.support.sqlite import add, at

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UNSAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00"


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """An OTLP endpoint, and the spans that arrived at it."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(settings: Settings) -> Iterator[WordEmbedder]:
        yield WordEmbedder()

    monkeypatch.setattr("gateway.composition.open_embedder", opened)


def event(name: str) -> ToolExecution:
    return ToolExecution.model_validate(swap(event_id=name, ts_executed=at(0).isoformat()))


def run(settings: Settings, *sent: tuple[Any, str | None]) -> None:
    """The messages with their trace contexts through the pipeline."""
    with open_observed(settings) as pipeline:
        publisher = Publisher(pipeline.log)
        for message, context in sent:
            publisher.publish(message, traceparent=context)
        pipeline.driver.run_until_idle()


def test_a_trace_arrives_whole(tmp_path: Path) -> None:
    with collector() as (endpoint, spans):
        settings = Settings(data_dir=tmp_path, trace_endpoint=endpoint, trace_ratio=0.0)
        run(settings, (event("followed"), GIVEN), (event("plain"), None), (event("declined"), UNSAMPLED))
    given = parsed(GIVEN)
    assert given is not None
    assert {span.trace_id.hex() for span in spans} == {given.trace_id}
    by_name = {span.name: span for span in spans}
    assert set(by_name) == {"stage embed", "stage episodes", "stage signals", "stage distil"}
    assert by_name["stage embed"].parent_span_id.hex() == given.span_id
    for name in ("stage episodes", "stage signals", "stage distil"):
        assert by_name[name].parent_span_id == by_name["stage embed"].span_id
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert {"defi_brain.topic", "defi_brain.offset", "defi_brain.waited_s"} <= {one.key for one in span.attributes}


def test_an_operation_is_followed_to_the_update(tmp_path: Path) -> None:
    with collector() as (endpoint, spans):
        run(Settings(data_dir=tmp_path, trace_endpoint=endpoint), (add("insight", text="Something."), GIVEN))
    assert [(span.name, span.trace_id.hex()) for span in spans] == [("stage writer", GIVEN.split("-")[1])]


def test_records_without_a_trace_get_one(tmp_path: Path) -> None:
    with collector() as (endpoint, spans):
        settings = Settings(data_dir=tmp_path, trace_endpoint=endpoint, trace_ratio=1.0)
        run(settings, *((event(f"event-{n}"), None) for n in range(3)))
    roots = [span for span in spans if not span.parent_span_id]
    assert [span.name for span in roots] == ["stage embed"] * 3
    assert len({span.trace_id for span in spans}) == 3
    assert {span.parent_span_id for span in spans if span.parent_span_id} == {span.span_id for span in roots}


def test_a_collector_that_is_away_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(data_dir=tmp_path, trace_endpoint="http://127.0.0.1:9/v1/traces", trace_ratio=1.0)
    with open_observed(settings) as pipeline:
        Publisher(pipeline.log).publish(event("alone"))
        pipeline.driver.run_until_idle()
        assert pipeline.log.tallies()["episodes"].processed == 1


def test_without_the_packages_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tracing.find_spec", lambda name: None)
    with pytest.raises(BrainError, match="OpenTelemetry"), traced(Settings(trace_endpoint="http://127.0.0.1:4318/v1/traces"), None):
        pass
    with traced(Settings(), None) as nothing:
        assert nothing is None
