"""Kafka's default partitioner, so that a key stands in the same partition on either log.

Reference: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``toPositive``; MurmurHash2 by Austin Appleby, seed 0x9747b28c.
"""

from __future__ import annotations

from functools import lru_cache

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash as Kafka's Java client computes it, as an unsigned integer.

    >>> murmur2(b"21") == -973932308 % 2**32
    True
    """
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=4096)
def partition_for(key: bytes, partitions: int) -> int:
    """The partition of a key among ``partitions``: ``toPositive(murmur2(key)) % partitions``.

    >>> partition_for(b"swap:1:0xaa/0xbb", 1)
    0
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
