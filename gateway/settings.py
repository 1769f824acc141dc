"""Settings for an entry point, with the source of each value and one-line refusals."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.errors import BrainError
from schemas.settings import Settings

PREFIX = "DEFI_BRAIN_"


def load_settings(**arguments: Any) -> Settings:
    """Settings from arguments (those that are not None), environment, secret files, TOML and defaults.

    Raises:
        BrainError: a value does not fit, a name is unknown, or the TOML file cannot be read.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    path = config_path()
    if "DEFI_BRAIN_CONFIG" in os.environ and not path.is_file():
        raise BrainError(f"there is no configuration file {path}", hint="correct or unset DEFI_BRAIN_CONFIG")
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(step) for step in first["loc"])
        raise BrainError(f"setting {name}: {first['msg']}", hint="see defi-brain config show --sources") from None
    except tomllib.TOMLDecodeError as error:
        raise BrainError(f"{path}: {error}", hint="correct the TOML file") from None


def config_path() -> Path:
    """The TOML file that settings come from, whether or not it is there."""
    return Path(os.environ.get("DEFI_BRAIN_CONFIG", "defi-brain.toml"))


def sources(**arguments: Any) -> dict[str, str]:
    """Where each setting's value comes from: ``argument``, ``environment``, the TOML file's name, or ``default``."""
    path = config_path()
    in_toml = set(tomllib.loads(path.read_text()) if path.is_file() else {})
    in_environment = {name.upper() for name in os.environ}

    def source(name: str) -> str:
        if arguments.get(name) is not None:
            return "argument"
        if f"{PREFIX}{name}".upper() in in_environment:
            return "environment"
        return str(path) if name in in_toml else "default"

    return {name: source(name) for name in Settings.model_fields}
