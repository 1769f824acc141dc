"""Keys: made once, kept hashed, refused when revoked, whoever holds the file open; and their commands."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli import main
from gateway.keys import Caller, KeyProblem, KeyStore, NotAllowed, Tier

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_key_is_known_by_its_text_alone(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db") as store:
        key, text = store.create("desk", Tier.FEEDBACK, NOW)
        assert store.verify(text) == key
        assert key.caller == Caller("desk", Tier.FEEDBACK, key.id)
        other, _ = store.create("other", Tier.READ, NOW + timedelta(seconds=1))
        assert store.list() == (key, other)
        for wrong in (
            text[:-1],
            text + "A",
            text.replace(key.id, other.id),
            text.swapcase(),
            "",
            "dbk_",
            "Bearer " + text,
            "é" * 50,
        ):
            assert store.verify(wrong) is None


def test_the_file_has_no_secret_and_no_other_reader(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with KeyStore(path) as store:
        _, text = store.create("desk", Tier.ADMIN, NOW)
        secret = text.split("_", 2)[2].encode()
        for file in tmp_path.iterdir():
            assert secret not in file.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_revoked_key_is_refused_by_who_has_the_file_open(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db") as store, KeyStore(tmp_path / "keys.db") as elsewhere:
        key, text = store.create("desk", Tier.READ, NOW)
        assert elsewhere.verify(text) is not None
        revoked = store.revoke("desk", NOW + timedelta(hours=1))
        assert (revoked.revoked, elsewhere.verify(text)) == (NOW + timedelta(hours=1), None)
        assert store.revoke(key.id, NOW + timedelta(hours=9)) == revoked
        again, second = store.create("desk", Tier.READ, NOW)
        assert store.verify(second) == again


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "a\nb", "a\x00b"])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with KeyStore(tmp_path / "keys.db") as store, pytest.raises(KeyProblem, match="printable"):
        store.create(name, Tier.READ, NOW)


def test_one_name_one_key_in_use(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db") as store:
        store.create("desk", Tier.READ, NOW)
        with pytest.raises(KeyProblem, match="in use"):
            store.create("desk", Tier.ADMIN, NOW)
        with pytest.raises(KeyProblem, match="no key"):
            store.revoke("nobody", NOW)


@given(st.sampled_from(Tier), st.sampled_from(Tier))
def test_tiers_are_a_ladder(mine: Tier, needed: Tier) -> None:
    allowed = list(Tier).index(mine) >= list(Tier).index(needed)
    assert mine.allows(needed) == allowed
    if not allowed:
        with pytest.raises(NotAllowed, match=f"needs a {needed} key"):
            Caller("x", mine).need(needed)


def test_the_commands(tmp_path: Path) -> None:
    def run(*arguments: str) -> object:
        result = CliRunner().invoke(main, ["--data-dir", str(tmp_path / "data"), "keys", *arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    (tmp_path / "data").mkdir()
    assert run("list") == {"keys": []}
    made = run("create", "desk", "--tier", "feedback")
    assert isinstance(made, dict)
    with KeyStore(tmp_path / "data" / "keys.db") as store:
        assert store.verify(made["key"]) is not None
    listed = run("list")
    assert "key" not in json.dumps(listed).replace('"keys"', "")
    gone = run("revoke", "desk")
    assert isinstance(gone, dict)
    assert gone["revoked"]
    plain = CliRunner().invoke(main, ["--data-dir", str(tmp_path / "data"), "keys", "create", "second"])
    assert plain.stdout.startswith("dbk_")
    assert plain.stdout.count("\n") == 1
    wrong = CliRunner().invoke(main, ["--data-dir", str(tmp_path / "data"), "keys", "revoke", "nobody"])
    assert (wrong.exit_code, "hint:" in wrong.stderr) == (1, True)
