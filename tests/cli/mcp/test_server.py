"""The server as a client uses it: a real process over stdin and stdout, with the client of the package mcp."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

pytest.importorskip("mcp", reason="the package mcp is not installed: pip install 'jax-inspector[mcp]'")

import anyio.from_thread
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SCRIPT = """
import os, sys, time
import jax, jax.numpy as jnp
print("printed on import")
os.system("echo printed by another process")
os.write(1, b"written to descriptor 1\\n")

def make_args():
    return jax.ShapeDtypeStruct((64, 64), "float32"), jax.ShapeDtypeStruct((32, 64), "float32")

def update(w, x):
    print("printed while tracing")
    return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

def make_layers():
    w, x = make_args()
    return {"first": w, "second": w}, x

def fit(params, x):
    loss = lambda p: jnp.mean((jnp.tanh(x @ p["first"]) @ p["second"]) ** 2)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

def asks(x):
    return x * len(sys.stdin.read())

def crashes(x):
    os.kill(os.getpid(), 11)

def leaves(x):
    sys.exit(3)

def broken(x):
    raise RuntimeError("of the user's own")

def endless(x):
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while True:
        time.sleep(0.01)

def hungry(x):
    import numpy as np
    blocks = []
    while True:
        blocks.append(np.ones(8_000_000))
        time.sleep(0.02)
"""
UPDATE = {"program": "step.py:update", "args_from": "make_args", "target": "cpu"}
FIT = {"program": "step.py:fit", "args_from": "make_layers", "target": "cpu"}
BROKEN = SCRIPT.splitlines().index('    raise RuntimeError("of the user\'s own")') + 1
HLO = """HloModule jit_f

