"""Requests generated from the API's own OpenAPI document, fitting and unfitting ones, each answer held against the document.

An answer may be any that the document names, in the media type and form that it names; a fault (5xx) never. ``python -m
tests.support.api_fuzz 10000`` sends so many over a brain of its own and prints what came back.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from gateway.keys import Tier
from gateway.rest.app import Limits, create_app
from tests.support.gateway import Brain, running_brain
from tests.support.sqlite import add

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@dataclass
class Answers:
    """How many requests were sent, and what came back by status; failures by route, shortened."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    by_route: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def app_of(brain: Brain) -> FastAPI:
    """The API with limits that do not end a run of this kind."""
    return create_app(brain.service, brain.keys, Limits(rate=1e6, burst=1_000_000, wait_s=0.05))


def fuzz(app: FastAPI, key: str, examples: int, start: int = 1) -> Answers:
    """Send ``examples`` fitting and as many unfitting requests to each route but the endless stream of events."""
    answers = Answers()
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app).exclude(path="/v1/updates")
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            _send(operation, mode, key, examples, start, answers)
    return answers


def _send(operation: Any, mode: GenerationMode, key: str, examples: int, start: int, answers: Answers) -> None:
    @seed(start)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        response = case.call(headers={"authorization": f"Bearer {key}"}, timeout=60)
        answers.sent += 1
        answers.statuses[int(response.status_code)] += 1
        answers.by_route[operation.label] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except BaseExceptionGroup as failures:
            answers.failures.append(f"{operation.label}: {failures.exceptions[0]}"[:2000])

    send()


def fuzz_until(brain: Brain, key: str, requests: int, told: Callable[[Answers], None] = lambda _: None) -> Answers:
    """Rounds over all routes, each with other requests, until so many were sent; ``told`` hears of each round."""
    answers, start = Answers(), 1
    while answers.sent < requests:
        more = fuzz(app_of(brain), key, 25, start)
        answers.sent += more.sent
        answers.statuses += more.statuses
        answers.by_route += more.by_route
        answers.failures += more.failures
        start += 1
        told(answers)
    brain.settle()
    return answers


def main(requests: int) -> None:
    """A run over a brain of its own."""

    def say(so_far: Answers) -> None:
        print(so_far.sent, dict(sorted(so_far.statuses.items())), len(so_far.failures), "failures", flush=True)

    with tempfile.TemporaryDirectory() as folder, running_brain(Path(folder)) as brain:
        brain.publish(add("i"), add("j"))
        answers = fuzz_until(brain, brain.key("fuzz", Tier.ADMIN), requests, say)
    print("\n".join(answers.failures[:10]) or "no answer but those that the document names")


if __name__ == "__main__":
    main(int(sys.argv[1]))
