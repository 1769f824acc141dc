"""The briefing: bounded whatever it is made of, directives first, expired ones out, quoted; made on schedule and on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from gateway.briefing import MAX_CHARS, NOTHING, Briefed, BriefingSchedule, briefing, fitting
from gateway.keys import Tier
from gateway.rest.app import Limits, create_app
from gateway.views import BriefingView
from tests.support.gateway import AGENT, OTHER, READER, WAIT, Brain, running_brain
from tests.support.sqlite import START, add, insight


@pytest.fixture(scope="module")
def brain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    folder: Path = tmp_path_factory.mktemp("brain")
    with running_brain(folder) as running:
        yield running


TEXTS = st.lists(st.text(min_size=1, max_size=400) | st.text('"\\', min_size=150, max_size=2000), max_size=9)


@given(TEXTS, TEXTS)
def test_whatever_is_remembered_it_fits_and_names_its_memories(ordered: list[str], learned: list[str]) -> None:
    directives = [insight(number, text=text) for number, text in enumerate(ordered)]
    insights = [insight(100 + number, text=text) for number, text in enumerate(learned)]
    told = briefing(directives, insights)
    assert len(told.text) <= MAX_CHARS
    assert len(told.text.splitlines()) == max(1, len(told.bullets))
    assert min(3, len(directives) + len(insights)) <= len(told.bullets) <= 6
    assert len(told.memory_ids) == len(told.bullets)
    assert all(one in bullet for one, bullet in zip(told.memory_ids, told.bullets, strict=True))
    assert list(told.memory_ids[: min(3, len(directives))]) == [one.id for one in directives[:3]]
    assert told.bullets or told.text == NOTHING


@given(st.text(min_size=1, max_size=300), st.integers(12, 80))
def test_a_cut_text_is_whole_json(text: str, room: int) -> None:
    told = fitting(text, room)
    assert len(told) <= max(room, 8)
    assert isinstance(json.loads(told), str)


def test_top_five_as_bullets_directives_first_and_expired_ones_out(brain: Brain) -> None:
    brain.publish(*(add(f"five-{number}", text=f"Insight {number}.") for number in range(7)))
    kept = brain.service.direct(AGENT, "b1", "Trade less.", feedback_type="goal_adjustment", priority="low", wait_s=WAIT)
    soon = brain.clock.now + timedelta(hours=1)
    over = brain.service.direct(
        AGENT, "b2", "Sell it all.", feedback_type="goal_adjustment", priority="high", expires_at=soon, wait_s=WAIT
    )
    assert brain.service.briefing(READER).memory_ids[:2] == (over.insight_id, kept.insight_id)
    brain.clock.forward(hours=2)
    told = brain.service.briefing(READER)
    assert told.bullets[0] == f'• [directive {kept.insight_id}, low priority] "Trade less."'
    assert (len(told.bullets), over.insight_id in told.memory_ids) == (6, False)


def scripted(turns: int) -> tuple[list[float], threading.Event, object]:
    """A pause that never waits: the lengths that were asked for, and when the last one was."""
    asked: list[float] = []
    ended = threading.Event()

    def pause(seconds: float) -> bool:
        asked.append(seconds)
        if len(asked) > turns:
            ended.set()
            return True
        return False

    return asked, ended, pause


def test_the_first_comes_after_eight_seconds_then_one_an_hour_and_a_failure_ends_nothing() -> None:
    asked, ended, pause = scripted(4)
    made = iter(["one", OSError("disk gone"), "two", "three"])

    def make() -> BriefingView:
        found = next(made)
        if isinstance(found, OSError):
            raise found
        return BriefingView(text=found, bullets=(found,), memory_ids=("m",))

    schedule = BriefingSchedule(make, lambda: START, pause=pause)  # type: ignore[arg-type]
    assert ended.wait(30)
    schedule.stop()
    assert asked == [8.0, 3600.0, 3600.0, 3600.0, 3600.0]
    latest = schedule.after(2)
    assert isinstance(latest, Briefed)
    assert (latest.number, latest.told.text, latest.view.made, schedule.after(3)) == (3, "three", "2026-01-01T00:00:00Z", None)


def test_what_was_made_on_schedule_is_told_on_request_and_as_an_event(brain: Brain) -> None:
    brain.publish(add("sched", text="Numbat pools are thin."))
    headers = {"authorization": f"Bearer {brain.key('listener', Tier.READ)}"}
    with TestClient(create_app(brain.service, brain.keys, Limits(rate=1e6, burst=1_000_000))) as client:
        fresh = client.get("/v1/briefing?scheduled=true", headers=headers)
        assert fresh.json()["made"] is None
        kept = brain.service.keep_briefing(first_s=0.0, every_s=0.05)
        try:
            stream = client.get("/v1/updates?idle_s=1", headers=headers).text
            assert "event: briefing" in stream
            assert "id: " not in stream
            assert client.get("/v1/briefing?scheduled=true", headers=headers).json()["made"] is not None
            asked = client.get("/v1/briefing", headers=headers)
            assert asked.json()["made"] is None
            known = headers | {"if-none-match": asked.headers["etag"]}
            assert client.get("/v1/briefing", headers=known).status_code == 304
        finally:
            kept.stop()
        assert client.get("/v1/updates?idle_s=0", headers=headers).text == ""


def test_what_a_briefing_told_is_no_evidence_when_it_is_said_again(brain: Brain) -> None:
    text = "The quoll pool reverts at noon."
    note = brain.service.remember(AGENT, "q1", text, wait_s=WAIT)
    assert note.insight_id in brain.service.briefing(OTHER).memory_ids
    assert brain.service.remember(OTHER, "q2", text, wait_s=WAIT).event == "echo"
