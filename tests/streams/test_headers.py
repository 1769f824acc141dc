"""CloudEvents headers, and headers as the embedded log packs them."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.topics import TOOLS_EXECUTED
from streams.embedded.packing import pack_headers, unpack_headers
from streams.headers import event_headers, message_id_of
from streams.record import Record

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=40)), max_size=8).map(tuple))
def test_packed_headers_come_back(headers: tuple[tuple[str, bytes], ...]) -> None:
    assert unpack_headers(pack_headers(headers)) == headers


def test_a_message_says_what_it_is() -> None:
    headers = event_headers(TOOLS_EXECUTED, "id-1", 1_651_833_550_758, source="agent", traceparent="00-aa-bb-01")
    assert dict(headers) == {
        "ce_id": b"id-1",
        "ce_source": b"/defi-brain/agent",
        "ce_type": b"defi-brain.tool-execution.v1",
        "ce_specversion": b"1.0",
        "ce_time": b"2022-05-06T10:39:10.758000Z",
        "ce_dataschema": b"urn:defi-brain:tool-execution:1",
        "content-type": b"application/json",
        "traceparent": b"00-aa-bb-01",
    }
    assert message_id_of(Record("t", 0, 0, 0, None, None, headers)) == "id-1"
    assert "traceparent" not in dict(event_headers(TOOLS_EXECUTED, "id-1", 0, source="agent"))
