"""The JSON Schemas of answers, as strict endpoints want them: every property required, nothing else allowed."""

from __future__ import annotations

from typing import Any

from workers.metrics import METRICS

_CONDITION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "feature": {"type": "string"},
        "op": {"type": "string", "enum": [">=", "<", "=="]},
        "value": {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}]},
    },
    "required": ["feature", "op", "value"],
    "additionalProperties": False,
}

CLAIMS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "maxItems": 8,
            "items": {
                "type": "object",
                "properties": {
                    "metric": {"type": "string", "enum": list(METRICS)},
                    "conditions": {"type": "array", "minItems": 1, "maxItems": 2, "items": _CONDITION},
                    "direction": {"type": "string", "enum": ["higher", "lower"]},
                },
                "required": ["metric", "conditions", "direction"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["claims"],
    "additionalProperties": False,
}

TEXT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}

READY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
