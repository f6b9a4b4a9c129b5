"""`scan`: the effect of each flag on a program."""

from __future__ import annotations

import click

from inspector.cli.output import exit_if_interrupted, follow, print_described, print_json, records
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


@click.command()
@takes_program
@takes_target
@takes_flags
@click.option("--flag", "names", multiple=True, metavar="NAME", help="Flag to try; by default every boolean flag.")
@takes_time_limit(300.0, "scan")
@click.option("--machine-code", is_flag=True, help="Compile to machine code: finds flags that change only that.")
@click.option("--measure", is_flag=True, help="Also run the programs that differ, in turns with the baseline.")
@click.option("--all", "every", is_flag=True, help="Also list flags that change nothing.")
@takes_json
def scan(
    request: ProgramRequest, target: str, flags: tuple[str, ...], names: tuple[str, ...], time_limit_s: float,
    machine_code: bool, measure: bool, every: bool, as_json: bool,
) -> None:  # fmt: skip
    """Try flags and report what each one changes. Ctrl-C shows the results so far."""
    from inspector.api.flag_effects import scan as start
    from inspector.api.flag_effects.effect import EFFECT_COLUMNS

    prepare(target)
    program = lowered(open_program(request), target)
    job = start(
        program, names or None, target=target, options=options_text(flags), time_limit_s=time_limit_s,
        machine_code=machine_code, measure=measure, show_progress=False,
    )  # fmt: skip
    is_interrupted = follow(job, job.total, lambda: len(job.effects), lambda: job.summary)
    if as_json:
        print_json(records(job.table()))
        exit_if_interrupted(is_interrupted)
        return
    shown = (row for row in job.rows if every or row.outcome not in ("nothing", "unknown", "not tried"))
    print_described(EFFECT_COLUMNS, shown)
    click.echo(job.summary, err=True)
    exit_if_interrupted(is_interrupted)
