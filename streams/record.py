"""A record as the log has it: bytes, not yet a contract."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic's partition. ``timestamp_ms`` is when it was appended, by the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def header(self, name: str) -> str | None:
        """The last header of that name as text; bytes that are not UTF-8 are shown escaped."""
        for key, value in reversed(self.headers):
            if key == name:
                return value.decode("utf-8", "backslashreplace")
        return None
