"""`expect`: checks of a program, for scripts and for CI without Python tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.output import print_json
from inspector.cli.pages import ANY_FILE
from inspector.cli.program_arguments import (
    ProgramRequest,
    compiled,
    open_program,
    prepare,
    takes_flags,
    takes_json,
    takes_program,
    takes_target,
)

if TYPE_CHECKING:
    from inspector.expectations.expectation import Expectation

_FLAGS = {
    "no_float64": "No value has a 64-bit floating-point type.",
    "no_host_transfers": "No callbacks, infeed or outfeed, and no values in host memory.",
    "donation_honored": "Outputs reuse all donated arguments.",
    "no_full_rematerialization": "The partitioner replicates no array in order to reshard it.",
    "no_findings": "There is no change that would gain 1 % or more (`inspector findings`).",
}


def _takes_flags(command: Callable[..., None]) -> Callable[..., None]:
    for name, text in reversed(_FLAGS.items()):
        command = click.option(f"--{name.replace('_', '-')}", name, is_flag=True, help=text)(command)
    return command


_LIMITS = {"at_most": "Upper limit", "at_least": "Lower limit", "exactly": "Exact value"}


def _limit(which: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        f"--{which.replace('_', '-')}", which, multiple=True, metavar="NAME=AMOUNT",
        help=f"{_LIMITS[which]} for a number (peak_bytes, flops ...) or a count ('all-reduce over data').",
    )  # fmt: skip


def _share(ctx: click.Context, param: click.Parameter, text: str) -> float | str:
    """Converts a share to the form of `baseline`: text with a percent sign, or a number."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise click.BadParameter(f"{text!r}: expected a share, such as 5% or 0.05.", ctx, param)
    return text if text.endswith("%") else number


@click.command()
@takes_program
@takes_target
@takes_flags
@_limit("at_most")
@_limit("at_least")
@_limit("exactly")
@click.option(
    "--no-collectives",
    "refused",
    multiple=True,
    metavar="KIND",
    help="No collectives of this kind, such as all-gather; 'any' for every kind.",
)
@_takes_flags
@click.option("--baseline", type=ANY_FILE, help="No number is worse than in this file.")
@click.option("--name", help="Name of the record in the baseline file.")
@click.option(
    "--above",
    default="0",
    show_default=True,
    metavar="SHARE",
    callback=_share,
    help="Allowed increase over the baseline, such as 5%.",
)
@click.option("--update", is_flag=True, help="Write the baseline instead of checking it.")
@takes_json
def expect(
    request: ProgramRequest, target: str, flags: tuple[str, ...], at_most: tuple[str, ...], at_least: tuple[str, ...],
    exactly: tuple[str, ...], refused: tuple[str, ...], baseline: Path | None, name: str | None, above: float | str, update: bool,
    as_json: bool, **checked: bool,
) -> None:  # fmt: skip
    """Check properties of the compiled program. Exits with status 1 if a check fails.

    \b
      inspector expect step.py:step --args 'f32[32,64]' -t cpu:8 \\
        --at-most 'peak_bytes=1 GiB' --at-most 'all-reduce over data=2' --no-collectives all-gather
      inspector expect step.py:step --args 'f32[32,64]' --baseline programs.json [--update]
    """
    from inspector.errors import ExpectationError

    limits = {"at_most": at_most, "at_least": at_least, "exactly": exactly}
    wanted = [(*_split_limit(text), which) for which, texts in limits.items() for text in texts]
    if not (wanted or refused or baseline or any(checked.values())):
        raise click.UsageError(
            "No checks. Give at least one, such as --at-most 'peak_bytes=1 GiB', --no-float64 or --baseline FILE."
        )
    prepare(target)
    from inspector.expectations.expectation import expect as start  # imports JAX, so `prepare` comes first

    # Recording buffers adds little time, and shows the live values at the peak.
    step = start(compiled(open_program(request), target, flags, products=("buffers",)))
    failed = ""
    try:
        with step:
            for key, amount, which in wanted:
                _check(step, key, amount, which)
            for kind in refused:
                step.no_collectives(*([] if kind == "any" else [kind]))
            for check, is_asked in checked.items():
                if is_asked:
                    getattr(step, check)()
            if baseline is not None:
                step.baseline(baseline, name=name, above=above, update=update)
    except ExpectationError as error:
        if not as_json:
            raise
        failed = str(error)
    if as_json:
        findings = [
            {"what": f.what, "expected": f.expected, "got": f.got, "is_met": bool(f.is_met), "nearest": f.nearest}
            for f in step.findings
        ]
        about = {"program": step.compiled.program.name, "target": str(step.compiled.target)}
        print_json(about | {"findings": findings, "message": failed})
        raise SystemExit(1 if failed else 0)
    for finding in step.findings:
        click.echo(f"ok  {finding.what}: expected {finding.expected}, got {finding.got}")


def _split_limit(text: str) -> tuple[str, str]:
    key, equals, amount = text.rpartition("=")
    if not equals or not key.strip() or not amount.strip():
        raise click.UsageError(
            f"{text!r}: expected NAME=AMOUNT, such as 'peak_bytes=1 GiB' or 'all-reduce over data=2'."
        )
    return key.strip(), amount.strip()


def _check(step: Expectation, key: str, amount: str, which: str) -> None:
    """Checks a limit on a number, on the collectives of a kind, or on all collectives: "collectives over data"."""
    from inspector.analysis.collectives.operations import OPCODES

    kind, over, axes = key.partition(" over ")
    if kind in OPCODES or kind == "collectives":
        if not amount.isdecimal():
            raise click.UsageError(f"{key}={amount}: expected a count, such as {key}=2.")
        opcodes = [] if kind == "collectives" else [kind]
        step.collectives(*opcodes, axes=axes if over else None, **{which: int(amount)})
    else:
        step.number(key, **{which: amount})
