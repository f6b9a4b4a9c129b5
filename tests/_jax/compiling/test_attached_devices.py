"""Attached devices of a process, each in a separate process: JAX starts its devices once."""

from __future__ import annotations

import subprocess
import sys

CPUS = """
import importlib.metadata

def refuse(**_):
    raise AssertionError("plugins are looked for")

import jax
from inspector._jax.compiling.attached_devices import attach_cpus, attached_device_count, attached_platform

importlib.metadata.entry_points = refuse
if {alone}:
    attach_cpus(3)
print(attached_platform(), attached_device_count())
"""


def ran(alone: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CPUS.format(alone=alone)], capture_output=True, text=True, check=False)


def test_a_process_of_cpus_alone_looks_for_no_plugin() -> None:
    done = ran(alone=True)
    assert done.stdout.split() == ["cpu", "3"], done.stderr


def test_another_process_does() -> None:
    assert "plugins are looked for" in ran(alone=False).stderr
