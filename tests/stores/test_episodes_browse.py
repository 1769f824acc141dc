"""Leafing through episodes: every one once, the latest first, whatever the segments and the pages; and facets that add up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stores.episodes import EpisodeFilter, Hit, Place, WritableEpisodeStore
from tests.support.episodes import INFO, At, batch, episode

NONE = EpisodeFilter(tool="nothing-of-this-name")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WritableEpisodeStore]:
    """Seventy episodes in three segments; ten of them at the same time."""
    folder: Path = tmp_path_factory.mktemp("browse")
    with WritableEpisodeStore.open(folder, INFO, segment_rows=30, keep=timedelta(milliseconds=1)) as opened:
        opened.record(batch(0, 60))
        same = episode(30).ts
        opened.record([(At(100 + n), episode(1000 + n, ts_executed=same)) for n in range(10)])
        yield opened


def pages(store: WritableEpisodeStore, size: int, wanted: EpisodeFilter | None = None) -> Iterator[list[Hit]]:
    place: Place | None = None
    while page := store.latest(wanted or EpisodeFilter(), limit=size, after=place):
        yield page
        place = Place(page[-1].ts, page[-1].id)


@pytest.mark.parametrize("size", [1, 4, 7, 200])
def test_pages_give_every_episode_once_in_order(store: WritableEpisodeStore, size: int) -> None:
    seen = [hit for page in pages(store, size) for hit in page]
    assert [(hit.ts, hit.id) for hit in seen] == sorted(
        ((hit.ts, hit.id) for hit in seen), key=lambda one: (-one[0].timestamp(), one[1])
    )
    assert len({hit.id for hit in seen}) == len(seen) == store.count()


def test_a_page_after_the_end_of_the_calendar_is_the_first(store: WritableEpisodeStore) -> None:
    assert store.latest(limit=5, after=Place(datetime.max.replace(tzinfo=UTC), "f" * 36)) == store.latest(limit=5)


def test_a_filter_holds_on_every_page(store: WritableEpisodeStore) -> None:
    tool = next(iter(store.facets()["tool"]))
    seen = [hit for page in pages(store, 5, EpisodeFilter(tool=tool)) for hit in page]
    assert {hit.tool for hit in seen} == {tool}
    assert len(seen) == store.facets()["tool"][tool]
    assert store.latest(NONE) == []


def test_facets_add_up(store: WritableEpisodeStore) -> None:
    found = store.facets()
    assert {name: sum(counts.values()) for name, counts in found.items()} == dict.fromkeys(found, store.count())
    assert all(list(counts.values()) == sorted(counts.values(), reverse=True) for counts in found.values())
    assert all(counts == {} for counts in store.facets(NONE).values())


def test_a_limit_lies_within_bounds(store: WritableEpisodeStore) -> None:
    with pytest.raises(ValueError, match=r"1 … 1000"):
        store.latest(limit=0)
