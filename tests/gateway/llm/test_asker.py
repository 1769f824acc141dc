"""Budget, retries, breaker and record around one question."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from gateway.breaking import Breaker
from gateway.llm.asker import Asked, Asker, Budget, read_json
from gateway.llm.port import ModelRefused, ModelUnavailable
from gateway.llm.prompts import load_prompt
from tests.support.gateway import Clock
from tests.support.llm import Recorded
from workers.breakers.call import Phase, Rules

T = datetime(2026, 3, 1, tzinfo=UTC)
DOWN = ModelUnavailable("down")


class Bench:
    """An asker with everything passed in."""

    def __init__(self, *answers: str | Exception, tokens: int = 100_000, retries: int = 2) -> None:
        self.model = Recorded(answers)
        self.clock = Clock(T)
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.breaker = Breaker("m", Rules(timeout_s=5.0), clock=lambda: self.seconds, innocent=(ModelRefused,))
        self.budget = Budget(tokens)
        self.asker = Asker(
            self.model,
            self.breaker,
            self.budget,
            clock=self.clock,
            retries=retries,
            max_tokens=50,
            sleep=self.pauses.append,
            random=Random(1),
        )

    def ask(self, basis: str = "b") -> Asked:
        return self.asker.ask("test", "subject", load_prompt("test.v1"), {"type": "object"}, basis)


def test_an_answer_is_recorded_with_its_prompt() -> None:
    asked = Bench('{"ready": true}').ask()
    said = asked.said
    assert asked.plain == {"ready": True}
    assert (said.outcome, said.raw, said.prompt, said.model, said.tokens) == (
        "answered",
        '{"ready": true}',
        "test.v1",
        "recorded",
        120,
    )
    assert len(said.prompt_sha256) == 64
    assert "Answer {" in said.asked
    assert Bench("x").ask().said.said_id == said.said_id
    assert Bench("x").ask("c").said.said_id != said.said_id


def test_what_may_pass_is_tried_again_with_jitter() -> None:
    bench = Bench(DOWN, ModelUnavailable("busy", retry_after_s=7.0), '{"a": 1}')
    assert bench.ask().answered
    assert len(bench.pauses) == 2
    assert 0 <= bench.pauses[0] <= 0.5
    assert bench.pauses[1] == 7.0


def test_what_will_not_pass_is_not_tried_again() -> None:
    bench = Bench(ModelRefused("wrong key"))
    asked = bench.ask()
    assert (asked.said.outcome, asked.said.problem, len(bench.model.asks)) == ("unavailable", "wrong key", 1)
    for _ in range(10):
        bench.ask()
    assert bench.breaker.seen().phase is Phase.CLOSED


def test_the_circuit_opens_and_nobody_is_asked_until_it_may_be_well_again() -> None:
    bench = Bench(*[DOWN] * 5, '{"a": 1}', retries=0)
    for _ in range(5):
        assert bench.ask().said.outcome == "unavailable"
    assert bench.breaker.seen().phase is Phase.OPEN
    refused = bench.ask()
    assert (len(bench.model.asks), refused.said.outcome) == (5, "unavailable")
    assert "circuit is open" in str(refused.said.problem)
    bench.seconds = 30.0
    assert bench.ask().answered
    assert bench.breaker.seen().phase is Phase.CLOSED


def test_an_adapter_that_breaks_is_a_failure_like_another() -> None:
    bench = Bench(RuntimeError("bug"), retries=0)
    assert "RuntimeError" in str(bench.ask().said.problem)


def test_the_budget_is_of_any_hour_and_survives_a_restart() -> None:
    bench = Bench('{"a": 1}', tokens=300)
    assert bench.ask().answered
    assert bench.ask().answered
    spent = bench.ask()
    assert (spent.said.outcome, len(bench.model.asks)) == ("unavailable", 2)
    assert "left this hour" in str(spent.said.problem)
    assert Budget(300, [(T, 240)]).left(T + timedelta(minutes=59)) == 60
    bench.clock.forward(hours=1)
    assert bench.ask().answered


def test_failures_cost_what_they_may_have_cost() -> None:
    bench = Bench(DOWN, retries=0)
    before = bench.budget.left(T)
    bench.ask()
    assert bench.budget.left(T) < before


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('{"a": 1}', {"a": 1}), ('```json\n{"a": 1}\n```', {"a": 1}), ('Sure: {"a": {"b": 2}} done', {"a": {"b": 2}}),
        ("", None), ("[1]", None), ("{", None), ('{"a": Infinity}', None), ("[" * 100_000, None),
        ('{"a":' * 50_000, None), ("no", None),
        ('{"a": 1} {"b": 2}', None),
    ],
)  # fmt: skip
def test_json_out_of_an_answer(text: str, plain: object) -> None:
    assert read_json(text) == plain


def test_an_answer_without_json_and_one_of_half_characters_are_recorded_as_they_can_be() -> None:
    asked = Bench("I would rather\ud800 not.").ask()
    assert (asked.said.outcome, asked.plain) == ("unusable", None)
    assert asked.said.raw == "I would rather? not."
    huge = Bench("x" * 200_000).ask().said
    assert (huge.cut, len(huge.raw)) == (True, 60_000)
    huge.to_wire()
