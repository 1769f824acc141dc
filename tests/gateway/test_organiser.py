"""The organiser beside a brain: what is new gets keywords, links and notes, once; a rebuild has it all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.organiser import Organiser, organise, organiser_beside
from schemas.claims import Claim, Condition, Evidence
from schemas.errors import BrainError
from schemas.operations import AddInsight
from schemas.settings import Settings
from stores.sqlite import WritableInsightStore
from streams.embedded.log import EmbeddedLog
from streams.rebuild import fold
from streams.stages.writer import InsightWriter
from tests.support.gateway import WordEmbedder, running_brain
from tests.support.sqlite import add, directive, evidence, note, op
from workers.ledger import Operation
from workers.stage import Delivery, Position

POOL, OTHER = "swap:1:A/B", "swap:1:C/D"


class Beside:
    """A log, a store, a writer that reads on when told, and an organiser."""

    def __init__(self, folder: Path) -> None:
        embedder = WordEmbedder()
        self.log = EmbeddedLog(folder / "log.db")
        self.store = WritableInsightStore.open(folder / "brain.db", (embedder.model_id, embedder.dimension))
        self._writer = InsightWriter(self.store, embedder)
        self.organiser = Organiser(self.store, self.log)

    def tell(self, *operations: Operation) -> None:
        """Publish, and have it written."""
        from streams.publisher import Publisher

        Publisher(self.log).publish_many(operations)
        self.write()

    def write(self) -> None:
        """The writer reads on."""
        from schemas.codec import decode

        topic = "brain.insights.operations.v1"
        while records := self.log.read(topic, 0, self.store.next_offset(topic, 0), 500):
            deliveries = [
                Delivery(Position(topic, 0, record.offset), record.key, decode("insight-operation", record.value), 0)
                for record in records
            ]
            outcome = self._writer.handle(deliveries)
            assert outcome.refusals == []

    def settle(self) -> int:
        """Rounds until nothing is left; how many operations that took."""
        total = 0
        while count := self.organiser.round():
            total += count
            self.write()
        return total

    def links(self) -> set[tuple[str, str, str]]:
        ids = [one.id for one in self.store.list(limit=1000).items]
        return {(one.source, one.target, one.relation) for one in self.store.links(ids)}

    def close(self) -> None:
        self.store.close()
        self.log.close()


@pytest.fixture
def beside(tmp_path: Path) -> Any:
    made = Beside(tmp_path)
    yield made
    made.close()


def claimed(key: str = POOL, value: float = 0.01, direction: str = "higher", **fields: Any) -> AddInsight:
    claim = Claim(
        key=key, metric="cost_bps", conditions=(Condition(feature="size_share", op=">=", value=value),), direction=direction
    )
    text = f"the cost of a large swap is {direction} in {key}"
    more = {"claim": claim, "evidence": evidence(), "importance": 0.7, "text": text, "key": key, "label": key, **fields}
    return add(claim.insight_id, **more)


def seen_in(key: str) -> Evidence:
    """Evidence from episodes of its own."""
    return evidence().model_copy(update={"episode_ids": (f"only in {key}",)})


def test_what_is_new_is_linked_and_told(beside: Beside) -> None:
    one, contrary = claimed(), claimed(OTHER, direction="lower")
    beside.tell(
        one, contrary, note("n1", "the cost of a large swap is an odd thing"), directive("d1", "cost of a large swap: care")
    )
    assert beside.organiser.round() == 6  # three insights, and three links among them
    beside.write()
    first, second = sorted((one.insight_id, contrary.insight_id))
    assert (first, second, "CONTRASTS") in beside.links()
    assert {relation for *_, relation in beside.links()} == {"CONTRASTS", "RELATED"}
    told = beside.store.organised(one.insight_id)
    assert told is not None
    assert told.keywords[:2] == ("cost_bps", "size_share")
    assert told.context_note is not None
    assert "contrasts with “the cost of a large swap is lower in swap:1:C/D”" in told.context_note
    assert beside.store.organised("d1") is None


def test_doing_it_again_changes_nothing(beside: Beside) -> None:
    beside.tell(claimed(), claimed(OTHER), note("n1", "the cost of a large swap is odd"))
    beside.settle()
    before = list(beside.store.fingerprint_parts())
    assert beside.organiser.round() == 0
    again = Organiser(beside.store, beside.log)
    assert again.round() == 0
    beside.tell(op("UPVOTE", claimed().insight_id, "vote"))
    assert beside.settle() == 0
    assert [line for line in beside.store.fingerprint_parts() if b'"link"' in line] == [
        line for line in before if b'"link"' in line
    ]


def test_two_organisers_make_the_same_operations(beside: Beside) -> None:
    beside.tell(claimed(), claimed(OTHER), note("n1", "the cost of a large swap is odd"))
    wanted = list(beside.store.whole())
    assert organise(beside.store, wanted) == organise(beside.store, wanted)
    Organiser(beside.store, beside.log).round()
    Organiser(beside.store, beside.log).round()
    beside.write()
    end = beside.store.next_offset("brain.insights.operations.v1", 0)
    assert end == 3 + 2 * len(organise_count(beside))


def organise_count(beside: Beside) -> list[str]:
    """What one round had to say: its operations are in the store once."""
    ids = [one.id for one in beside.store.list().items]
    return [*ids, *(f"{one.source}{one.target}" for one in beside.store.links(ids))]


def test_an_edit_relabels_its_links_and_is_quoted_anew(beside: Beside) -> None:
    one, other = claimed(), claimed(OTHER)
    beside.tell(one, other, claimed("swap:1:E/F"))
    beside.settle()
    assert (*sorted((one.insight_id, other.insight_id), reverse=True), "SUPPORTS") in beside.links()
    turned = one.claim.model_copy(update={"direction": "lower"})
    beside.tell(op("EDIT", one.insight_id, "edit", text="now the cost of a large swap is lower here", claim=turned))
    assert beside.settle() > 0
    first, second = sorted((one.insight_id, other.insight_id))
    assert (first, second, "CONTRASTS") in beside.links()
    told = beside.store.organised(other.insight_id)
    assert told is not None
    assert "“now the cost of a large swap is lower here”" in (told.context_note or "")
    assert len([link for link in beside.links() if {first, second} == {link[0], link[1]}]) == 1


def quoted(beside: Beside, insight_id: str) -> str:
    told = beside.store.organised(insight_id)
    assert told is not None
    assert told.context_note is not None
    return told.context_note


def test_what_goes_back_to_what_it_was_is_linked_as_it_was(beside: Beside) -> None:
    """The same link as once before is another operation: the first one's id is spent."""
    one, other = claimed(), claimed(OTHER)
    beside.tell(one, other, claimed("swap:1:E/F"))
    beside.settle()
    links, told = beside.links(), quoted(beside, one.insight_id)
    turned = one.claim.model_copy(update={"direction": "lower"})
    for turn in range(2):
        beside.tell(op("EDIT", one.insight_id, f"there-{turn}", text="now the cost of a large swap is lower here", claim=turned))
        beside.settle()
        assert beside.links() != links
        beside.tell(op("EDIT", one.insight_id, f"back-{turn}", text=one.text, claim=one.claim))
        beside.settle()
        assert beside.links() == links
        assert quoted(beside, one.insight_id) == told


