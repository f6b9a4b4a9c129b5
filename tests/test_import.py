"""Importing inspector is silent and light: no device, no widget package, no process, little time."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import statistics

import pytest

import inspector
from tests.conftest import RunPython

# What costs time or memory, or is an interface to a person, and comes only when it is asked for.
ABSENT = ("ipywidgets", "anywidget", "IPython", "matplotlib", "pandas", "graphviz", "pygraphviz", "mcp", "anyio")

MODULES = """
import json, sys
import inspector
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""

# Watched while it happens: what was started and has ended again is not seen by a look afterwards.
QUIET = """
import json, sys, threading
started = []
def hook(event, args):
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"):
        started.append(event)
sys.addaudithook(hook)
start = threading.Thread.start
def watched(thread):
    started.append("threading.Thread")
    start(thread)
threading.Thread.start = watched
import inspector
backends = []
if "jax" in sys.modules:
    from jax._src import xla_bridge
    backends = list(xla_bridge._backends)
print(json.dumps({"started": started, "backends": backends}))
"""

# CPU seconds of one import in this fresh process: it holds where wall time swings with the load.
SECONDS = "import time; before = time.process_time(); import {}; print(time.process_time() - before)"
ROUNDS = 7


@pytest.mark.parametrize("name", ABSENT)
def test_imports_no(name: str, loaded: list[str]) -> None:
    assert name not in loaded


@pytest.fixture(scope="module")
def loaded(one_device_python: RunPython) -> list[str]:
    found: list[str] = json.loads(one_device_python(MODULES).stdout)
    assert "inspector" in found
    return found


def test_starts_nothing(one_device_python: RunPython) -> None:
    assert json.loads(one_device_python(QUIET).stdout) == {"started": [], "backends": []}


def test_the_look_sees_a_start(one_device_python: RunPython) -> None:
    planted = QUIET.replace(
        "import inspector", "import jax; jax.devices(); import subprocess; subprocess.run(['true'])"
    )
    seen = json.loads(one_device_python(planted).stdout)
    assert "subprocess.Popen" in seen["started"]
    assert "cpu" in seen["backends"]


def test_is_silent(one_device_python: RunPython) -> None:
    process = one_device_python("import inspector", env={"PYTHONWARNINGS": "error::DeprecationWarning:inspector"})
    assert (process.stdout, process.stderr) == ("", "")


@pytest.mark.slow
def test_takes_little_more_than_jax(one_device_python: RunPython) -> None:
    seconds: dict[str, list[float]] = {"jax": [], "inspector": []}
    for _ in range(ROUNDS):  # interleaved, so that a slow moment of the machine meets both
        for name, measured in seconds.items():
            measured.append(float(one_device_python(SECONDS.format(name)).stdout))
    ratio = statistics.median(seconds["inspector"]) / statistics.median(seconds["jax"])
    assert ratio <= 1.3, f"import inspector takes {ratio:.2f} times import jax, CPU seconds: {seconds}"


@pytest.mark.parametrize("name", inspector.__all__)
def test_public_name_resolves(name: str) -> None:
    assert getattr(inspector, name) is not None
    assert name in dir(inspector)


def test_the_version_is_the_distributions() -> None:
    assert inspector.__version__ == importlib.metadata.version("jax-inspector")


def test_the_version_of_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspector, "_DISTRIBUTION", "no-such-distribution")
    assert "no-such-distribution is not installed" in str(inspector.__version__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module("inspector").no_such_name  # noqa: B018


def test_jaxlib_before_jax_logs_no_devices(one_device_python: RunPython) -> None:
    script = (
        "import os; os.environ.pop('TF_CPP_MIN_LOG_LEVEL', None)\n"
        "import inspector._jax.modules.stablehlo\n"
        "import jax; jax.devices()"
    )
    assert "device" not in one_device_python(script).stderr
