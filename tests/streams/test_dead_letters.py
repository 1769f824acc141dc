"""A dead letter gives back the record as it came, whatever was in it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import FROM_OUTSIDE, MAX_VALUE_BYTES
from schemas.dead_letters import DeadLetter
from schemas.topics import CHECKPOINTS, RECORDS_REJECTED, TOPICS
from streams.dead_letters import dead_letter, dead_letter_record, dead_letters, find_dead_letter, read_dead_letter
from streams.embedded.log import EmbeddedLog
from streams.kafka.topics import configuration
from streams.log import NewRecord
from streams.record import Record

BYTES = st.none() | st.binary(max_size=40)


def letter(offset: int = 0, stage: str = "embed", reason: str = "not_json", value: bytes | None = b"x") -> DeadLetter:
    return dead_letter(Record("t", 1, offset, 1234, b"k", value), stage, reason, "detail", "ContractError")


@given(BYTES, BYTES, st.lists(st.tuples(st.text("abc", max_size=3), st.binary(max_size=9)), max_size=3).map(tuple), st.text())
def test_every_byte_comes_back(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...], detail: str) -> None:
    sent = dead_letter(Record("t", 1, 2, 1_651_833_550_758, key, value, headers), "embed", "why", detail, "E")
    record = dead_letter_record(sent)
    got = read_dead_letter(Record(record.topic, 0, 0, 5, record.key, record.value, record.headers))
    assert got == sent
    assert (got.key, got.value, got.headers) == (key, value, headers)
    assert record.key == key
    assert got.first_failed_at.isoformat() == "2022-05-06T10:39:10.758000+00:00"


def test_half_characters_and_long_details_do_not_break_a_letter() -> None:
    sent = dead_letter(Record("t", 1, 2, 0, None, b"v"), "embed", "why", "\ud800" + "x" * 5000, "E")
    assert sent.to_wire()
    assert sent.detail.startswith("\\ud800x")
    assert len(sent.detail) == 2000


def test_the_id_is_the_records_place_and_the_stage() -> None:
    assert letter().id == letter(reason="other", value=None).id
    assert len({letter().id, letter(1).id, letter(stage="store").id}) == 3


def test_letters_are_listed_and_found(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log.db") as log:
        large = letter(1, stage="store", value=b"y" * 5_000_000)
        log.append([dead_letter_record(one) for one in (letter(0), large, letter(2, reason="null_value", value=None))])
        log.append([NewRecord(RECORDS_REJECTED.name, None, b"not a letter"), NewRecord(RECORDS_REJECTED.name, None, None)])
        assert [one.offset for one in dead_letters(log)] == [0, 1, 2]
        assert [one.offset for one in dead_letters(log, stage="embed")] == [0, 2]
        assert [one.offset for one in dead_letters(log, stage="embed", reason="null_value")] == [2]
        assert find_dead_letter(log, large.id[:12]) == large
        assert find_dead_letter(log, "") is None, "ambiguous"
        assert find_dead_letter(log, "nothing") is None


def test_on_a_cluster_a_letter_fits_its_topic_whatever_was_rejected() -> None:
    """One that does not would stop its stage at that record for good."""
    room = int(configuration(RECORDS_REJECTED)["max.message.bytes"])
    for topic in TOPICS:
        if topic not in (CHECKPOINTS, RECORDS_REJECTED):
            size = int(configuration(topic)["max.message.bytes"])
            record = Record(topic.name, 0, 0, 0, b"k", bytes(size))
            letter = dead_letter_record(dead_letter(record, "stage", "too_large", "x" * 2000, "ContractError"))
            assert len(letter.value or b"") < room - 64 * 1024
            assert (size < 2 * MAX_VALUE_BYTES) == (topic.carries in FROM_OUTSIDE)