def test_a_note_does_not_quote_what_is_linked_no_more(beside: Beside) -> None:
    made = [claimed(key, evidence=seen_in(key)) for key in (POOL, OTHER, "swap:1:E/F", "swap:1:G/H")]
    one, other = made[:2]
    beside.tell(*made)
    beside.settle()
    assert [link for link in beside.links() if {one.insight_id, other.insight_id} == {*link[:2]}]
    condition = one.claim.conditions[0].model_copy(update={"value": 0.9})
    elsewhere = one.claim.model_copy(update={"direction": "lower", "conditions": (condition,)})
    beside.tell(op("EDIT", one.insight_id, "edit", text="zebras gallop", claim=elsewhere))
    beside.settle()
    assert not [link for link in beside.links() if one.insight_id in link]
    assert "zebras" not in quoted(beside, other.insight_id)


def test_a_round_waits_for_the_writer(beside: Beside) -> None:
    beside.tell(claimed(), claimed(OTHER))
    assert beside.organiser.round() > 0
    assert beside.organiser.round() == 0
    beside.write()
    assert beside.organiser.round() == 0


def test_what_is_forgotten_is_neither_linked_nor_quoted(beside: Beside) -> None:
    one, other = claimed(), claimed(OTHER)
    beside.tell(one, other, claimed("swap:1:E/F"))
    beside.settle()
    beside.tell(op("FORGET", one.insight_id, "gone"))
    beside.settle()
    left = beside.store.traces(one.insight_id, one.text)
    assert not [place for place, count in left.items() if count and place != "announcements"]
    assert all(one.insight_id not in link for link in beside.links())


def test_a_rebuild_finds_all_of_it_in_the_log(beside: Beside, tmp_path: Path) -> None:
    beside.tell(claimed(), claimed(OTHER), note("n1", "the cost of a large swap is odd"), claimed("swap:1:E/F"))
    beside.settle()
    beside.tell(op("FORGET", claimed(OTHER).insight_id, "gone"))
    beside.settle()
    embedder = WordEmbedder()
    with WritableInsightStore.open(tmp_path / "again.db", (embedder.model_id, embedder.dimension)) as again:
        fold(beside.log, [InsightWriter(again, embedder)])
        assert list(again.fingerprint_parts()) == list(beside.store.fingerprint_parts())
        assert again.link_counts() == beside.store.link_counts() != {}


def test_a_round_that_fails_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [BrainError("the store is busy"), RuntimeError("a fault of ours")]
    whole = Organiser.round

    def failing(organiser: Organiser) -> int:
        if failures:
            raise failures.pop(0)
        return whole(organiser)

    monkeypatch.setattr(Organiser, "round", failing)
    with running_brain(tmp_path) as brain:
        brain.publish(claimed())
        with organiser_beside(Settings(data_dir=tmp_path), brain.log, every_s=0.01):
            while brain.insights.organised(claimed().insight_id) is None:
                brain.log.wait(brain.log.changes(), 0.25)
    told = [(record.levelname, record.getMessage(), record.exc_info is not None) for record in caplog.records]
    assert told[0] == ("WARNING", "nothing was organised this time: the store is busy", False)
    assert told[1] == ("ERROR", "organising failed; it is tried again in 0.01 s", True)
