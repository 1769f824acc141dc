"""Record headers as one blob: names and values keep their order, duplicates and every byte.

Layout, repeated for each header: name length (u16), name (UTF-8), value length (u32), value; big-endian. No headers: NULL.
"""

from __future__ import annotations

from struct import Struct

from streams.record import Headers

_NAME = Struct(">H")
_VALUE = Struct(">I")


def pack_headers(headers: Headers) -> bytes | None:
    """The blob of some headers.

    >>> unpack_headers(pack_headers((("a", b"\\xff"), ("a", b""))))
    (('a', b'\\xff'), ('a', b''))
    """
    if not headers:
        return None
    parts: list[bytes] = []
    for name, value in headers:
        encoded = name.encode()
        parts += (_NAME.pack(len(encoded)), encoded, _VALUE.pack(len(value)), value)
    return b"".join(parts)


def unpack_headers(blob: bytes | None) -> Headers:
    """The headers of a blob that ``pack_headers`` made."""
    if blob is None:
        return ()
    headers: list[tuple[str, bytes]] = []
    at, end = 0, len(blob)
    while at < end:
        (size,) = _NAME.unpack_from(blob, at)
        at += 2 + size
        name = blob[at - size : at].decode()
        (size,) = _VALUE.unpack_from(blob, at)
        at += 4 + size
        headers.append((name, blob[at - size : at]))
    return tuple(headers)
