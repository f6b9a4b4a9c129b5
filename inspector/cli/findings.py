"""`findings`: what to change in a program, and what it gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inspector.cli.output import print_json, records, working
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
    from inspector.stages.findings import Finding, Findings


@click.command()
@takes_program
@takes_target
@takes_flags
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Look for this kind only. Can be repeated.")
@click.option(
    "--prove", is_flag=True, help="Compile the program with each remedy, and compare memory, time and results."
)
@click.option(
    "--time-limit",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which the proofs stop. The rest is not tried.",
)
@click.option("--all", "has_all", is_flag=True, help="Also list findings with a gain below 1 % or an unknown gain.")
@click.option("--above", metavar="AMOUNT", help="Exit with status 1 if a finding gains more: '1 MiB', '1 ms' or '2 %'.")
@takes_json
def findings(
    request: ProgramRequest, target: str, flags: tuple[str, ...], kinds: tuple[str, ...], prove: bool, time_limit: float,
    has_all: bool, above: str | None, as_json: bool,
) -> None:  # fmt: skip
    """List what to change in a program and what that gains.

    \b
      inspector findings step.py:step --args-from inputs -t tpu:v5e:2x4
      inspector findings step.py:step --args-from inputs -t cpu:8 --prove
      inspector findings step.py:step --args-from inputs --kind undonated --above '1 MiB'
    """
    from inspector.expectations.finding_checks import LargestGain, check

    limit = None if above is None else LargestGain.of(above)
    prepare(target)
    found = compiled(open_program(request), target, flags).findings(kinds=kinds or None)
    if prove:
        with working("proving"):
            found.prove(time_limit)
    if as_json:
        _print_json(found)
    else:
        _print(found, [*found, *(found.folded if has_all else ())], has_all=has_all)
    raise SystemExit(0 if limit is None or check(found, limit).is_met is True else 1)


def _print_json(found: Findings) -> None:
    from inspector.stages.findings import FINDING_COLUMNS

    rows = records(FINDING_COLUMNS.data_frame([*found, *found.folded]))
    for row, finding in zip(rows, (*found, *found.folded), strict=True):
        row["is_folded"] = finding.is_small
    print_json({"kinds": found.kinds, "findings": rows, "unknown": found.unknown})


def _print(found: Findings, listed: list[Finding], *, has_all: bool) -> None:
    from inspector.hlo.source import line_text

    for number, each in enumerate(listed, 1):
        facts = {
            "gain": each.gain,
            "kind": each.kind,
            "line": line_text(each.frames),
            "remedy": each.remedy,
            "caution": each.caution,
            "proof": "" if each.proof is None else str(each.proof),
        }
        click.echo(f"{number}. {each.title}")
        for name, text in facts.items():
            if text:
                click.echo(f"     {name + ':':<9}" + text.replace("\n", "\n" + 14 * " "))
    if not listed:
        click.echo(f"No findings. Looked for: {', '.join(found.kinds)}.")
    if found.folded and not has_all:
        click.echo(f"{found.folded_words} (--all lists them).")
    for reason in found.unknown:
        click.echo(f"not looked for {reason}", err=True)
