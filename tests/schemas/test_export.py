"""The committed JSON Schemas are the models', and say of real records what the models say."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given

from schemas import export
from schemas.codec import CONTRACTS, encode
from schemas.events import ToolExecution
from tests.support.events import executions, swap

SCHEMA = jsonschema.Draft202012Validator(export.schema_of("tool-execution"))


def test_every_contract_is_committed_as_its_model_has_it() -> None:
    assert export.differences() == []
    assert {path.name for path in export.FOLDER.glob("*.json")} == {export.file_name(carries) for carries in CONTRACTS}


@pytest.mark.parametrize("carries", sorted(CONTRACTS))
def test_every_schema_is_a_schema(carries: str) -> None:
    jsonschema.Draft202012Validator.check_schema(export.schema_of(carries))


@given(executions())
def test_what_is_written_fits_its_schema(event: ToolExecution) -> None:
    SCHEMA.validate(json.loads(encode(event)))


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "No Such Name"},
        {"status": "confirmed"},
        {"amount_in_raw": "1.5"},
        {"gas_used": -1},
        {"chain_id": 0},
        {"agent_id": ""},
    ],
)
def test_what_the_model_refuses_by_shape_the_schema_refuses(changes: dict[str, object]) -> None:
    assert SCHEMA.is_valid(swap())
    assert not SCHEMA.is_valid(swap(**changes))


def test_the_command_writes_what_is_missing_and_removes_what_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "FOLDER", tmp_path / "json")
    monkeypatch.setattr(export.differences, "__defaults__", (tmp_path / "json",))
    assert export.main(["--check"]) == 1
    assert "tool-execution.v1.json" in capsys.readouterr().err
    assert export.main([]) == 0
    (tmp_path / "json" / "stray.json").write_text("{}")
    assert export.main(["--check"]) == 1
    assert export.main([]) == 0
    assert export.main(["--check"]) == 0
    assert not (tmp_path / "json" / "stray.json").exists()
