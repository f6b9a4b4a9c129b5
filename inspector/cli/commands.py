"""The commands and their exit statuses: 0 for success, 1 if the operation failed (such as a check), 2 for wrong usage."""

from __future__ import annotations

import re
import shlex
import sys
import traceback
from typing import Any

import click

from inspector.cli.accuracy import accuracy
from inspector.cli.bisect import bisect, compile_time
from inspector.cli.cache import cache
from inspector.cli.compare import compare
from inspector.cli.course import course
from inspector.cli.doctor import doctor
from inspector.cli.dump import dump
from inspector.cli.expect import expect
from inspector.cli.findings import findings
from inspector.cli.mcp.command import mcp
from inspector.cli.profile import profile
from inspector.cli.programs import collectives, compile_, lower, memory
from inspector.cli.reports import explore, replay, report
from inspector.cli.scan import scan
from inspector.cli.targets import options, targets
from inspector.support.packages import is_library_file

FAILED, WRONG_USE = 1, 2


class _Commands(click.Group):
    """A group of commands that exits with inspector's status and a message on stderr instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort, SystemExit):
            raise
        except BrokenPipeError:  # output piped into `head`
            sys.stderr.close()
            ctx.exit(0)
        except Exception as error:
            _end(ctx, error)


def _end(ctx: click.Context, error: Exception) -> None:
    from inspector.errors import ExpectationError

    command = f"inspector {ctx.invoked_subcommand or ''}"
    if isinstance(error, ExpectationError):
        click.echo(str(error))
        click.echo(f"{command}: failed", err=True)
        ctx.exit(FAILED)
    text, status, is_users = failure(error)
    click.echo(text if is_users else f"{command}: {text}", err=True)
    ctx.exit(status)


def failure(error: Exception) -> tuple[str, int, bool]:
    """Returns the message of an error, the exit status of its command, and whether it comes from the user's own code."""
    from inspector.errors import (
        CompilationError,
        ExecutionError,
        InspectorError,
        ResourceError,
        WorkerDiedError,
        missing_jax,
    )

    error = missing_jax(error, "This") or error
    if isinstance(error, InspectorError | OSError):
        is_failure = isinstance(error, CompilationError | WorkerDiedError | ExecutionError | ResourceError)
        return _in_shell_words(error), FAILED if is_failure else WRONG_USE, False
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_library_file(f.filename)]
    error.__notes__ = []  # JAX's notes about its own frames, which are not shown
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip(), FAILED, True


# Python names in messages, with their names on the command line.
_SHELL_WORDS = {
    "inspector.option_catalog()": "`inspector options`",
    "inspector.targets()": "`inspector targets --all`",
    "axis_env=[(name, size)]": "--axis NAME=SIZE",
}


def _in_shell_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error)
    for python, shell in _SHELL_WORDS.items():
        text = text.replace(python, shell)
    text = _CHOICE.sub(lambda match: f"--{match[1]} {shlex.quote(match[2] or match[3])}", text)
    return _SHAPES.sub(lambda match: _refine_options(match[1]), text)


def _refine_options(shapes: str) -> str:
    """Returns shapes by argument, `"arg0": (8, 4)`, as options: `--refine arg0=8,4`."""
    pairs = [(name, sizes.replace(" ", "").rstrip(",")) for name, sizes in _ARGUMENT_SHAPE.findall(shapes)]
    return " ".join(f"--refine {name}={sizes}" for name, sizes in pairs)


_CHOICE = re.compile(r'\b(module|function)=(?:"([^"]*)"|(\w+))')
_SHAPES = re.compile(r"\brefine=\{([^}]*)\}")
_ARGUMENT_SHAPE = re.compile(r'"(\w+)": \(([^)]*)\)')


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="jax-inspector", prog_name="inspector")
def inspector() -> None:
    """Show how XLA compiles a JAX function, and what changes with a flag, a shape or a target.

    \b
    A PROGRAM is one of
      package.module:function     script.py:function     notebook.ipynb:function
      a file with HLO or StableHLO (text or binary, also gzipped; - for stdin), or an .inspector file
      a folder of --xla_dump_to, or folder:module
    For a function, give --args, such as --args 'f32[32,64], {"w": bf16[64]}', or --args-from with the
    name of a function that returns the arguments.

    \b
      inspector compile step.py:train_step --args 'f32[32,64]' --target tpu:v5e:2x4
      inspector expect step.py:train_step --args-from make_args --at-most 'peak_bytes=1 GiB'
      inspector doctor
    """


for _command in (
    explore, lower, compile_, memory, compare, findings, collectives, profile, accuracy, dump, report, replay, expect, scan, bisect, compile_time, targets,
    options, doctor, cache, course, mcp,
):  # fmt: skip
    inspector.add_command(_command)
