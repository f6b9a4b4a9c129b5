"""A compile in surroundings that are not a plain shell's: each in a child process, with an answer or an error of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="bash, forks and limits"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

PROGRAM = """
import sys
import jax, inspector
from inspector.errors import InspectorError

def say(*words):  # the pieces of print get mixed up among threads
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

def tell():
    try:
        lowered = inspector.lower(lambda x: x + 1, jax.ShapeDtypeStruct((4,), "float32"))
        say("compiled", "ENTRY" in lowered.compile(target="cpu").hlo)
    except InspectorError as e:
        say("refused", type(e).__name__, str(e)[:200])
"""
COMPILED = "compiled True"


def run(
    tmp_path: Path, script: str, env: Mapping[str, str | None] | None = None, shell: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs `PROGRAM` and `script` as a user's file; in `env`, None takes a variable away. `shell` goes before."""
    file = tmp_path / "script.py"
    file.write_text(PROGRAM + textwrap.dedent(script))
    given = {
        **os.environ, "PYTHONPATH": str(ROOT), "INSPECTOR_CACHE": "on", "INSPECTOR_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONWARNINGS": "ignore", **(env or {}),
    }  # fmt: skip
    return subprocess.run(
        ["/bin/bash", "-c", f'{shell} exec "$0" "$1"', sys.executable, str(file)],
        env={name: value for name, value in given.items() if value is not None},
        capture_output=True, text=True, timeout=280, cwd=tmp_path,
    )  # fmt: skip


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "env",
    [
        {"PATH": ""},
        {"HOME": None, "XDG_CACHE_HOME": None, "INSPECTOR_CACHE_DIR": None},
        {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": None, "INSPECTOR_CACHE_DIR": None},
        {"TMPDIR": "/nonexistent"},
    ],
    ids=["empty PATH", "no HOME", "a HOME that is not there", "a TMPDIR that is not there"],
)
def test_variables_that_are_odd(tmp_path: Path, env: Mapping[str, str | None]) -> None:
    assert lines(run(tmp_path, "tell()", env)) == [COMPILED]


@pytest.mark.parametrize("limit", ["-v 12000000", "-n 64"])
def test_limits_are_answered(tmp_path: Path, limit: str) -> None:
    """A compile or an error of ours; and the process lives on."""
    first, last = lines(run(tmp_path, "tell()\nprint('lives')", shell=f"ulimit {limit};"))
    assert first == COMPILED or first.startswith("refused ")
    assert last == "lives"


def test_no_file_can_be_written(tmp_path: Path) -> None:
    first, last = lines(
        run(tmp_path, "tell()\nprint('lives')", {"INSPECTOR_CACHE": "off"}, "trap '' XFSZ; ulimit -f 0;")
    )
    assert first.startswith("refused ")
    assert "Could not create a temporary file" in first
    assert last == "lives"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing(tmp_path: Path, method: str) -> None:
    """The parent compiled before; a child must not use its parent's workers, nor end them."""
    script = f"""
    import multiprocessing
    if __name__ == "__main__":
        tell()
        child = multiprocessing.get_context({method!r}).Process(target=tell)
        child.start(); child.join(120); print("child", child.exitcode, flush=True); child.kill()
        tell()
    """
    env = {"INSPECTOR_CACHE": "off"}
    assert lines(run(tmp_path, script, env)) == [COMPILED, COMPILED, "child 0", COMPILED]


def test_a_running_event_loop(tmp_path: Path) -> None:
    script = """
    import asyncio

    async def main():
        tell()
        explorer = inspector.explore(lambda x: x * 2, jax.ShapeDtypeStruct((4,), "float32"), target="cpu")
        explorer.wait(120)
        print("explored", "ENTRY" in explorer.baseline.compiled.hlo)
        explorer.close()
        await asyncio.gather(*(asyncio.to_thread(tell) for _ in range(3)))

    asyncio.run(main())
    """
    assert lines(run(tmp_path, script)) == [COMPILED, "explored True", *[COMPILED] * 3]


def test_eight_processes_on_one_cache(tmp_path: Path) -> None:
    script = """
    import multiprocessing
    if __name__ == "__main__":
        context = multiprocessing.get_context("spawn")
        children = [context.Process(target=tell) for _ in range(8)]
        [child.start() for child in children]
        [child.join(200) for child in children]
        print([child.exitcode for child in children])
    """
    assert lines(run(tmp_path, script)) == [COMPILED] * 8 + ["[0, 0, 0, 0, 0, 0, 0, 0]"]
    left = [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert left
    assert not [name for name in left if name.startswith(".")]  # none half written
