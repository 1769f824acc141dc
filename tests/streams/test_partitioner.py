"""Our partitioner is Kafka's: the same key stands in the same partition on either log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.partitioner import murmur2, partition_for

aiokafka_partitioner = pytest.importorskip("aiokafka.partitioner")


@given(st.binary(max_size=70))
def test_murmur2_is_aiokafkas(key: bytes) -> None:
    assert murmur2(key) == aiokafka_partitioner.murmur2(key)


@given(st.binary(min_size=1, max_size=70), st.integers(1, 64))
def test_partition_is_aiokafkas(key: bytes, count: int) -> None:
    partitions = list(range(count))
    assert partition_for(key, count) == aiokafka_partitioner.DefaultPartitioner()(key, partitions, partitions)


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas_own(key: bytes, signed: int) -> None:
    """Values of Kafka's own UtilsTest."""
    assert murmur2(key) == signed % 2**32