ENTRY main {
  x = f32[8,16] parameter(0)
  ROOT y = f32[8,16] exponential(x)
}
"""
LINES = 4000


class Client:
    """A client of a server in another process."""

    def __init__(self, portal: Any, session: Any) -> None:
        self._portal, self._session = portal, session

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self._portal.call(self._session.list_tools).tools}

    def start(self, name: str, progress: Any = None, **arguments: Any) -> Future[Any]:
        """Starts a call. Canceling its future cancels the request."""

        async def call() -> Any:
            return await self._session.call_tool(name, arguments, progress_callback=progress)

        started: Future[Any] = self._portal.start_task_soon(call)
        return started

    def call(self, name: str, progress: Any = None, **arguments: Any) -> Any:
        return self.start(name, progress, **arguments).result()

    def answer(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = self.call(name, **arguments)
        assert not result.is_error, result.content[0].text
        found: dict[str, Any] = result.structured_content
        return found

    def error(self, name: str, **arguments: Any) -> str:
        result = self.call(name, **arguments)
        assert result.is_error, result.content[0].text
        text: str = result.content[0].text
        assert text.startswith(result.structured_content["error"])
        return text


@contextlib.contextmanager
def client_of(folder: Path, *options: str) -> Iterator[Client]:
    command = ["-m", "inspector", "mcp", "--root", str(folder), *options]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "INSPECTOR_CACHE": "on", "XDG_CACHE_HOME": str(folder / "cache")}
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=folder.parent)

    @contextlib.asynccontextmanager
    async def session(log: Any) -> Any:
        async with (
            stdio_client(parameters, errlog=log) as (requests, replies),
            ClientSession(requests, replies) as session,
        ):
            await session.initialize()
            yield session

    with (
        (folder.parent / "log").open("w") as log,
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(session(log)) as opened,
    ):
        yield Client(portal, opened)


def project(folder: Path) -> Path:
    """A folder with a script, a file with HLO and a large one; outside of it is a file that must not be read."""
    root = folder / "project"
    root.mkdir()
    (folder / "outside.hlo").write_text(HLO)
    (root / "step.py").write_text(SCRIPT)
    (root / "f.hlo").write_text(HLO)
    lines = [f"  v{n + 1} = f32[8,16] add(v{n}, x)" for n in range(LINES)]
    start = HLO.replace("ROOT y = f32[8,16] exponential(x)", "v0 = f32[8,16] exponential(x)").removesuffix("}\n")
    (root / "large.hlo").write_text(start + "\n".join(lines) + f"\n  ROOT y = f32[8,16] negate(v{LINES})\n}}\n")
    (root / "link.hlo").symlink_to(folder / "outside.hlo")
    (root / "dump").mkdir()
    (root / "dump" / "module_0001.jit_f.before_optimizations.txt").symlink_to(folder / "outside.hlo")
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[Client]:
    with client_of(root, "--memory-limit", "3 GiB", "--time-limit", "200") as client:
        yield client


def test_tools_are_listed_and_wrong_calls_are_tool_errors(client: Client) -> None:
    tools = client.tools()
    assert tools["compile"].input_schema["required"] == ["program"]
    assert tools["compile"].annotations.read_only_hint is False, "it runs the user's code"
    assert "has no parameter 'programm'. Its parameters: program, args" in client.error("compile", programm="a")
    assert "There is no tool 'explode'. The tools: lower" in client.error("explode")
    assert "offset is -1. Expected an integer from 0." in client.error("compile", program="f.hlo", offset=-1)


@pytest.mark.parametrize(
    "program", ["../outside.hlo", "link.hlo", "dump", "dump:jit_f", "/etc", "{outside}", "{outside}:f", "/dev/stdin"]
)
def test_files_outside_of_the_root_are_refused(client: Client, root: Path, program: str) -> None:
    error = client.error("compile", program=program.format(outside=root.parent / "outside.hlo"))
    assert f"outside of the server's root folder {str(root.resolve())!r}. Give a path in that folder" in error
    assert "exponential" not in error
    assert "outside of the server's" in client.error("compare", program="f.hlo", others=["link.hlo"])


def test_stdin_is_no_program(client: Client) -> None:
    assert "program is '-'. The server's stdin has no program" in client.error("compile", program="-")


@pytest.mark.slow
def test_a_module_of_a_file(client: Client) -> None:
    answer = client.answer("memory", program="f.hlo", target="cpu")["answer"]
    assert answer["spaces"][0]["argument_bytes"] == answer["spaces"][0]["output_bytes"] == 8 * 16 * 4


@pytest.mark.slow
def test_a_function_that_prints(client: Client, root: Path) -> None:
    heard: list[str] = []

    async def progress(elapsed_s: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    found = client.call("compile", progress=progress, **UPDATE).structured_content
    numbers = found["answer"]["numbers"]
    assert (numbers["argument_bytes"], numbers["output_bytes"]) == (4 * (64 + 32) * 64, 4 * 64 * 64)
    words = ["printed on import", "printed by another process", "written to descriptor 1", "printed while tracing"]
    assert all(each in found["stderr"] for each in words)
    assert heard, "progress about once a second"
    assert found["command"] == "inspector compile --json --args-from=make_args --target=cpu -- step.py:update"
    lines = client.answer("lower", **UPDATE, contains="dot_general")["answer"]["lines"]
    source = SCRIPT.splitlines().index("    return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)") + 1
    assert [(line["source_file"], line["source_line"]) for line in lines] == [(str(root / "step.py"), source)] * 2
    optimized = client.call("compile", hlo=True, **UPDATE).content[0].text
    assert f"# {root / 'step.py'}:{source}" in optimized


@pytest.mark.slow
def test_the_other_tools(client: Client) -> None:
    (found,) = client.answer("prove", **FIT)["answer"]["findings"]
    assert (found["kind"], found["gain_bytes"]) == ("undonated", 4 * 32 * 64)
    assert found["verdict"].endswith("equal results")
    (found,) = client.answer("findings", **FIT, kind=["undonated"])["answer"]["findings"]
    assert found["verdict"] == "not tried"
    compared = client.answer("compare", **{**UPDATE, "target": ["cpu", "cpu:2"]}, contains="argument_bytes")["answer"]
    assert compared["numbers"][0]["number"] == "argument_bytes"
    profile = client.answer("profile", **UPDATE, by="line", repeat=2)["answer"]
    assert profile["executions"] == 2
    assert sum(row["total_s"] for row in profile["rows"]) == pytest.approx(profile["total_s"], abs=1e-6)
    assert client.answer("collectives", **UPDATE)["answer"]["rows"] == []


@pytest.mark.slow
def test_a_large_module_is_answered_in_pages(client: Client) -> None:
    call = {"program": "large.hlo", "form": "hlo", "target": "cpu"}
    result = client.call("lower", **call)
    assert len(json.dumps(result.structured_content["answer"], ensure_ascii=False)) <= 20_000
    assert len(result.content[0].text) < 23_000
    (entry,) = result.structured_content["left_out"]
    assert int(entry["shown"].rpartition(" of ")[2]) > LINES
    following = client.answer("lower", **call, offset=entry["next_offset"], limit=2)["answer"]["lines"]
    assert [line["line"] for line in following] == [entry["next_offset"] + 1, entry["next_offset"] + 2]
    found = client.answer("lower", **call, contains="negate")["answer"]["lines"]
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"program": "step.py:crashes", "args": "f32[2]"}, ["was killed by SIGSEGV without an answer"]),
        ({"program": "step.py:leaves", "args": "f32[2]"}, ["ended Python with SystemExit(3)"]),
        ({"program": "step.py:broken", "args": "f32[2]"}, ["of the user's own", f'step.py", line {BROKEN}, in broken']),
        ({"program": "step.py:none", "args": "f32[2]"}, ["step.py has no 'none'. Its functions: make_args, update"]),
        ({"program": "step.py:update"}, ["takes w, x. Give --args", "Call: inspector compile --json -- step.py:update"]),
        ({"program": "step.py:update", "args": "f32[2"}, ["--args 'f32[2': SyntaxError", "Expected the arguments"]),
        ({"program": "none.hlo"}, ["none.hlo"]),
        ({"program": "step.py"}, ["step.py needs the name of a function: step.py:NAME."]),
        ({"program": "f.hlo", "target": "tpu:v99"}, ["tpu:v99"]),
        ({"program": "f.hlo", "option": ["xla_dump_to=/tmp/elsewhere"]}, ["xla_dump_to makes the compiler write"]),
        ({"program": "f.hlo", "option": ["xla_no_such_flag=1"]}, ["xla_no_such_flag"]),
        ({"program": "f.hlo", "section": "rows"}, ["The answer has no section 'rows'. Its sections: none."]),
        ({"program": "step.py:hungry", "args": "f32[2]"}, ["of memory, and the limit is 3 GiB. Give smaller arguments"]),
    ],
)  # fmt: skip
def test_errors_are_answers_and_the_server_goes_on(client: Client, arguments: dict[str, Any], words: list[str]) -> None:
    error = client.error("compile", **arguments)
    assert all(each in error for each in words), error
    assert client.tools()


@pytest.mark.slow
def test_the_programs_stdin_is_empty(client: Client) -> None:
    text = client.call("lower", program="step.py:asks", args="f32[2]").content[0].text
    assert "dense<0.000000e+00>" in text


def pids(root: Path, count: int) -> list[int]:
    """Waits for processes of `endless`, and returns their numbers."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = (root / "pids").read_text().split() if (root / "pids").exists() else []
        if len(found) >= count:
            return list(map(int, found))
        time.sleep(0.05)
    raise AssertionError("the process did not start")


