"""Logs of a long-running process, on stderr: plain lines for people, or one JSON object a line for whoever collects them.

A line about a record carries where it stands (``topic``, ``partition``, ``offset``), its ``message_id`` and the ``stage``, so that
it can be followed from the producer to the update. Values of records are never logged, and neither are secrets.
"""

from __future__ import annotations

import logging
import sys
import time

from pythonjsonlogger.json import JsonFormatter

from schemas.settings import Settings

FIELDS = ("stage", "topic", "partition", "offset", "message_id", "reason", "trace_id")
"""What a line about a record may carry besides its words."""


class PlainFormatter(logging.Formatter):
    """Time, level, logger, words, and the fields as ``name=value``."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without a traceback."""
        told = [f"{name}={getattr(record, name)}" for name in FIELDS if getattr(record, name, None) is not None]
        return " ".join([super().formatMessage(record), *told])


def configure(settings: Settings) -> None:
    """Send this process's logs to stderr as the settings say. Configuring again replaces what was configured before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_json() if settings.log_format == "json" else PlainFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)


def _json() -> logging.Formatter:
    names = {"asctime": "time", "levelname": "level", "name": "logger"}
    formatter = JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=names)
    formatter.converter = time.gmtime
    formatter.default_time_format, formatter.default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"
    return formatter
