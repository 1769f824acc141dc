"""How commands talk: data to stdout, progress to stderr and only on a terminal, errors as one line with a hint.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 unhealthy.
"""

from __future__ import annotations

import functools
import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import click
import orjson

from schemas.errors import BrainError

UNHEALTHY = 3

OURS = ("gateway", "streams", "workers", "stores", "schemas")
"""Whose warnings a command passes on."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


ABOUT_FILES: dict[type[OSError], str] = {
    PermissionError: "correct the owner or mode, or name another place",
    FileExistsError: "move it away, or name another place",
    NotADirectoryError: "a file stands where a folder should: move it away, or name another place",
    FileNotFoundError: "make the folder first, or correct the path",
}
"""What to do about what the file system refuses."""


class _Ours(logging.Filter):
    """Lets warnings of this program through, but for those about single records: a command counts records itself, and tells of a
    broker's or library's trouble in its error."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name.partition(".")[0] in OURS and not hasattr(record, "message_id")


def pass_warnings_on() -> None:
    """Warnings as ``warning: …`` on stderr, a line each, until somebody configures logs as a service does (``gateway/logs.py``).

    Python writes the bare words of every library's warnings, and of each rejected record, where nothing is configured.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.addFilter(_Ours())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class Finite(click.FloatRange):
    """A range of floats without NaN and infinity, which every comparison of a range lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See :class:`click.ParamType`."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def print_json(document: Any) -> None:
    """One JSON document with stable keys on stdout."""
    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode())


def print_json_line(document: Any) -> None:
    """One JSON document on a line of its own, for streams."""
    click.echo(orjson.dumps(document, default=str).decode())


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns padded to their widest cell; the last one is not padded, so long text wraps by itself."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(headers), *cells]) for column in range(len(headers))]
    for line in [list(headers), *cells]:
        padded = [cell.ljust(width) for cell, width in zip(line[:-1], widths[:-1], strict=True)]
        click.echo("  ".join([*padded, line[-1]]).rstrip())


def fail(message: str, hint: str | None = None, code: int = 1) -> NoReturn:
    """One line that says what is wrong, one that says what to do, and the exit code."""
    click.echo(f"error: {' '.join(message.split())}", err=True)
    if hint:
        click.echo(f"hint: {' '.join(hint.split())}", err=True)
    raise click.exceptions.Exit(code)


def plain_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the errors a person can act on into one line and exit code 1; leave bugs their traceback."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BrainError as error:
            fail(str(error), error.hint)
        except BrokenPipeError:
            raise click.exceptions.Exit(0) from None
        except OSError as error:
            fail(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), ABOUT_FILES.get(type(error)))

    return guarded


class Progress:
    """One line on stderr that is rewritten, on a terminal; nothing elsewhere.

    ``show`` is cheap to call often: it writes at most ten times a second.
    """

    def __init__(self, *, enabled: bool | None = None) -> None:
        self._enabled = sys.stderr.isatty() if enabled is None else enabled
        self._last = 0.0
        self._width = 0

    def show(self, text: str) -> None:
        """Rewrite the line."""
        now = time.monotonic()
        if not self._enabled or now - self._last < 0.1:
            return
        self._last = now
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._enabled and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0