def has_ended(pid: int, limit_s: float = 10.0) -> bool:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


ENDLESS = {"program": "step.py:endless", "args": "f32[2]"}


@pytest.mark.slow
def test_an_endless_program_is_stopped(tmp_path: Path) -> None:
    root = project(tmp_path)
    with client_of(root, "--time-limit", "20") as client:
        started = time.monotonic()
        assert "It was stopped after 20 s. Give a smaller program" in client.error("lower", **ENDLESS)
        assert time.monotonic() - started < 40
        assert has_ended(pids(root, 1)[0])
        assert client.answer("lower", program="f.hlo", form="hlo")["answer"]["lines"]


@pytest.mark.slow
def test_calls_run_at_the_same_time_and_are_canceled(tmp_path: Path) -> None:
    root = project(tmp_path)
    with client_of(root, "--jobs", "2") as client:
        endless = client.start("lower", **ENDLESS)
        (pid,) = pids(root, 1)
        assert client.answer("lower", program="f.hlo", form="hlo")["answer"]["lines"]
        assert not endless.done(), "the other call did not wait for it"
        assert endless.cancel()
        assert has_ended(pid)
        assert client.tools()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system ends the processes of a killed server on Linux")
def test_a_call_ends_with_its_server(tmp_path: Path) -> None:
    root = project(tmp_path)
    for ending in ("closed", signal.SIGKILL):
        (root / "pids").unlink(missing_ok=True)
        server = subprocess.Popen(
            [sys.executable, "-m", "inspector", "mcp", "--root", str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        )  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        for message in (
            {"id": 1, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "lower", "arguments": ENDLESS}},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
        (pid,) = pids(root, 1)
        server.stdin.close() if ending == "closed" else server.send_signal(ending)
        assert has_ended(pid)
        output = server.stdout.read().splitlines()
        server.wait(20)
        server.stdin.close()
        server.stdout.close()
        assert [json.loads(line)["jsonrpc"] for line in output] == ["2.0"] * len(output), "only the protocol"


@pytest.mark.slow
def test_files_only(tmp_path: Path) -> None:
    root = project(tmp_path)
    with client_of(root, "--files-only") as client:
        for program in ("step.py:update", "os:getcwd", "step.py"):
            assert "--files-only, so that it runs no code" in client.error(
                "compile", program=program, args_from="make_args"
            )
        assert client.tools()["compile"].annotations.read_only_hint is True
        assert not client.call("compile", program="f.hlo").is_error
