"""Kinds of faults in deleting. The list of all kinds is in ``test_all_kinds.py``."""

from __future__ import annotations

from pathlib import Path

from schemas.operations import ForgetInsight, LinkInsights, OrganiseInsight
from stores.episodes import Effect, EpisodeFilter, WritableEpisodeStore
from stores.sqlite import InsightStore
from tests.support.episodes import INFO, At, batch, episode
from tests.support.gateway import ADMIN, AGENT, OTHER, READER, WAIT, Brain, running_brain
from tests.support.kinds import recalled, told
from tests.support.sqlite import add, at
from tests.support.waiting import until

ADA = ("Ada", "Bob", "Cyd")


def test_delete_of_one_users_memories_deletes_everybodys(brain: Brain) -> None:
    mine = told(brain, "del-1", "The ibex pool is deep.")
    theirs = told(brain, "del-1", "The ibex router is slow.", OTHER)
    brain.service.forget(ADMIN, "del-2", mine, "", WAIT)
    assert recalled(brain, "ibex") == [theirs]


def test_delete_reports_success_and_leaves_a_third(brain: Brain) -> None:
    ids = [told(brain, f"some-{number}", f"The lemur pool {name} is deep.") for number, name in enumerate(ADA)]
    for number, one in enumerate(ids):
        assert brain.service.forget(ADMIN, f"gone-{number}", one, "", WAIT).state == "applied"
        brain.settle()
        assert not any(brain.service.traces(ADMIN, one, f"lemur pool {ADA[number]}").values())
    assert recalled(brain, "lemur pool") == []


def test_the_same_text_twice_deletes_the_first(brain: Brain) -> None:
    first = told(brain, "twice-1", "The okapi bridge is slow.")
    assert told(brain, "twice-2", "The okapi bridge is slow.", OTHER) == first
    assert recalled(brain, "okapi bridge") == [first]


def test_deleted_rows_are_recalled_from_an_index(brain: Brain) -> None:
    """Archived or forgotten: gone from words, vectors and what recall keeps in memory; a later change does not bring it back."""
    brain.publish(add("arch", text="Camel pools are thin."), add("gone", text="Camel routers are slow."))
    assert sorted(recalled(brain, "camel")) == ["arch", "gone"]
    brain.service.archive(AGENT, "arch-1", "arch", "", WAIT)
    brain.service.forget(ADMIN, "arch-2", "gone", "", WAIT)
    assert recalled(brain, "camel pools routers") == []
    assert brain.insights.search_text("camel") == ()
    vector = brain.service._embedder.embed(["Camel pools are thin."])[0]
    assert not {"arch", "gone"} & {hit.insight.id for hit in brain.insights.knn(vector, 50)}
    brain.service.adjust(AGENT, "arch-3", "arch", "", delta=brain.service.insight(READER, "arch").confidence / 10, wait_s=WAIT)
    assert recalled(brain, "camel pools routers") == []
    found = brain.service.recall(READER, "camel pools", as_of=at(24 * 300))
    assert "gone" not in [hit.id for hit in found.result.hits]


def test_deleted_rows_live_on_in_what_was_derived_from_them(brain: Brain) -> None:
    secret = "The dingo vault pays 9 percent."
    brain.publish(
        add("dingo-1", text=secret),
        add("dingo-2", text="Vaults that pay much are risky."),
        LinkInsights(
            op_id="l", insight_id="dingo-2", target_id="dingo-1", ts=at(1), author="o", reason="", relation="EXTENDS", strength=0.5
        ),
        OrganiseInsight(
            op_id="o", insight_id="dingo-2", ts=at(2), author="o", reason="", basis="b", context_note=f"after: {secret}",
            cites=("dingo-1",),
        ),
    )  # fmt: skip
    assert brain.insights.links(["dingo-1"])
    brain.publish(ForgetInsight(op_id="f", insight_id="dingo-1", ts=at(3), author="operator", reason="asked to"))
    assert brain.insights.links(["dingo-1"]) == ()
    kept = brain.insights.organised("dingo-2")
    assert kept is None or kept.context_note is None
    assert secret not in brain.service.briefing(READER).text
    brain.settle()
    for file in brain.folder.glob("defi-brain.db*"):
        if file.suffix == ".db":
            assert not any(brain.service.traces(ADMIN, "dingo-1", "dingo vault pays").values())


def test_deleted_words_stay_in_files_and_caches(tmp_path: Path) -> None:
    """When all is closed, no file but the log, which is the truth, holds a word of what was forgotten."""
    secret = b"xylophonic"
    with running_brain(tmp_path) as brain:
        held = told(brain, "bytes-1", "The xylophonic vault pays 9 percent.")
        assert recalled(brain, "xylophonic vault") == [held]
        brain.service.briefing(READER)
        brain.service.forget(ADMIN, "bytes-2", held, "", WAIT)
        brain.settle()
    assert holding(tmp_path, secret) == {"log.db"}


def test_deleted_words_stay_in_the_write_ahead_file(tmp_path: Path) -> None:
    """While everything is open. A reader of an earlier state holds the cleaning up, not the writer; then it is done after all."""
    secret = b"quokkatic"
    with running_brain(tmp_path) as brain, InsightStore.open(tmp_path / "defi-brain.db") as reader:
        held = told(brain, "wal-1", "The quokkatic vault pays 9 percent.")
        assert recalled(brain, "quokkatic vault") == [held]
        assert "defi-brain.db-wal" in holding(tmp_path, secret)
        with reader.snapshot():
            assert reader.get(held) is not None
            assert brain.service.forget(ADMIN, "wal-2", held, "", WAIT).state == "applied"
            other = told(brain, "wal-3", "The numbat vault pays 3 percent.")
            assert recalled(brain, "numbat vault") == [other]
            seen = reader.get(held)
            assert seen is not None
            assert "quokkatic" in seen.text
        told(brain, "wal-4", "The numbat router is slow.")
        until(lambda: holding(tmp_path, secret) <= {"log.db", "log.db-wal"})
        assert brain.insights.get(other) is not None


def holding(folder: Path, secret: bytes) -> set[str]:
    """The files in which some bytes are."""
    return {path.name for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()}


def test_one_delete_per_id(tmp_path: Path) -> None:
    """Two hundred changed episodes of a batch are one change of the table, not two hundred."""
    with WritableEpisodeStore.open(tmp_path / "episodes", INFO) as store:
        store.record([(At(number), episode(number, status="pending")) for number in range(200)])
        before = versions(tmp_path)
        effects = store.record(batch(0, 200, offset=200))
        assert effects == [Effect.UPDATED] * 200
        assert versions(tmp_path) - before <= 3
        assert len(store.search_text("probe", EpisodeFilter(), limit=300)) == 200


def versions(folder: Path) -> int:
    """How many versions all tables have."""
    return sum(1 for path in folder.rglob("*.manifest"))
