"""What a key takes in: in memory and in SQLite alike, for every combination of key and question."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from stores.places import takes_in
from stores.recall.filters import RecallFilters
from stores.recall.memories import Kind, of_episode, of_insight
from stores.recall.triples import insight_triples, split_key
from stores.sqlite import InsightFilter, WritableInsightStore
from tests.support.episodes import DIMENSION, INFO, WordEmbedder, episode
from tests.support.sqlite import insight

KEYS = {
    "pair": "swap:1:X", "other pair": "swap:1:Y", "other chain": "swap:10:X", "other tool": "lend:1:X",
    "tool": "swap:*:*", "chain": "swap:1:*", "pair anywhere": "swap:*:X", "short": "swap:*", "of another tool": "lend:*:*",
    "all": "*", "on paper": "swap:1-simulated:X", "tool on paper": "swap:*-simulated:*", "all on paper": "*-simulated",
    "nothing": "-", "only a tool": "swap",
}  # fmt: skip
ON_PAPER = {name for name in KEYS if "on paper" in name}


def held(tool: str | None, chain: str | None, pair: str | None) -> set[str]:
    return {name for name, key in KEYS.items() if takes_in(split_key(key), tool, chain, pair, simulated=name in ON_PAPER)}


def test_whoever_asks_for_a_place_gets_what_holds_there() -> None:
    assert held("swap", "1", "X") == {"pair", "tool", "chain", "pair anywhere", "short", "all"}
    assert held("swap", "1-simulated", "X") == {
        "on paper",
        "tool on paper",
        "all on paper",
        "tool",
        "pair anywhere",
        "short",
        "all",
    }
    assert held("swap", None, None) == set(KEYS) - {"other tool", "of another tool", "nothing"}
    assert held("lend", "1", None) == {"other tool", "of another tool", "all"}
    assert held("swap", "10", "Y") == {"tool", "short", "all"}
    assert held(None, None, None) == set(KEYS)


@pytest.mark.parametrize("include", [True, False])
def test_the_stores_agree(tmp_path: Path, include: bool) -> None:
    embedder = WordEmbedder(DIMENSION)
    made = [insight(n, key=key, claim=None, simulated=name in ON_PAPER) for n, (name, key) in enumerate(KEYS.items())]
    with WritableInsightStore.open(tmp_path / "i.db", INFO) as store:
        with store.transaction() as writing:
            for one in made:
                writing.put(one, embedder.embed([one.text])[0])
        for tool, chain, pair in product((None, "swap", "lend", "%"), (None, "1", "10", "1-simulated", "*"), (None, "X", "Y")):
            wanted = InsightFilter(tool=tool, chain=chain, pair=pair, include_simulated=include)
            passing = RecallFilters(tool=tool, chain=chain, pair=pair, include_simulated=include)
            expected = {one.id for one in made if passing.passes(of_insight(one))}
            assert {one.id for one in store.list(wanted, limit=100).items} == expected, (tool, chain, pair)
            near = store.knn(embedder.embed(["insight"])[0], 100, wanted)
            assert {hit.insight.id for hit in near} == expected


def test_an_episode_is_of_its_own_place_only() -> None:
    memory = of_episode(episode(0, "went well", tool="route", chain_id=1))
    assert memory.kind is Kind.EPISODE
    assert RecallFilters(tool="route", chain="1").passes(memory)
    assert not RecallFilters(tool="*").passes(memory)


def test_open_parts_tie_nothing_together() -> None:
    """A graph of memories would otherwise join tools by a chain and a market that are called ``*``."""

    def names(key: str) -> set[str]:
        triples = insight_triples(insight(1, key=key, claim=None))
        return {entity.name for triple in triples for entity in (triple.subject, triple.object)}

    swaps, loans = names("swap:*:*"), names("lend:*-simulated:*")
    assert {"tool:swap", "market:swap:*:*"} <= swaps
    assert not {name for name in (swaps & loans) | names("*-simulated") if name.startswith(("market:", "chain:", "tool:"))}
