"""Recall's settings as people change them: by name, as text on a command line or as plain values in an operation.

A setting has the type of its default. A whole number is good for a fraction, nothing else is converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from stores.recall.errors import BadRecall
from stores.recall.tuning import RecallTuning

Value = bool | int | float | str
DEFAULTS: dict[str, Value] = asdict(RecallTuning())
_TRUTHS = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}


def tuned(changes: Mapping[str, Value]) -> RecallTuning:
    """The tuning with these changes to the defaults.

    Raises:
        BadRecall: a name that is none, a value of another type or out of its range, or values that do not go together.

    >>> tuned({"min_score": 0.35, "boost_recent": False}).min_score
    0.35
    """
    return RecallTuning().with_changes(**{name: _typed(name, value) for name, value in changes.items()})


def parsed(name: str, text: str) -> Value:
    """A setting's value from text.

    Raises:
        BadRecall: no such setting, or text that is no value of it.

    >>> parsed("boost_recent", "off"), parsed("max_results", "10"), parsed("min_score", "1")
    (False, 10, 1.0)
    """
    default = _default(name)
    try:
        if isinstance(default, bool):
            return _TRUTHS[text.lower()]
        if isinstance(default, (int, float)):
            return type(default)(text)
    except (KeyError, ValueError):
        raise BadRecall(f"{name} is {_kind(default)}, not {text!r}", hint=f"its default is {_shown(default)}") from None
    return text


def _typed(name: str, value: Value) -> Value:
    default = _default(name)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        raise BadRecall(f"{name} is {_kind(default)}, not {value!r}", hint=f"its default is {_shown(default)}")
    return value


def _default(name: str) -> Value:
    if name not in DEFAULTS:
        raise BadRecall(f"recall has no setting {name!r}", hint=f"one of {', '.join(DEFAULTS)}")
    return DEFAULTS[name]


def _kind(default: Value) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(type(default), "a name")


def _shown(default: Value) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
