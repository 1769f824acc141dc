"""One Kafka broker (KRaft, combined roles) as a child of nobody: it lives in a folder and is found again by that folder.

The folder holds ``server.properties``, the log (``data/``), ``kafka.log`` and ``broker.json`` (pid and ports). Whoever has the
folder can ask whether the broker runs, stop it, or start it again on the same ports with the same data. A pid is believed only
when that process's command line names the folder: pids are used again, and a killed broker leaves its file behind.
"""

# ruff: noqa: S603, S607, S314 - runs the machine's java, mvn and ps, and reads our own pom.xml
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache" / "kafka"
CLUSTER_ID = "ZGVmaS1icmFpbi1sb2NhbA"
JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class BrokerError(RuntimeError):
    """The broker cannot be had or did not come up; the message says what to do."""


def java() -> str:
    """The Java launcher: JAVA_HOME's, else the one on the path.

    Raises:
        BrokerError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        raise BrokerError("no Java: install a Java 17 runtime, or name a broker in DEFI_BRAIN_TEST_BROKER")
    return found


def version() -> str:
    """The Kafka version that pom.xml pins."""
    found = ElementTree.parse(HERE / "pom.xml").getroot().find(".//{*}properties/{*}kafka.version")
    return str(found.text) if found is not None else "unknown"


def libraries() -> Path:
    """The folder of jars, fetched with Maven when it is not there yet; two fetches at once do no harm.

    Raises:
        BrokerError: Maven is missing or cannot reach its repository.
    """
    ready = CACHE / version()
    if ready.is_dir():
        return ready
    maven = shutil.which("mvn")
    if not maven:
        raise BrokerError("no Maven: install it once to fetch Kafka, or name a broker in DEFI_BRAIN_TEST_BROKER")
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = Path(mkdtemp(prefix="fetch-", dir=CACHE))
    command = [maven, "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        raise BrokerError(f"Maven could not fetch Kafka: {(done.stdout + done.stderr).strip()[-500:]}")
    try:
        fresh.rename(ready)
    except OSError:  # another fetch was first
        shutil.rmtree(fresh, ignore_errors=True)
    return ready


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, timeout: float = 1.0) -> bool:
    """Whether a broker answers on the port that knows itself as part of its cluster (a Metadata v4 request without topics)."""
    client = b"probe"
    request = struct.pack(">hhih", 3, 4, 1, len(client)) + client + struct.pack(">ib", 0, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = connection.recv(16, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == 16 and bool(struct.unpack(">i", head[12:16])[0] > 0)


class LocalBroker:
    """A broker in ``folder``. ``extra`` are server properties that come after ours; ``scram`` maps users to SCRAM passwords."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        extra: Mapping[str, str] | None = None,
        scram: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self.folder = folder.resolve()
        self.extra = dict(extra or {})
        self.scram = dict(scram or {})
        self.jvm = tuple(jvm)
        self._wanted_port = port

    @property
    def log_file(self) -> Path:
        """Where the broker writes what it does."""
        return self.folder / "kafka.log"

    def _state(self) -> dict[str, int]:
        try:
            state = json.loads((self.folder / "broker.json").read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    @property
    def port(self) -> int:
        """The port clients connect to; 0 while no broker was ever started here."""
        return int(self._state().get("port", 0))

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process, or None when it does not run."""
        pid = int(self._state().get("pid", 0))
        return pid if pid and str(self.folder) in _command_of(pid) else None

    def up(self, timeout: float = 60.0) -> str:
        """Start the broker (unless it runs), wait until it answers, and return its address.

        Raises:
            BrokerError: it cannot be fetched, or does not answer in time.
        """
        if self.pid is None:
            self._format()
            self._launch()
        if not _await(lambda: self.pid is None or answers(self.port), timeout) or self.pid is None:
            raise BrokerError(f"Kafka did not come up; the end of {self.log_file}:\n{self._tail()}")
        return self.address

    def down(self, timeout: float = 30.0) -> None:
        """Stop the broker cleanly; kill it when it does not stop in time. No broker is no error."""
        self._end(signal.SIGTERM, timeout) or self._end(signal.SIGKILL, 10.0)

    def kill(self) -> None:
        """Kill the broker as a power cut would (SIGKILL)."""
        self._end(signal.SIGKILL, 10.0)

    def _end(self, how: signal.Signals, timeout: float) -> bool:
        pid = self.pid
        if pid is None:
            return True
        os.kill(pid, how)
        return _await(lambda: self.pid is None, timeout)

    def _command(self, main: str, *arguments: str) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
        return [java(), *JVM, *self.jvm, log4j, "-cp", f"{libraries()}/*", main, *arguments]

    def _format(self) -> None:
        """Write the properties and format the storage; an already formatted one is left as it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = self._state()
        port = self._wanted_port or state.get("port") or free_port()
        controller = state.get("controller_port") or free_port()
        self._remember(port=port, controller_port=controller)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties(port, controller).items()))
        if (self.folder / "data" / "meta.properties").exists():
            return
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
        for user, password in self.scram.items():
            arguments += ["--add-scram", f"SCRAM-SHA-256=[name={user},password={password}]"]
            arguments += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
        done = subprocess.run(self._command("kafka.tools.StorageTool", *arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"Kafka's storage could not be formatted: {(done.stdout + done.stderr).strip()[-800:]}")

    def _properties(self, port: int, controller: int) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            # A killed broker may come back only when its old session has ended; the default is nine seconds.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "500",
            "log.cleaner.dedupe.buffer.size": "4194304",
            **self.extra,
        }

    def _launch(self) -> None:
        command = self._command("kafka.Kafka", str(self.folder / "server.properties"))
        with self.log_file.open("ab") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True
            )
        self._remember(pid=process.pid)
        # A process that has just called exec has no command line for a moment.
        _await(lambda: self.pid is not None or process.poll() is not None, 5.0)

    def _remember(self, **values: int) -> None:
        fresh = self.folder / "broker.json.new"
        fresh.write_text(json.dumps({**self._state(), **values}))
        fresh.replace(self.folder / "broker.json")

    def _tail(self) -> str:
        try:
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-15:])
        except OSError:
            return "(nothing was written)"


def _await(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll until the condition holds; False when it does not in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _command_of(pid: int) -> str:
    """A process's command line; empty when it is gone (a zombie that nobody waited for is gone, too)."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    done = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return done.stdout
