"""Settings: one class; arguments > environment > secret files > TOML file > defaults.

Only a composition root instantiates it: nothing else in the project reads the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)


class Settings(BaseSettings):
    """Every setting, with its default. Environment names are ``DEFI_BRAIN_`` and the field in upper case.

    The TOML file is ``defi-brain.toml`` in the working folder, or the one ``DEFI_BRAIN_CONFIG`` names.
    """

    model_config = SettingsConfigDict(
        env_prefix="DEFI_BRAIN_", extra="forbid", frozen=True, validate_default=False, allow_inf_nan=False
    )

    data_dir: Path = Field(Path("data"), description="folder where everything is kept")
    broker: str = Field("", description="embedded://PATH or kafka://HOST:PORT; empty: embedded in the data folder")

    model_dir: Path | None = Field(None, description="folder with another copy of model.onnx and tokenizer.json")
    model_dimension: int = Field(384, ge=8, le=4096, description="vector dimension; less than the model's truncates (Matryoshka)")
    model_threads: int = Field(0, ge=0, description="threads of one embedding call; 0: as many as there are cores")
    model_batch: int = Field(8, ge=1, le=512, description="texts in one inference")
    embedding_cache: bool = Field(True, description="embed each distinct sentence once")

    window_hours: float = Field(4.0, ge=0.001, le=87_600, description="event-time window of the distiller")
    window_min_episodes: int = Field(3, ge=1, description="fewest new episodes that make a window worth mining")
    lateness_hours: float = Field(4.0, gt=0, le=87_600, description="how far behind its key's clock an event still teaches")
    patience_days: float = Field(
        7.0, gt=0, le=3650, description="how far behind, in event time, a partition holds up claims above the keys"
    )
    evidence_limit: int = Field(2000, ge=100, description="episodes of evidence kept a key")
    fdr: float = Field(0.10, gt=0, lt=1, description="false discovery rate of new claims")
    drift_delta: float = Field(0.01, gt=0, lt=1, description="ADWIN's confidence parameter, split over a key's streams")
    max_future_s: float = Field(300.0, ge=0, le=315_360_000, description="how far after its arrival an event may be dated")

    batch_records: int = Field(256, ge=1, le=5000, description="records a stage takes at once")
    checkpoint_records: int = Field(2000, ge=1, description="records between two snapshots of a stateful stage")

    briefing: bool = Field(True, description="whether serve and mcp make a briefing on schedule; on demand there always is one")
    briefing_first_s: float = Field(8.0, ge=0, le=31_536_000, description="seconds from the start to the first briefing")
    briefing_every_s: float = Field(3600.0, ge=1, le=31_536_000, description="seconds from one briefing to the next")

    # Recall, where `recall-tune set` has changed nothing; and learned ranking.
    recall_min_score: float = Field(0.0, ge=-1, le=1, description="cosine under which nothing is recalled")
    recall_max_results: int = Field(20, ge=1, le=50, description="most memories in one answer")
    recall_default_limit: int = Field(5, ge=1, le=50, description="memories in an answer that does not say how many")
    recall_boost_recent: bool = Field(True, description="whether what is recent is preferred")
    recall_boost_halflife: float = Field(30.0, gt=0, le=36_500, description="days after which half of that is left")
    recall_boost_weight: float = Field(0.15, ge=0, le=1, description="most that recency adds to a score of 0 … 1")
    ranker_train_every: int = Field(50, ge=1, description="uses of the memory between two trainings of the ranker")
    ranker_rate: float = Field(0.05, gt=0, le=1, description="the ranker's rate of learning")
    ranker_blend: float = Field(0.35, ge=0, le=1, description="share of a score that the ranker decides")
    ranker_min_samples: int = Field(10, ge=1, description="fewest uses that the ranker learns from")
    ranker_window_days: int = Field(30, ge=1, description="days of uses that the ranker learns from")

    breaker_warn_bps: int = Field(300, ge=1, le=10_000, description="drawdown from its mark that warns, in basis points")
    breaker_halt_bps: int = Field(700, ge=1, le=10_000, description="drawdown that halts new positions, in basis points")
    breaker_stop_bps: int = Field(1300, ge=1, le=10_000, description="drawdown that stops everything, in basis points")
    breaker_hysteresis_bps: int = Field(100, ge=0, le=10_000, description="how far under its threshold a state is left again")

    # A language model is optional. Its key is in a file, never a value; without a URL nobody is asked.
    llm_url: str = Field("", description="base URL of an OpenAI-compatible endpoint (http://127.0.0.1:8080/v1); empty: none")
    llm_model: str = Field("default", min_length=1, max_length=128, description="the endpoint's name for the model")
    llm_key_file: Path | None = Field(None, description="file that holds the endpoint's key")
    llm_format: Literal["json_schema", "json_object", "text"] = Field("json_schema", description="how answers are constrained")
    llm_timeout_s: float = Field(5.0, gt=0, le=600, description="longest wait for one answer; a model on a CPU needs more")
    llm_retries: int = Field(2, ge=0, le=5, description="further attempts after a failure that may pass")
    llm_tokens_per_hour: int = Field(100_000, ge=0, description="tokens that may be spent in any hour")
    llm_max_tokens: int = Field(700, ge=16, le=8192, description="longest answer, in tokens")
    llm_summary_chars: int = Field(8000, ge=500, le=50_000, description="longest summary in a question; small models hold less")
    llm_every_s: float = Field(3600.0, ge=1, le=31_536_000, description="seconds between two rounds of proposals by up")
    llm_fdr: float = Field(0.02, gt=0, lt=1, description="false discovery rate of a model's claims, a key, beside fdr")

    log_level: Literal["debug", "info", "warning", "error"] = Field("warning", description="least serious log line that is written")
    log_format: Literal["text", "json"] = Field("text", description="log lines on stderr: text for people, json to be collected")

    trace_endpoint: str = Field("", description="where spans are sent, e.g. http://127.0.0.1:4318/v1/traces; empty: nowhere")
    trace_ratio: float = Field(0.01, ge=0, le=1, description="share of records without a trace of their own that get one")

    # Metrics and health. The port has no authentication: leave it on loopback, or put something before it that has.
    metrics_port: int = Field(0, ge=0, le=65535, description="port of /metrics, /healthz and /readyz; 0: none (9464 is usual)")
    metrics_host: str = Field("127.0.0.1", min_length=1, description="address that the metrics port listens on")
    health_stall_s: float = Field(60.0, gt=0, description="silence of a stage with records to read that /healthz calls a failure")
    health_behind_s: float = Field(60.0, gt=0, description="how long a record may wait before /readyz says not ready")

    # Kafka. Secrets are files, never values; they are read when a client is made (a token: at each connection).
    kafka_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field("plaintext", description="security protocol")
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        "SCRAM-SHA-512", description="SASL mechanism"
    )
    kafka_username: str = Field("", description="SASL user")
    kafka_password_file: Path | None = Field(None, description="file that holds the SASL password")
    kafka_token_file: Path | None = Field(None, description="file that holds the OAUTHBEARER token")
    kafka_token_url: str = Field("", description="OAUTHBEARER token endpoint (client credentials), instead of a token file")
    kafka_client_id: str = Field("", max_length=256, description="client at the token endpoint")
    kafka_client_secret_file: Path | None = Field(None, description="file that holds the client's secret at the token endpoint")
    kafka_token_scope: str = Field("", description="scope asked for at the token endpoint")
    kafka_token_audience: str = Field("", description="audience asked for at the token endpoint, where it wants one")
    kafka_token_ca_file: Path | None = Field(None, description="PEM file of who signs the token endpoint; default: the system's")
    kafka_ca_file: Path | None = Field(None, description="PEM file of the authorities that sign brokers; default: the system's")
    kafka_cert_file: Path | None = Field(None, description="PEM file of the client's certificate (mutual TLS)")
    kafka_key_file: Path | None = Field(None, description="PEM file of the client's private key (mutual TLS)")
    kafka_key_password_file: Path | None = Field(None, description="file that holds the private key's passphrase")
    kafka_check_hostname: bool = Field(True, description="whether the broker's certificate must name its host")
    kafka_app: str = Field("defi-brain", pattern=r"^[a-z][a-z0-9-]{0,62}$", description="first part of consumer group names")
    kafka_instance: str = Field("", max_length=120, description="name of this instance for static group membership; empty: dynamic")
    kafka_session_s: float = Field(30.0, ge=1, le=1800, description="silence after which a group takes a member for dead")
    kafka_replication: int = Field(1, ge=1, le=10, description="replicas of topics that `topics apply` creates")

    @field_validator("broker")
    @classmethod
    def _known_broker(cls, value: str) -> str:
        if value and not value.startswith(("embedded://", "kafka://")):
            raise ValueError("a broker is embedded://PATH or kafka://HOST:PORT")
        if value.startswith("kafka://") and "@" in value:
            raise ValueError("a broker's address holds no credentials: see kafka_username and kafka_password_file")
        return value

    @field_validator("llm_url")
    @classmethod
    def _known_endpoint(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("an endpoint is http://... or https://...")
        if "@" in value:
            raise ValueError("an endpoint's URL holds no credentials: put the key into a file")
        return value.rstrip("/")

    @field_validator("trace_endpoint")
    @classmethod
    def _known_collector(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("a collector is http://HOST:PORT/v1/traces, or https://...")
        return value

    @property
    def log_path(self) -> Path:
        """The embedded log's file."""
        return Path(self.broker.removeprefix("embedded://")) if self.broker.startswith("embedded://") else self.data_dir / "log.db"

    @property
    def on_kafka(self) -> bool:
        """Whether records move over Kafka."""
        return self.broker.startswith("kafka://")

    @property
    def followed(self) -> float:
        """The share of records without a trace of their own that get one: none where spans are sent nowhere."""
        return self.trace_ratio if self.trace_endpoint else 0.0

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, environment, secret files, TOML, in falling precedence."""
        toml = Path(os.environ.get("DEFI_BRAIN_CONFIG", "defi-brain.toml"))
        return init_settings, env_settings, file_secret_settings, TomlConfigSettingsSource(settings_cls, toml)

    def plain(self) -> dict[str, Any]:
        """Every setting as JSON values; secrets are never among them."""
        return self.model_dump(mode="json")
