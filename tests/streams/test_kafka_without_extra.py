"""Without the ``kafka`` extra everything can be imported, and what needs it says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("aiokafka", "faust", "mode"):
            raise ModuleNotFoundError(name)

import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("aiokafka", "faust") else real(name, package)
sys.meta_path.insert(0, Absent())
import gateway.cli.kafka, gateway.kafka, streams.kafka
for module in pkgutil.iter_modules(streams.kafka.__path__, "streams.kafka."):
    importlib.import_module(module.name)
from schemas.settings import Settings
from streams.kafka.log import KafkaLog
from streams.log import LogError
try:
    KafkaLog(Settings(broker="kafka://127.0.0.1:1"))
except LogError as error:
    print(error, "|", error.hint)
"""


def test_it_is_missed_only_where_it_is_needed() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "aiokafka and faust not installed | pip install 'defi-brain[kafka]'"
