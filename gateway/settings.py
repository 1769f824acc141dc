"""Settings for an entry point, with the source of each value and one-line refusals."""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.errors import BrainError
from schemas.settings import Settings

PREFIX = "DEFI_BRAIN_"
BESIDES = ("CONFIG", "SECRETS", "TEST_BROKER", "TEST_CHROMIUM")
"""What else has that prefix in the environment: the TOML file, the compose file's folder of secrets, what the tests look for."""


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
        raise _refused(error, given) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BrainError(f"{path}: {error}", hint="correct the TOML file") from None


def _refused(error: ValidationError, given: dict[str, Any]) -> BrainError:
    """The first thing that does not fit, and where it was said."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        return BrainError(f"there is no setting {name}", hint=_meant(name) or f"correct it in {config_path()}")
    source = sources(**given)[name]
    places = {"argument": f"--{name.replace('_', '-')}", "environment": f"{PREFIX}{name}".upper(), "default": "its default"}
    return BrainError(
        f"setting {name}: {first['msg'].removeprefix('Value error, ')}", hint=f"it comes from {places.get(source, source)}"
    )


def _meant(name: str) -> str | None:
    near = get_close_matches(name.lower(), Settings.model_fields, n=1)
    return f"did you mean {near[0]}?" if near else None


def unknown_in_environment() -> dict[str, str | None]:
    """Variables that look like settings and are none, each with a hint at what may be meant: nothing else would notice them."""
    names = {name.upper() for name in os.environ if name.upper().startswith(PREFIX)}
    known = {f"{PREFIX}{name}".upper() for name in (*Settings.model_fields, *BESIDES)}
    return {name: _meant(name.removeprefix(PREFIX)) for name in sorted(names - known)}


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
