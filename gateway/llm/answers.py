"""The JSON Schemas of answers, as strict endpoints want them: every property required, nothing else allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.proposals.claims import MOST
from workers.proposals.summary import MOST_LEVELS, Kinds


def claims_schema(metrics: Sequence[str], kinds: Kinds, levels: Mapping[str, Sequence[bool | str]]) -> dict[str, Any]:
    """The schema of claims about what a summary shows: its metrics, its features, and of text features the values that it has.

    The narrower the schema, the more of a small model's answers can be tested. It is no safeguard: what comes back is read and
    tested as if there were none.
    """
    parts: list[dict[str, Any]] = []
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    if numbers:
        parts.append(_object({"feature": _one_of(numbers), "op": _one_of([">=", "<"]), "value": {"type": "number"}}))
    for name, kind in kinds.items():
        if kind == "bool":
            parts.append(_object({"feature": _one_of([name]), "op": _one_of(["=="]), "value": {"type": "boolean"}}))
        elif kind == "text":
            values = [str(level) for level in levels[name] if isinstance(level, str)][:MOST_LEVELS]
            parts.append(_object({"feature": _one_of([name]), "op": _one_of(["=="]), "value": _one_of(values)}))
    condition = parts[0] if len(parts) == 1 else {"anyOf": parts}
    claim = _object(
        {
            "metric": _one_of(metrics),
            "conditions": {"type": "array", "minItems": 1, "maxItems": 2, "items": condition},
            "direction": _one_of(["higher", "lower"]),
        }
    )
    return _object({"claims": {"type": "array", "maxItems": MOST, "items": claim}})


def _one_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TEXT_SCHEMA: dict[str, Any] = _object({"text": {"type": "string"}})
READY_SCHEMA: dict[str, Any] = _object({"ready": {"type": "boolean"}})
