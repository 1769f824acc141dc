"""Rounds beside a pipeline, and the commands, against an endpoint that behaves or does not."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.llm.wiring import Rounds, model_breaker, rounds
from schemas.settings import Settings
from tests.support.llm import endpoint, raw, saying
from tests.support.taught import Brain
from workers.breakers.call import Phase

CLAIM = {"metric": "reward", "conditions": [{"feature": "load", "op": ">=", "value": 0.5}], "direction": "lower"}
TRUE = saying(json.dumps({"claims": [CLAIM]}))


def command(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    for name, value in {"URL": url, "MODEL": "stub", "RETRIES": "0", "TIMEOUT_S": "2"}.items():
        monkeypatch.setenv(f"DEFI_BRAIN_LLM_{name}", value)
    return CliRunner().invoke(main, ["--data-dir", str(folder), "model", *arguments])


def settings_for(brain: Brain, url: str, **more: Any) -> Settings:
    settings = Settings(data_dir=brain.folder, llm_url=url, llm_model="stub", llm_retries=0, **more)
    return settings.model_copy(update={"llm_every_s": 0.01})


def test_rounds_run_by_themselves_and_their_operations_are_applied(brain: Brain) -> None:
    with endpoint(TRUE, saying("{}")) as server, rounds(settings_for(brain, server.url), brain.log) as running:
        assert running is not None
        seen = brain.log.changes()
        while not [one for one in brain.said() if one is not None and one.purpose == "claims"]:
            seen = brain.log.wait(seen, 5.0)
    brain.work()
    assert [one.author for one in brain.held()] == ["model:stub"]


def test_nothing_waits_for_a_model_that_is_silent(brain: Brain) -> None:
    breaker = model_breaker(Settings())
    with endpoint() as server:
        server.handlers.append(server.silent)
        asked = threading.Event()
        server.handlers[0] = lambda request, body: (asked.set(), server.silent(request, body))[1]
        running = Rounds(settings_for(brain, server.url), brain.log, breaker)
        assert asked.wait(20)
        brain.work()  # the pipeline is idle at once, though a question is out
        running.stop()
    assert breaker.seen().phase is Phase.CLOSED


def test_without_an_endpoint_there_are_no_rounds(brain: Brain) -> None:
    with rounds(Settings(data_dir=brain.folder), brain.log) as running:
        assert running is None


def test_model_test_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(saying('{"ready": true}'), saying('{"no": 1}'), raw(b"oops", 500)) as server:
        good = command(tmp_path, server.url, monkeypatch, "test")
        shape = command(tmp_path, server.url, monkeypatch, "test", "--json")
        broken = command(tmp_path, server.url, monkeypatch, "test")
    assert good.exit_code == 0, good.output
    assert "keeps to the schema: True" in good.output
    assert (shape.exit_code, json.loads(shape.output)["keeps_to_the_schema"]) == (1, False)
    assert broken.exit_code == 1
    assert "answered 500: oops" in broken.output


def test_without_a_model_the_commands_say_what_to_do(brain: Brain, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (("test",), ("propose",), ("run",)):
        told = command(brain.folder, "", monkeypatch, *arguments)
        assert told.exit_code == 1
        assert "hint: set DEFI_BRAIN_LLM_URL" in told.output


def test_propose_and_said(brain: Brain, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(TRUE, saying('{"claims": []}')) as server:
        dry = command(brain.folder, server.url, monkeypatch, "propose", "--dry-run")
        assert "1 operations would be sent" in dry.output, dry.output
        assert "taken: {" in dry.output
        nothing = command(brain.folder, server.url, monkeypatch, "propose")
        assert "nothing to ask" in nothing.output
        done = json.loads(command(brain.folder, server.url, monkeypatch, "propose", "--json", "--key", brain.key).output)
    assert (done["dry_run"], done["operations"]) == (False, [])
    told = json.loads(command(brain.folder, "", monkeypatch, "said", "--json").output)["said"]
    assert [one["dry_run"] for one in told] == [False, True]
    assert "1/1" in command(brain.folder, "", monkeypatch, "said").output


@pytest.mark.parametrize("url", ["ftp://x", "http://user:secret@host/v1", "localhost:8080"])
def test_an_endpoint_that_is_none_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = command(tmp_path, url, monkeypatch, "test")
    assert told.exit_code == 1
    assert "setting llm_url" in told.output
    assert "secret" not in told.output
