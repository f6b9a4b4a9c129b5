"""The server: lists the tools, checks each call, runs it in a process, and replies with text and values."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import click
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import inspector
from inspector.cli.mcp.answers import Page, as_text
from inspector.cli.mcp.call_process import Limits, Reply, call
from inspector.cli.mcp.tools import TOOLS, Tool, tool_named
from inspector.support.notebook import short

_STDERR_CHARS = 2_000
_COMMAND_CHARS = 500
_MOST_ENTRIES = 20_000  # of a folder; a dump of a large program has thousands of files

_INSTRUCTIONS = """\
inspector shows how XLA compiles a JAX function. Name a program as `step.py:train_step` with `args`, such as \
'f32[32,64], {"w": bf16[64]}, train=True', where a dtype with a shape is an array without values; or with `args_from`, the name of \
a function in the same file that returns the arguments. `target` compiles for devices that are not attached: cpu:8, tpu:v5e:2x4, \
gpu:h100:8. Start with `compile` for the numbers, `findings` for what to change, `memory` for what fills the memory, `collectives` \
for communication. Each call imports the file again, so it sees your edits.
Long answers are cut: `left_out` has the next `offset` of each section; `contains` filters rows and lines. \
Messages name parameters as options of the command line: --args-from is args_from."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the server.

    Attributes:
      root: the folder that programs are in, without links.
      limits: limits of each call.
      jobs: number of calls that run at the same time; others wait.
      is_files_only: whether functions are refused, so that no code of the user runs.
    """

    root: Path
    limits: Limits
    jobs: int
    is_files_only: bool = False


def serve(settings: Settings) -> None:
    """Answers requests on stdin until it ends."""
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_serve, settings)


async def _serve(settings: Settings) -> None:
    calls = _Calls(settings)
    server = Server(
        "inspector",
        version=str(inspector.__version__),
        instructions=_INSTRUCTIONS,
        on_list_tools=calls.list_tools,
        on_call_tool=calls.call_tool,
    )
    async with stdio_server() as (requests, replies):  # which sends all other output of this process to stderr
        await server.run(requests, replies, server.create_initialization_options())


class _Calls:
    """Answers the requests of a client. Its methods are called on the thread of the event loop, also concurrently."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._turns = anyio.CapacityLimiter(settings.jobs)

    async def list_tools(self, context: Any, params: Any) -> Any:
        """Returns the tools with their input schemas."""
        del context, params
        return types.ListToolsResult(tools=[_described(tool, self._settings) for tool in TOOLS])

    async def call_tool(self, context: Any, params: Any) -> Any:
        """Runs a tool. Errors are part of the result, so that the model can correct its call."""
        given = dict(params.arguments or {})
        shown = f"{params.name}({', '.join(f'{name}={short(value)}' for name, value in given.items())})"
        try:
            tool = tool_named(params.name)
            page = Page.taken_from(given)
            words = tool.command_line(given)
            for program in tool.programs(given):
                check_program(program, self._settings)
        except click.ClickException as error:
            return _failed(shown, error.format_message(), "")
        request = {
            "tool": tool.name, "arguments": given, "command_line": words, "page": dataclasses.asdict(page),
            "root": str(self._settings.root),
        }  # fmt: skip
        command = shlex.join(["inspector", tool.command.name or tool.name, *words])
        try:
            reply = await self._run(request, context.session.report_progress)
        except OSError as error:
            return _failed(
                command, f"No process could be started for it: {error}. End other processes and try again.", ""
            )
        if "error" in reply.result:
            return _failed(command, reply.result["error"], reply.stderr)
        return _succeeded(command, reply, page)

    async def _run(self, request: Mapping[str, Any], report_progress: Any) -> Reply:
        async def progress(elapsed_s: float, message: str) -> None:
            await report_progress(round(elapsed_s, 1), None, message or None)

        started = time.monotonic()
        async with self._turns:
            waited = time.monotonic() - started
            later = functools.partial(_after, waited, progress)
            return await call(request, self._settings.root, self._settings.limits, later)


async def _after(waited_s: float, progress: Any, elapsed_s: float, message: str) -> None:
    await progress(waited_s + elapsed_s, message)


def check_program(program: str, settings: Settings) -> None:
    """Checks a program before anything opens or imports it.

    Args:
      program: a file or folder, also with the name of a function or module in it, or a function of an importable module.
      settings: the settings, with the root folder.

    Raises:
      click.UsageError: a file outside of the root folder, stdin, or a function if only files are allowed.
    """
    if program == "-":
        raise click.UsageError("program is '-'. The server's stdin has no program: give the path of a file.")
    place = program.rpartition(":")[0]
    found = [text for text in (program, place) if text and (settings.root / text).exists()]
    for text in found:
        path = (settings.root / text).resolve()
        for each in (path, *(_links(path) if path.is_dir() else ())):
            if not each.resolve().is_relative_to(settings.root):
                raise click.UsageError(
                    f"{short(text)} is {'' if each == path else 'a folder with a link to '}{str(each.resolve())!r}, outside of the"
                    f" server's root folder {str(settings.root)!r}. Give a path in that folder, or start the server with another --root."
                )
    is_file = program in found or (settings.root / place).is_dir() if place else program in found
    if settings.is_files_only and not is_file:
        raise click.UsageError(
            f"{short(program)} is not a file with a program. This server was started with --files-only, so that it runs no"
            " code: give a file with HLO or StableHLO, an .inspector file, a dump folder or a profile."
        )


def _links(folder: Path) -> Iterator[Path]:
    """Yields the links in a folder, such as a dump or a profile, among its first entries."""
    entries = (Path(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))
    yield from filter(Path.is_symlink, itertools.islice(entries, _MOST_ENTRIES))


def _described(tool: Tool, settings: Settings) -> Any:
    """Returns a tool as clients list it. It changes no file, but it runs the code that it is given."""
    return types.Tool(
        name=tool.name,
        description=tool.purpose,
        input_schema=tool.input_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=settings.is_files_only, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _succeeded(command: str, reply: Reply, page: Page) -> Any:
    command, stderr = _head(command), reply.stderr[-_STDERR_CHARS:]
    text = as_text(reply.result)[: page.max_chars]
    parts = [f"$ {command}", text, *([f"[stderr]\n{stderr}"] if stderr else [])]
    return types.CallToolResult(
        content=[types.TextContent(text="\n".join(parts))],
        structured_content={"command": command, **reply.result, "stderr": stderr},
    )


def _failed(command: str, error: str, stderr: str) -> Any:
    command, stderr = _head(command), stderr[-_STDERR_CHARS:]
    parts = [error, f"Call: {command}", *([f"[stderr]\n{stderr}"] if stderr else [])]
    return types.CallToolResult(
        content=[types.TextContent(text="\n".join(parts))],
        structured_content={"command": command, "error": error, "stderr": stderr},
        is_error=True,
    )


def _head(command: str) -> str:
    return command if len(command) <= _COMMAND_CHARS else f"{command[:_COMMAND_CHARS]}…"
