"""docker-compose.yml and the Kubernetes manifests without an engine: schemas, hardening, commands and settings that exist."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from deploy.kafka.broker import free_port
from gateway.cli import main
from schemas.settings import Settings
from schemas.topics import TOPICS
from streams.kafka.client import group_of
from streams.kafka.topics import apply_topics, check_topics
from tests.support.kafka import own_broker

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("defi-brain")}
MANIFESTS = [
    (f"{path.stem}-{document['kind']}", document)
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, document in MANIFESTS:
        template = document.get("spec", {}).get("template")
        if template and "spec" in template:
            yield name, template["spec"]


def parses(arguments: list[str]) -> bool:
    """Whether the command line has such a command and takes such arguments."""
    command: click.Command = main
    context = click.Context(main, info_name="defi-brain")
    while isinstance(command, click.Group):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.parse_args(context, list(arguments))
    return True


def environment_settings(environment: dict[str, Any]) -> dict[str, Any]:
    """The settings that an environment names; each must be one of ours."""
    named = {name.removeprefix("DEFI_BRAIN_").lower(): str(value) for name, value in environment.items()}
    assert named.keys() <= Settings.model_fields.keys()
    return named


def test_compose_keeps_to_its_specification() -> None:
    schemas = pytest.importorskip("check_jsonschema.builtin_schemas", reason="the compose schema is in check-jsonschema")
    import jsonschema

    jsonschema.validate(COMPOSE, schemas.get_builtin_schema("vendor.compose-spec"))


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_service_runs_a_command_that_exists(name: str) -> None:
    assert parses(OURS[name]["command"])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_services_are_kept_small(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    if name in OURS:
        assert service["read_only"] is True
        assert service["user"] == "10001:10001"
    for variable, value in service["environment"].items():
        assert "PASSWORD" not in variable or str(value).startswith("/run/secrets/")


def test_every_worker_is_a_service() -> None:
    from gateway.kafka import WORKERS

    assert set(WORKERS) <= set(SERVICES)


@pytest.mark.kafka
def test_the_broker_takes_its_configuration_and_workers_get_in(tmp_path: Path) -> None:
    """The environment of the kafka service as the image turns it into properties, on ports of ours; the secrets of the docs."""
    ports = {"29093": free_port(), "19092": free_port(), "9092": free_port()}
    properties = {}
    for name, value in SERVICES["kafka"]["environment"].items():
        if name.startswith("KAFKA_") and name not in ("KAFKA_OPTS", "KAFKA_HEAP_OPTS", "KAFKA_LOG_DIRS"):
            text = str(value).replace("kafka:", "127.0.0.1:").replace("//:", "//127.0.0.1:")
            for port, ours in ports.items():
                text = text.replace(f":{port}", f":{ours}")
            properties[name.removeprefix("KAFKA_").lower().replace("_", ".")] = text
    (tmp_path / "kafka_password").write_text("a secret\n")
    jaas = (ROOT / "deploy" / "kafka" / "kafka_jaas.example").read_text().replace("change-me", "a secret")
    (tmp_path / "kafka_jaas").write_text(jaas)
    options = {"port": ports["9092"], "extra": properties, "jvm": [f"-Djava.security.auth.login.config={tmp_path / 'kafka_jaas'}"]}
    with own_broker(**options):
        named = environment_settings(SERVICES["topics"]["environment"])
        named |= {"broker": f"kafka://127.0.0.1:{ports['19092']}", "kafka_password_file": str(tmp_path / "kafka_password")}
        settings = Settings(**named)
        assert len(asyncio.run(apply_topics(settings))) == len(TOPICS)
        assert asyncio.run(check_topics(settings)) == []


@pytest.mark.parametrize(("name", "document"), MANIFESTS, ids=[name for name, _ in MANIFESTS])
def test_manifests_keep_to_their_schemas(name: str, document: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="Kubernetes schemas are in kubernetes-validate")
    if document["apiVersion"].split("/")[0] in ("keda.sh", "kustomize.config.k8s.io"):
        assert document["kind"] in ("ScaledObject", "TriggerAuthentication", "Kustomization")
        return
    validate.validate(document, "1.33", strict=True)


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=[name for name, _ in pods()])
def test_pods_are_kept_small(name: str, pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert parses(container["args"])


@pytest.mark.parametrize(("name", "pod"), [(name, pod) for name, pod in pods() if "topics" not in name])
def test_workers_are_asked_how_they_are_where_they_answer(name: str, pod: dict[str, Any]) -> None:
    (config,) = (document["data"] for _, document in MANIFESTS if document["kind"] == "ConfigMap")
    port = int(config["DEFI_BRAIN_METRICS_PORT"])
    for container in pod["containers"]:
        assert [one["containerPort"] for one in container["ports"]] == [port]
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    (policy,) = (document["spec"] for _, document in MANIFESTS if document["kind"] == "NetworkPolicy")
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port}]


def test_services_are_asked_how_they_are() -> None:
    for name, service in SERVICES.items():
        if service.get("command", [""])[0] == "worker":
            port = service["environment"]["DEFI_BRAIN_METRICS_PORT"]
            assert f":{port}/healthz" in service["healthcheck"]["test"][-1], name


def test_workers_are_scaled_by_their_own_lag() -> None:
    from gateway.kafka import INPUTS

    scaled = {document["metadata"]["name"]: document["spec"] for _, document in MANIFESTS if document["kind"] == "ScaledObject"}
    assert set(scaled) == {"defi-brain-embed", "defi-brain-signals", "defi-brain-distil"}
    for name, spec in scaled.items():
        role = name.removeprefix("defi-brain-")
        trigger = spec["triggers"][0]["metadata"]
        assert trigger["consumerGroup"] == group_of(Settings(), role)
        assert trigger["topic"] == INPUTS[role][0].name
        assert spec["maxReplicaCount"] == INPUTS[role][0].partitions


def test_the_configuration_is_made_of_settings() -> None:
    (config,) = (document["data"] for _, document in MANIFESTS if document["kind"] == "ConfigMap")
    assert Settings(**environment_settings(config)).on_kafka


def test_the_kustomization_lists_every_file() -> None:
    (listed,) = (document["resources"] for _, document in MANIFESTS if document["kind"] == "Kustomization")
    there = {path.name for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed) == there
