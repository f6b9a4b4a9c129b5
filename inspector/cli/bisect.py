"""`bisect`: the change that makes two compiles of a program differ. `compile-time`: the part that makes a compile slow."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from inspector.cli.output import exit_if_interrupted, follow, print_described, print_json
from inspector.cli.program_arguments import (
    ProgramRequest,
    lowered,
    open_program,
    options_text,
    prepare,
    takes_flags,
    takes_json,
    takes_program,
    takes_target,
    takes_time_limit,
)

if TYPE_CHECKING:
    from inspector.api.bisection import Bisection
    from inspector.stages.bisection.compile_time_result import CompileTime, PartTime
    from inspector.stages.bisection.result import CulpritPass


@click.command()
@takes_program
@takes_target
@click.option("--good", multiple=True, metavar="FLAG=VALUE", help="Flag of the good side; several times for several.")
@click.option("--bad", multiple=True, metavar="FLAG=VALUE", help="Flag of the bad side; several times for several.")
@click.option("--bad-target", metavar="TARGET", help="Target of the bad side, if it is another one.")
@click.option(
    "--by",
    type=click.Choice(["values", "memory", "time", "compile_time"]),
    default="values",
    show_default=True,
    help="Quantity that differs.",
)
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance of values; by default one by type.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance of values.")
@takes_time_limit(600.0, "bisection")
@click.option("--save", metavar="FOLDER", help="Write the reproduction: StableHLO, inputs and a script for JAX alone.")
@takes_json
def bisect(
    request: ProgramRequest, target: str, good: tuple[str, ...], bad: tuple[str, ...], bad_target: str | None, by: str,
    rtol: float | None, atol: float | None, time_limit_s: float, save: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Find the flag or pass that makes two compiles differ.

    Ctrl-C shows the steps so far. Exits with status 1 if the sides do not differ.
    """
    from inspector.api.bisection import bisect as start
    from inspector.api.bisection.jobs import ABOUT_STEPS
    from inspector.stages.bisection.result import STEP_COLUMNS

    prepare(target)
    source = open_program(request)
    program = lowered(source, target)
    quantity: Any = by
    job = start(
        program, (target, options_text(good)), (bad_target or target, options_text(bad)), *source.args, kwargs=source.kwargs,
        by=quantity, wait=False, time_limit_s=time_limit_s, rtol=rtol, atol=atol, show_progress=False,
    )  # fmt: skip
    is_interrupted = follow(job, ABOUT_STEPS, lambda: len(job.steps), lambda: job.stage)
    found = None if is_interrupted else job.result()
    if found is not None and save is not None and found.reproduction:
        found.save_reproduction(save)
    if as_json:
        print_json(
            {**({} if found is None else _facts(found)), "steps": [dataclasses.asdict(each) for each in job.steps]}
        )
    else:
        print_described(STEP_COLUMNS, job.steps)
        if found is not None:
            click.echo(str(found))
    exit_if_interrupted(is_interrupted)
    if found is None or found.verdict != "found":
        raise SystemExit(1)


@click.command("compile-time")
@takes_program
@takes_target
@takes_flags
@takes_time_limit(600.0, "search")
@takes_json
def compile_time(
    request: ProgramRequest, target: str, flags: tuple[str, ...], time_limit_s: float, as_json: bool
) -> None:
    """Find the part of a program that makes its compile slow.

    Compiles parts of the program alone, and the program without the slowest. Ctrl-C shows the compiles so far. Exits with status 1
    if no part takes a third of the time.
    """
    from inspector.api.bisection.compile_time import compile_time as start
    from inspector.api.bisection.jobs import ABOUT_STEPS
    from inspector.stages.bisection.compile_time_result import PART_COLUMNS
    from inspector.stages.bisection.result import STEP_COLUMNS

    prepare(target)
    program = lowered(open_program(request), target)
    job = start(program, options_text(flags), target=target, wait=False, time_limit_s=time_limit_s, show_progress=False)
    is_interrupted = follow(job, ABOUT_STEPS, lambda: len(job.steps), lambda: job.stage)
    found = None if is_interrupted else job.result()
    if as_json:
        steps = [dataclasses.asdict(each) for each in job.steps]
        print_json({**({} if found is None else _compile_facts(found)), "steps": steps})
    elif found is None:
        print_described(STEP_COLUMNS, job.steps)
    else:
        print_described(PART_COLUMNS, found.parts)
        click.echo(str(found))
    exit_if_interrupted(is_interrupted)
    if found is None or not found.slowest:
        raise SystemExit(1)


def _compile_facts(found: CompileTime) -> dict[str, object]:
    """Returns a result without its steps as values for JSON."""
    from inspector.errors import Unavailable

    def shown(each: PartTime) -> dict[str, object]:
        return {**dataclasses.asdict(each), "saved": each.saved}

    return {
        "target": str(found.side.target),
        "options": str(found.side.options),
        "compile_s": found.compile_s,
        "operations": found.operations,
        "slowest": found.slowest if isinstance(found.slowest, Unavailable) else shown(found.slowest),
        "parts": [shown(each) for each in found.parts],
        "passes": found.passes
        if isinstance(found.passes, Unavailable)
        else list(map(dataclasses.asdict, found.passes)),
        "notes": found.notes,
    }


def _facts(found: Bisection) -> dict[str, object]:
    """Returns a result without its steps as values for JSON."""
    from inspector.errors import Unavailable

    reproduction = found.reproduction
    if not isinstance(reproduction, Unavailable):
        names = ("operations", "whole_operations", "lines", "difference", "is_minimal")
        shown: object = {name: getattr(reproduction, name) for name in names}
    else:
        shown = reproduction
    return {
        "verdict": found.verdict,
        "by": found.by,
        "good": str(found.good),
        "bad": str(found.bad),
        "difference": found.difference,
        "culprits": [dataclasses.asdict(each) for each in found.culprits],
        "pass": found.compiler_pass
        if isinstance(found.compiler_pass, Unavailable)
        else _pass_facts(found.compiler_pass),
        "changes": found.changes
        if isinstance(found.changes, Unavailable)
        else list(map(dataclasses.asdict, found.changes)),
        "reproduction": shown,
        "notes": found.notes,
    }


def _pass_facts(found: CulpritPass) -> dict[str, object]:
    names = ("name", "pipeline", "index", "side", "together_with", "runs", "confirmed")
    return {name: getattr(found, name) for name in names}
