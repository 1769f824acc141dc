"""The embed stage: executions into episodes, the future refused, each batch embedded at once."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import decode, encode
from schemas.episodes import episode_id
from schemas.topics import EPISODES_RECORDED, TOOLS_EXECUTED
from streams.stages.embed import ReflectEmbed
from tests.support.episodes import START, WordEmbedder, execution
from workers.reflect import reflect
from workers.stage import Delivery, Outcome, Position, Stage

ARRIVED_MS = int(START.timestamp() * 1000)
FUTURE_MS = 300_000


def delivery(n: int, *, ahead_ms: int = 0, **fields: object) -> Delivery:
    event = execution(n, **{"ts_executed": START + timedelta(milliseconds=ahead_ms), **fields})
    return Delivery(Position(TOOLS_EXECUTED.name, 0, n), event.key.encode(), event, ARRIVED_MS)


def handled(*batch: Delivery) -> tuple[Outcome, WordEmbedder]:
    embedder = WordEmbedder()
    return ReflectEmbed(embedder, FUTURE_MS).handle(batch), embedder


def test_it_is_a_stage_between_two_topics() -> None:
    stage = ReflectEmbed(WordEmbedder(), FUTURE_MS)
    assert isinstance(stage, Stage)
    assert (stage.name, stage.inputs, stage.outputs) == ("embed", (TOOLS_EXECUTED,), (EPISODES_RECORDED,))


def test_an_execution_becomes_an_episode() -> None:
    given_ = delivery(3, status="failed", simulated=True)
    outcome, embedder = handled(given_)
    (emission,) = outcome.emissions
    event, episode, expected = given_.message, emission.message, reflect(given_.message)
    assert (emission.topic, emission.key, emission.ts_ms) == (EPISODES_RECORDED, event.key, ARRIVED_MS)
    assert emission.message_id == episode.id == episode_id(event)
    assert episode.event == event
    assert (episode.metrics, episode.features) == (expected.metrics, expected.features)
    assert (episode.reflection, episode.sentence, episode.importance) == (expected.text, expected.sentence, expected.importance)
    assert episode.model == embedder.model_id
    vector = np.frombuffer(episode.vector, dtype="<f4")
    assert vector.tobytes() == WordEmbedder().embed([expected.sentence])[0].tobytes()
    assert decode("episode", encode(episode)) == episode
    assert (outcome.processed, outcome.duplicates, outcome.late, outcome.refusals) == (1, 0, 0, [])


def test_a_batch_is_embedded_in_one_call() -> None:
    outcome, embedder = handled(*(delivery(n, pair=f"pair-{n % 3}") for n in range(7)))
    assert [len(call) for call in embedder.calls] == [7]
    assert [emission.message.event.event_id for emission in outcome.emissions] == [f"event-{n}" for n in range(7)]


@pytest.mark.parametrize(("ahead_ms", "refused"), [(-(10**9), False), (0, False), (FUTURE_MS, False), (FUTURE_MS + 1, True)])
def test_what_is_dated_after_its_arrival_is_refused_beyond_the_allowance(ahead_ms: int, refused: bool) -> None:
    outcome, _ = handled(delivery(1), delivery(2, ahead_ms=ahead_ms), delivery(3))
    assert [refusal.position.offset for refusal in outcome.refusals] == ([2] if refused else [])
    assert all(refusal.reason == "future_dated" for refusal in outcome.refusals)
    assert outcome.processed + len(outcome.refusals) == 3
    assert [emission.message.event.event_id for emission in outcome.emissions] == [
        f"event-{n}" for n in (1, 2, 3) if not (refused and n == 2)
    ]


def test_the_refusal_says_how_far() -> None:
    outcome, embedder = handled(delivery(1, ahead_ms=7_200_000))
    assert outcome.refusals[0].detail == (
        "ts_executed 2026-03-01T14:00:00Z is 7200 s after the record's arrival; at most 300 s are allowed"
    )
    assert outcome.emissions == []
    assert embedder.calls == [[]]


@given(st.integers(0, 4_000_000_000_000_000))
def test_event_time_in_milliseconds_is_exact(micros: int) -> None:
    moment = START.fromtimestamp(0, START.tzinfo) + timedelta(microseconds=micros)
    event = execution(1, ts_executed=moment)
    outcome = ReflectEmbed(WordEmbedder(), 10**15).handle([Delivery(Position("t", 0, 0), None, event, 0)])
    assert outcome.emissions[0].ts_ms == micros // 1000


def test_a_long_market_name_is_cut_in_the_label_only() -> None:
    legs = [{"token": {"symbol": f"{letter * 30}", "decimals": 18}, "amount_raw": "1", "into": True} for letter in "ABCDEF"]
    outcome, _ = handled(delivery(1, pair=None, action="deposit", legs=legs))
    episode = outcome.emissions[0].message
    assert len(episode.label) == 128
    assert episode.key == episode.event.key


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("note", b'"' + b"x" * 990_000 + b'"'),
        ("note", b"[" + b"1e15," * 195_000 + b"1]"),
        ("features", b'{"why": "' + b"x" * 980_000 + b'"}'),
    ],
    ids=["text", "numbers that grow when they are written", "a feature, which stands in the event and beside it"],
)
def test_the_episode_of_the_largest_that_is_read_is_read_too(field: str, value: bytes) -> None:
    plain = execution(1).to_wire()[:-1].replace(b'"features":{}', b'"was":{}')
    event = decode("tool-execution", plain + b',"' + field.encode() + b'":' + value + b"}")
    outcome, _ = handled(Delivery(Position(TOOLS_EXECUTED.name, 0, 1), None, event, ARRIVED_MS))
    (emission,) = outcome.emissions
    again = decode("episode", encode(emission.message))
    assert again == emission.message
