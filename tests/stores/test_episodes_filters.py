"""Filters: each criterion, and values that try to be more than values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.episodes import Episode
from schemas.events import Action, Status
from stores.episodes import EpisodeFilter, EpisodeStore, WritableEpisodeStore
from tests.support.episodes import INFO, START, At, episode

EVIL = [
    "Alice')) OR true--", "' OR '1'='1", '" OR ""="', "a\\' OR 1=1 --", "`key`", "1; DROP TABLE e", "%", "_", "\\", "''", "$1", "?",
    "naïve 中文 🙂", "line\nbreak", "tab\t", "{x}", "/* */",
]  # fmt: skip


def episodes() -> list[Episode]:
    plain = [
        episode(0), episode(1, tool="other"), episode(2, chain_id=1), episode(3, action="deposit"),
        episode(4, status="failed"), episode(5, status="pending"), episode(6, removed=True), episode(7, simulated=True),
        episode(8, regime="calm"), episode(9, importance=0.9), episode(10, pair="X/Y"),
    ]  # fmt: skip
    return plain + [episode(100 + n, agent_id="evil", pair=text, regime=text) for n, text in enumerate(EVIL)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EpisodeStore]:
    with WritableEpisodeStore.open(tmp_path_factory.mktemp("filters") / "episodes", INFO) as opened:
        opened.record([(At(n), one) for n, one in enumerate(episodes())])
        yield opened


def found(store: EpisodeStore, **criteria: Any) -> list[int]:
    """The numbers of the plain episodes that fit."""
    numbers = {episode(n).id: n for n in range(11)}
    hits = store.search_text("probe number", EpisodeFilter(**criteria), limit=100)
    return sorted(numbers[hit.id] for hit in hits if hit.id in numbers)


@pytest.mark.parametrize(
    ("criteria", "numbers"),
    [
        ({}, [0, 1, 2, 3, 4, 7, 8, 9, 10]),
        ({"tool": "other"}, [1]),
        ({"chain": "1"}, [2]),
        ({"action": Action.DEPOSIT}, [3]),
        ({"status": Status.FAILED}, [4]),
        ({"failed": True}, [4]),
        ({"status": Status.PENDING}, [5]),
        ({"pending": True, "retracted": True}, list(range(11))),
        ({"simulated": True}, [7]),
        ({"regime": "calm"}, [8]),
        ({"min_importance": 0.5}, [9]),
        ({"pair": "X/Y"}, [10]),
        ({"key": "probe:offchain:X/Y"}, [10]),
        ({"since": START + timedelta(minutes=8)}, [8, 9, 10]),
        ({"until": START + timedelta(minutes=2)}, [0, 1]),
        ({"since": START + timedelta(minutes=8), "until": START + timedelta(minutes=9)}, [8]),
        ({"since": START, "tool": "other", "failed": False}, [1]),
    ],
)
def test_each_criterion(store: EpisodeStore, criteria: dict[str, Any], numbers: list[int]) -> None:
    assert found(store, **criteria) == numbers


def test_a_moment_in_another_zone_is_the_same_moment(store: EpisodeStore) -> None:
    from datetime import timezone

    shifted = (START + timedelta(minutes=8)).astimezone(timezone(timedelta(hours=-7)))
    assert found(store, since=shifted) == [8, 9, 10]
    with pytest.raises(ValueError, match="time zone"):
        found(store, since=datetime(2026, 3, 1))  # noqa: DTZ001


@pytest.mark.parametrize("text", EVIL)
def test_a_value_is_only_a_value(store: EpisodeStore, text: str) -> None:
    hits = store.search_text("probe", EpisodeFilter(regime=text), limit=100)
    assert [hit.regime for hit in hits] == [text]
    assert [hit.pair for hit in store.search_text("probe", EpisodeFilter(pair=text), limit=100)] == [text]


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_value_finds_exactly_itself(store: EpisodeStore, text: str) -> None:
    expected = [one.id for one in episodes() if one.regime == text]
    assert [hit.id for hit in store.search_text("probe", EpisodeFilter(regime=text), limit=100)] == expected


def test_a_filter_is_applied_before_the_limit(tmp_path: Path) -> None:
    """Filtering what a search found would return too few."""
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO) as store:
        crowd = [(At(n), episode(n, "probe probe probe", tool="crowd")) for n in range(60)]
        store.record([*crowd, (At(99), episode(99, "a probe among others", tool="rare"))])
        wanted = EpisodeFilter(tool="rare")
        assert [hit.tool for hit in store.search_text("probe", wanted, limit=3)] == ["rare"]
        assert [hit.tool for hit in store.search_vector(_vector("probe"), wanted, limit=3)] == ["rare"]


def _vector(text: str) -> Any:
    from tests.support.episodes import EMBEDDER

    return EMBEDDER.embed([text])[0]
