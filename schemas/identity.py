"""Identities from content: the same thing gets the same id wherever and however often it is seen (law 4)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

from schemas.types import chain_number

NAMESPACE = UUID("7b0f2c5e-2a52-5a0e-9a0b-6c1d5de3f0aa")
"""The project's UUIDv5 namespace. Changing it changes every id ever given: never do."""


def content_id(kind: str, *parts: object) -> str:
    """A UUIDv5 over a kind and its identifying parts.

    >>> content_id("insight", "a", 1) == content_id("insight", "a", 1)
    True
    >>> content_id("insight", "a", 1) == content_id("insight", "a1")
    False
    """
    return str(uuid5(NAMESPACE, "\x1f".join([kind, *(str(part) for part in parts)])))


def event_id_of(event: Mapping[str, Any]) -> str:
    """The id of an event that came without one.

    On chain it is (chain, transaction, log index), never (price, amount, time): two identical genuine fills both count. Without
    those it is the whole content.

    >>> event_id_of({"tx_hash": "0xab", "chain_id": 1, "log_index": 3, "note": "x"}) == event_id_of(
    ...     {"tx_hash": "0xAB", "chain_id": 1, "log_index": 3})
    True
    """
    if event.get("tx_hash") is not None and event.get("chain_id") is not None:
        transaction = str(event["tx_hash"]).lower()
        return content_id("event", chain_number(event["chain_id"]), transaction, event.get("log_index", "-"))
    plain = {key: value for key, value in event.items() if key not in ("event_id", "schema_version", "ts_unit")}
    return content_id("event", json.dumps(plain, default=str, sort_keys=True, ensure_ascii=False))


def said_id(key: str, text: str) -> str:
    """What is said of a subject, whatever its case and spacing: equal for two notes of the same words.

    >>> said_id("*", "Gas is  HIGH") == said_id("*", "gas is high")
    True
    """
    return content_id("said", key, " ".join(unicodedata.normalize("NFKC", text).casefold().split()))
