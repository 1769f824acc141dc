"""Settings: precedence, sources, refusals in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import load_settings, sources
from schemas.errors import BrainError


def test_an_argument_beats_the_environment_beats_the_file_beats_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "brain.toml"
    config.write_text('data_dir = "from-file"\nbatch_records = 11\nmodel_batch = 4\n')
    monkeypatch.setenv("DEFI_BRAIN_CONFIG", str(config))
    monkeypatch.setenv("DEFI_BRAIN_BATCH_RECORDS", "12")
    settings = load_settings(data_dir="from-argument", broker=None)
    assert (str(settings.data_dir), settings.batch_records, settings.model_batch) == ("from-argument", 12, 4)
    origin = sources(data_dir="from-argument")
    assert origin["data_dir"] == "argument"
    assert origin["batch_records"] == "environment"
    assert origin["model_batch"] == str(config)
    assert origin["window_hours"] == "default"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('broker = "redis://x"', "embedded://PATH or kafka://HOST:PORT"),
        ("batch_records = 0", "batch_records"),
        ("window_hours = 1e-9", "window_hours"),
        ("no_such_setting = 1", "no_such_setting"),
        ("batch_records = ", "brain.toml"),
    ],
)
def test_a_bad_setting_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, said: str) -> None:
    config = tmp_path / "brain.toml"
    config.write_text(toml)
    monkeypatch.setenv("DEFI_BRAIN_CONFIG", str(config))
    with pytest.raises(BrainError, match=said):
        load_settings()


@pytest.mark.parametrize("name", ["broker", "llm_url"])
def test_credentials_in_an_address_are_refused_and_not_repeated(name: str) -> None:
    scheme = {"broker": "kafka", "llm_url": "https"}[name]
    with pytest.raises(BrainError, match="holds no credentials") as caught:
        load_settings(**{name: f"{scheme}://user:hunter2@host:9092"})
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    assert "@" in str(load_settings(broker="embedded:///home/me@work/log.db").log_path)


def test_a_missing_configuration_file_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFI_BRAIN_CONFIG", "no-such-file.toml")
    with pytest.raises(BrainError, match=r"no-such-file\.toml"):
        load_settings()


def test_where_the_log_is(tmp_path: Path) -> None:
    assert load_settings(data_dir=str(tmp_path)).log_path == tmp_path / "log.db"
    assert load_settings(broker="embedded://elsewhere/log.db").log_path == Path("elsewhere/log.db")


@pytest.mark.parametrize(
    ("variable", "value", "said", "hint"),
    [
        ("DEFI_BRAIN_METRICS_PORT", "abc", "setting metrics_port: ", "DEFI_BRAIN_METRICS_PORT"),
        ("DEFI_BRAIN_TRACE_ENDPOINT", "collector", "setting trace_endpoint: a collector is http://", "DEFI_BRAIN_TRACE_ENDPOINT"),
        ("DEFI_BRAIN_BROKER", "redis://x", "setting broker: a broker is", "DEFI_BRAIN_BROKER"),
    ],
)
def test_a_refusal_says_where_the_value_comes_from(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str, hint: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BrainError, match=said) as caught:
        load_settings()
    assert caught.value.hint == f"it comes from {hint}"
    with pytest.raises(BrainError) as argued:
        load_settings(broker="redis://y")
    assert argued.value.hint in {"it comes from --broker", f"it comes from {hint}"}


def test_a_misspelt_name_in_the_file_gets_a_suggestion_and_bytes_that_are_no_text_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "brain.toml"
    monkeypatch.setenv("DEFI_BRAIN_CONFIG", str(config))
    config.write_text('data_dri = "x"')
    with pytest.raises(BrainError, match="there is no setting data_dri") as caught:
        load_settings()
    assert caught.value.hint == "did you mean data_dir?"
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(BrainError, match=r"brain\.toml"):
        load_settings()


@pytest.mark.parametrize("value", ["inf", "nan", "1e300"])
@pytest.mark.parametrize(
    "name", ["window_hours", "lateness_hours", "patience_days", "max_future_s", "briefing_every_s", "llm_every_s"]
)
def test_a_time_that_no_clock_holds_is_refused(name: str, value: str) -> None:
    with pytest.raises(BrainError, match=name):
        load_settings(**{name: value})
