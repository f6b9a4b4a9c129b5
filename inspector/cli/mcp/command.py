"""`mcp`: starts the server."""

from __future__ import annotations

from pathlib import Path

import click

_EXTRA = "jax-inspector[mcp]"


@click.command()
@click.option(
    "--root",
    default=".",
    show_default="the current folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the programs; files outside of it are refused.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time limit of a call.",
)
@click.option(
    "--memory-limit",
    metavar="AMOUNT",
    help="Memory limit of the processes of a call, such as '8 GiB'; by default half of the machine's memory. Linux only.",
)
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Calls that run at the same time.")
@click.option(
    "--files-only",
    "is_files_only",
    is_flag=True,
    help="Refuse functions, so that no code of yours runs: read files only.",
)
def mcp(root: Path, time_limit_s: float, memory_limit: str | None, jobs: int, is_files_only: bool) -> None:
    """Serve the commands as tools for coding agents (MCP).

    An agent's client starts this command and talks to it over stdin and stdout; docs/mcp.md shows its configuration. Each call runs in a separate process. It imports
    and traces the program that the agent names, with your rights.

    \b
      inspector mcp --root ~/project
      inspector mcp --time-limit 60 --memory-limit '8 GiB'
      inspector mcp --files-only
    """
    from inspector.errors import MissingPackageError
    from inspector.support import packages
    from inspector.support.install_commands import install_command, sentence
    from inspector.support.machine_memory import machine_memory
    from inspector.support.units import parse_bytes

    memory_bytes = machine_memory()[0] // 2 if memory_limit is None else int(parse_bytes(memory_limit))
    if not packages.folders("mcp"):
        raise MissingPackageError(
            f"`inspector mcp` needs the package mcp, which is not installed. {sentence(install_command(_EXTRA))}"
        )
    from inspector.cli.mcp.call_process import Limits
    from inspector.cli.mcp.server import Settings, serve

    serve(Settings(root.resolve(), Limits(time_limit_s, memory_bytes), jobs, is_files_only))
