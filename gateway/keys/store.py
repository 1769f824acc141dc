"""Keys in a small SQLite file of their own: they are no content of the log, and no rebuild brings a revoked one back.

A key reads ``dbk_ID_SECRET``: 12 hexadecimal digits that find its row, and 256 random bits. Only the SHA-256 of the secret is
kept; a slow hash would add nothing to 256 random bits. It is compared in constant time, and an unknown id is compared too.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gateway.keys.tiers import Caller, Tier
from schemas.errors import BrainError
from schemas.types import iso, moment
from stores.sqlite.connection import REBUILD, open_connection
from stores.sqlite.errors import StoreError

_SHAPE = re.compile(r"dbk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")
_NOBODY = sha256(b"nobody has this key").hexdigest()
_COLUMNS = "id, name, tier, created, revoked"
_CREATE = """
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    tier TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    created TEXT NOT NULL,
    revoked TEXT
) STRICT, WITHOUT ROWID
"""


class KeyProblem(BrainError):
    """A key cannot be made, found or revoked."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without its secret."""

    id: str
    name: str
    tier: Tier
    created: datetime
    revoked: datetime | None

    @property
    def caller(self) -> Caller:
        """Who asks with it."""
        return Caller(self.name, self.tier, self.id)


class KeyStore:
    """The keys of one data folder; the file is made when missing, readable by its owner only. Safe to share between threads.

    Several processes may use the file at once: a key that was revoked elsewhere is refused at its next use.
    """

    def __init__(self, path: Path, random: Callable[[int], bytes] = secrets.token_bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._random = random
        try:
            self._connection = open_connection(path)
        except StoreError as error:
            if error.hint != REBUILD:
                raise
            raise KeyProblem(str(error), hint="move it away and make new keys, or take keys.db from a backup") from None
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(_CREATE)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def create(self, name: str, tier: Tier, now: datetime) -> tuple[ApiKey, str]:
        """A new key, and the text that its holder sends. The text is shown once: nobody can read it back.

        Raises:
            KeyProblem: no name, too long a one, or a key in use has it: the name stands in the log as author.
        """
        if not name.strip() or len(name) > 64 or not name.isprintable():
            raise KeyProblem("a key's name is 1 to 64 printable characters", hint="name the agent or person that will use it")
        key_id = self._random(6).hex()
        secret = _text(self._random(32))
        with self._connection.transaction():
            if self._connection.one("SELECT 1 FROM keys WHERE name = ? AND revoked IS NULL", (name,)):
                raise KeyProblem(f"a key in use is named {name!r}", hint="revoke it first, or choose another name")
            self._connection.execute(
                "INSERT INTO keys (id, name, tier, secret_sha256, created) VALUES (?, ?, ?, ?, ?)",
                (key_id, name, str(tier), _digest(secret), iso(now)),
            )
        return ApiKey(key_id, name, tier, moment(iso(now))[0], None), f"dbk_{key_id}_{secret}"

    def revoke(self, id_or_name: str, now: datetime) -> ApiKey:
        """Refuse a key from now on. Revoking it again changes nothing.

        Raises:
            KeyProblem: there is no such key.
        """
        with self._connection.transaction():
            found = self._connection.execute(
                f"SELECT {_COLUMNS} FROM keys WHERE id = :it OR name = :it ORDER BY revoked IS NOT NULL LIMIT 1",  # noqa: S608
                {"it": id_or_name},
            )
            if not found:
                raise KeyProblem(f"there is no key {id_or_name!r}", hint="defi-brain keys list shows them")
            self._connection.execute("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (iso(now), found[0][0]))
            row = self._connection.execute(f"SELECT {_COLUMNS} FROM keys WHERE id = ?", (found[0][0],))  # noqa: S608
        return _key(row[0])

    def list(self) -> tuple[ApiKey, ...]:
        """Every key ever made, the oldest first."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY created, id")  # noqa: S608
        return tuple(_key(row) for row in rows)

    def verify(self, text: str) -> ApiKey | None:
        """The key that a caller sent; None where it is none of ours, or was revoked."""
        shape = _SHAPE.match(text)
        key_id, secret = (shape[1], shape[2]) if shape else ("", "")
        rows = self._connection.execute(f"SELECT {_COLUMNS}, secret_sha256 FROM keys WHERE id = ?", (key_id,))  # noqa: S608
        kept = rows[0][-1] if rows else _NOBODY
        same = hmac.compare_digest(_digest(secret), kept)
        if not rows or not same:
            return None
        key = _key(rows[0][:-1])
        return None if key.revoked else key

    def in_use(self, key_id: str) -> bool:
        """Whether there is a key of this id that has not been revoked; for who was verified before."""
        return bool(self._connection.execute("SELECT 1 FROM keys WHERE id = ? AND revoked IS NULL", (key_id,)))

    def copy_to(self, target: Path) -> None:
        """A copy of the keys as they are now, in a new file that only its owner can read."""
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection.execute("VACUUM INTO ?", (str(target),))


def _text(random: bytes) -> str:
    return base64.urlsafe_b64encode(random).decode().rstrip("=")


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _key(row: tuple[Any, ...]) -> ApiKey:
    key_id, name, tier, created, revoked = row
    return ApiKey(key_id, name, Tier(tier), moment(created)[0], None if revoked is None else moment(revoked)[0])
