"""Secrets are files, never values: read when they are needed, told to nobody."""

from __future__ import annotations

from pathlib import Path

from streams.log import LogError


def read_secret(path: Path | None, setting: str, required: bool = False) -> str:
    """A secret file's text without its last line end.

    Raises:
        LogError: it cannot be read, or it is required and not set; the message names the setting and the file, not what it holds.
    """
    if path is None:
        if required:
            raise LogError(f"{setting} is not set: it names the file that holds the secret")
        return ""
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(f"{setting} {path} cannot be read: {error}") from None
