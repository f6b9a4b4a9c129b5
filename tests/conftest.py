"""Eight virtual CPU devices for the test process, a way to run a script with one device, and one Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS = (
    "--no-sandbox",  # Chromium refuses its sandbox to root, who runs the tests in containers
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
DEVICE_COUNT_FLAG = "--xla_force_host_platform_device_count"

# A test compiles what it asks for; those of the cache turn it on.
os.environ["INSPECTOR_CACHE"] = "off"
# Both are read when JAX starts its backend, and no test module is imported before this one.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {DEVICE_COUNT_FLAG}=8".strip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ["JAX_PLATFORMS"] == "cpu":
        skip = pytest.mark.skip(reason="JAX_PLATFORMS is cpu; with an accelerator: JAX_PLATFORMS=cuda pytest -m device")
        for item in items:
            if item.get_closest_marker("device"):
                item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("markexpr") == run.QUICK:
        terminalreporter.write_line(
            "The quick part: slow tests were left out, those that drive a browser, and programs of other libraries."
            " All of them: python3 run.py test --all"
        )


class RunPython(Protocol):
    """Runs `script` in a fresh interpreter; `env` is added to the environment."""

    def __call__(
        self, script: str, env: Mapping[str, str] | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="session")
def one_device_python() -> RunPython:
    """A fresh interpreter as a user has it: one CPU device, warnings shown, nothing imported."""

    def run(
        script: str, env: Mapping[str, str] | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        flags = [flag for flag in os.environ["XLA_FLAGS"].split() if not flag.startswith(DEVICE_COUNT_FLAG)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "XLA_FLAGS": " ".join(flags), "PYTHONPATH": path, **(env or {})}
        process = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=timeout_s
        )
        assert process.returncode == 0, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
        return process

    return run


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Headless Chromium, one for all browser tests: Playwright starts once in a process."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong
    path = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if path is None:
        reason = f"none of {', '.join(CHROMIUMS)} is on PATH; on Debian: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()
