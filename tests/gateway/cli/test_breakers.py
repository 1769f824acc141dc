"""``breakers value|status|restart`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli import main


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--data-dir", str(folder), "breakers", *arguments])


def value(folder: Path, amount: str, minute: int, deposits: str = "1000", *more: str) -> Result:
    when = f"2026-03-01T12:{minute:02}:00"
    return run(folder, "value", "main", amount, "--net-deposits", deposits, "--ts", when, *more)


def test_from_a_first_value_to_a_restart(tmp_path: Path) -> None:
    assert value(tmp_path, "1000", 0).output == "main: ok, 0.00 % under its mark\n"
    assert "no portfolio" not in run(tmp_path, "status").output
    assert value(tmp_path, "930", 5).output == "main: halt, 7.00 % under its mark\n"
    shown = run(tmp_path, "status", "--json")
    assert shown.exit_code == 3
    document: dict[str, Any] = json.loads(shown.output)
    assert (document["state"], document["may_open"], document["may_act"]) == ("halt", False, True)
    assert "halt" in run(tmp_path, "status").output
    other = value(tmp_path, "1", 6, "0", "--unit", "ETH")
    assert other.exit_code == 1
    assert "unit_changed" in other.output
    refused = run(tmp_path, "restart", "main", "930", "--net-deposits", "1000", "--reason", "r", "--ts", "2026-03-01T12:10:00")
    assert refused.exit_code == 1  # nobody said yes
    again = run(
        tmp_path, "restart", "main", "930", "--net-deposits", "1000", "--reason", "r", "--ts", "2026-03-01T12:10:00", "--yes"
    )
    assert again.output == "main: ok, 0.00 % under its mark\n"


def test_what_is_no_number_is_one_line(tmp_path: Path) -> None:
    told = value(tmp_path, "NaN", 0)
    assert told.exit_code == 1
    assert told.output.startswith("error: value: NaN and infinity are refused")
    assert value(tmp_path, "1000", 0, "1e999").exit_code == 1
