"""`accuracy`: the errors of a program's variants against a reference with 64-bit values."""

from __future__ import annotations

import click

from inspector.cli.output import print_described, print_json, records, working
from inspector.cli.program_arguments import (
    ProgramRequest,
    lowered,
    open_program,
    options_text,
    prepare,
    takes_json,
    takes_program,
    takes_target,
    takes_variants,
)


@click.command()
@takes_program
@takes_target
@takes_variants
@click.option("--rtol", type=float, help="Relative tolerance, as in NumPy's allclose.")
@click.option("--atol", type=float, help="Absolute tolerance.")
@click.option("--locate/--no-locate", default=True, show_default=True, help="Search for the line where errors begin.")
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if a variant is wrong or did not run.")
@takes_json
def accuracy(
    request: ProgramRequest,
    target: str,
    variants: tuple[str, ...],
    rtol: float | None,
    atol: float | None,
    locate: bool,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Measure the errors of variants against 64-bit values.

    The first row is the baseline, with default options. Arguments that are shapes, such as 'f32[32,64]', get generated
    values.

    \b
      inspector accuracy step.py:step --args-from make_args
      inspector accuracy step.py:step --args-from make_args -X xla_cpu_enable_fast_math=true
      inspector accuracy step.py:step --args-from make_args --rtol 1e-3 --exit-code
    """
    from inspector.errors import Unavailable
    from inspector.stages.accuracy import begin_accuracy
    from inspector.stages.accuracy_result import ACCURACY_COLUMNS

    prepare(target)
    source = open_program(request)
    program = lowered(source, target)
    with working(f"measuring on {target}"):
        options = [options_text(tuple(flags.split())) for flags in variants]
        measured = begin_accuracy(
            program, source.args, source.kwargs, options, target, rtol=rtol, atol=atol, locate=locate
        ).result()
    if as_json:
        print_json({"program": measured.program, "rows": records(measured.table()), "notes": measured.remarks})
    else:
        print_described(ACCURACY_COLUMNS, measured.rows())
        for variant in measured:
            if variant.line_words:
                click.echo(f"{variant.name}: {variant.line_words}")
        for note in measured.remarks:
            click.echo(f"note: {note}", err=True)
    verdicts = [variant.verdict for variant in measured]
    is_bad = any(isinstance(each, Unavailable) or each == "wrong" for each in verdicts)
    if (exit_code and is_bad) or all(isinstance(each, Unavailable) for each in verdicts):
        raise SystemExit(1)
