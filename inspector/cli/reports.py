"""`explore`, `report` and `replay`: an exploration as one HTML page, and a recorded one compiled again."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from inspector.cli.explorers import exploration_of, recorded_and_replayed, start
from inspector.cli.lab import start_lab
from inspector.cli.output import print_json, records, working
from inspector.cli.pages import PAGE_OR_BUNDLE, takes_html, temporary_page, write, write_page
from inspector.cli.program_arguments import (
    ProgramRequest,
    prepare,
    takes_flags,
    takes_json,
    takes_program,
    takes_target,
)

_COMPARE = click.option(
    "-c",
    "--compare",
    "compare",
    multiple=True,
    metavar="TARGET|OPTIONS",
    help="Additional variant: a target, or --flag=value.",
)


_OTHERS = click.argument("others", metavar="[PROGRAM]...", nargs=-1)


def _takes_file(command: Any) -> Any:
    return click.option(
        "-o", "--output", "--html", "file", type=PAGE_OR_BUNDLE,
        help="Write to this file: .html, or .inspector to continue later.",
    )(command)  # fmt: skip


@click.command()
@takes_program
@_OTHERS
@takes_target
@takes_flags
@_COMPARE
@_takes_file
@click.option("--open/--no-open", "is_opened", default=True, help="Open the page in a browser.")
@click.option("--lab", is_flag=True, help="Open a notebook in JupyterLab instead of a page.")
def explore(
    request: ProgramRequest,
    others: tuple[str, ...],
    target: str,
    flags: tuple[str, ...],
    compare: tuple[str, ...],
    file: Path | None,
    is_opened: bool,
    lab: bool,
) -> None:
    """Show every stage side by side in a browser or JupyterLab.

    The page needs no network. Several programs get the same arguments and share one page. Exits with status 1 if
    one of them was not compiled.
    """
    programs = request.with_others(others)
    if lab:
        start_lab(programs, target, flags, compare)
    path = file or temporary_page()
    has_compiled = write(path, [start(each, target, flags, compare) for each in programs])
    if is_opened and path.suffix != ".inspector" and webbrowser.open(path.resolve().as_uri()):
        click.echo(f"opened {path}", err=True)
    else:
        click.echo(str(path))
    if not has_compiled:
        raise SystemExit(1)


@click.command()
@takes_program
@_OTHERS
@takes_target
@takes_flags
@_COMPARE
@_takes_file
def report(
    request: ProgramRequest,
    others: tuple[str, ...],
    target: str,
    flags: tuple[str, ...],
    compare: tuple[str, ...],
    file: Path | None,
) -> None:
    """Write a page or an .inspector file to attach to an issue. Others can compile an .inspector file again.

    \b
      inspector report step.py:train_step --args-from make_args -c xla_cpu_enable_fast_math=true
      inspector report before.inspector after.inspector --html both.html
    """
    name = Path(request.program).stem if Path(request.program).is_file() else request.program.rpartition(":")[2]
    path = file or Path(f"{name or 'report'}.html")
    has_compiled = write(path, [start(each, target, flags, compare) for each in request.with_others(others)])
    click.echo(f"{path}: {path.stat().st_size:,} bytes", err=True)
    if not has_compiled:
        raise SystemExit(1)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--jax", default="", metavar="VERSION", help="Compile with this version of JAX, which uv installs.")
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if a program differs.")
@click.option(
    "--allow",
    multiple=True,
    metavar="FLAG",
    help="Trust this recorded option, although it can make a compiler use files.",
)
@takes_html
@takes_json
def replay(
    file: Path, jax: str, exit_code: bool, allow: tuple[str, ...], page: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Compile a recording again and report differences. Uses the installed JAX or, with --jax, another version.

    Exits with status 1 if a program that compiled in the recording does not compile.
    """
    prepare("cpu")
    from inspector.api.exploration import Exploration
    from inspector.api.load import load
    from inspector.api.recorded_profile import RecordedProfile
    from inspector.compilation.compiled import CompiledProgram
    from inspector.compilation.target import Target
    from inspector.support.units import counted

    Target("cpu").by(jax)  # rejects an invalid version before anything is compiled
    recording = load(file)
    if isinstance(recording, RecordedProfile):
        raise click.UsageError(
            f"{file} is a profile, whose optimized HLO XLA cannot compile again. To show it: inspector profile {file}."
        )
    exploration = exploration_of(recording) if isinstance(recording, CompiledProgram) else recording
    if not isinstance(exploration, Exploration):
        raise click.UsageError(f"{file} is not a recording. To compile a module: inspector compile {file}.")
    by = f" with JAX {jax}, which is installed on first use" if jax else ""
    with working(f"compiling {counted(len(exploration.variants), 'variant')}{by}"):
        done = exploration.replay(jax, allow=allow)
    programs = [variant.program for variant in done.replayed.variants if variant.program is not None]
    for warning in dict.fromkeys(warning for program in programs for warning in program.warnings):
        click.echo(warning, err=True)
    if as_json:
        print_json(records(done.table()))
    else:
        click.echo(str(done))
    if page is not None:
        write_page(page, recorded_and_replayed(done))
    if not done.is_complete or (exit_code and not done.is_same):
        raise SystemExit(1)
