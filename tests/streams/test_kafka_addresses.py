"""The broker's address: what is none is told before any client is made."""

from __future__ import annotations

import pytest

from schemas.settings import Settings
from streams.kafka.client import servers_of
from streams.log import LogError


@pytest.mark.parametrize(
    ("broker", "servers"),
    [
        ("kafka://one:9092", ["one:9092"]),
        ("kafka://one", ["one"]),
        ("kafka://one:1, two.example.org:65535/", ["one:1", "two.example.org:65535"]),
        ("kafka://127.0.0.1:9092,[::1]:9093", ["127.0.0.1:9092", "[::1]:9093"]),
    ],
)
def test_addresses_are_taken_apart(broker: str, servers: list[str]) -> None:
    assert servers_of(Settings(broker=broker)) == servers


@pytest.mark.parametrize(
    "broker", ["kafka://", "kafka:///", "kafka://,", "kafka://:9092", "kafka://one:port", "kafka://one:70000", "kafka://one:0",
               "kafka://one two:9092", "kafka://one/two:9092", "kafka://[::1:9092"],
)  # fmt: skip
def test_what_is_no_address_is_told(broker: str) -> None:
    with pytest.raises(LogError, match="is no address of a broker") as caught:
        servers_of(Settings(broker=broker))
    assert "HOST:PORT" in (caught.value.hint or "")
