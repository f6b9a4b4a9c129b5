"""`compare`: programs side by side, by target, options or file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from inspector.cli.dump import are_dumps, compare_folders
from inspector.cli.explorers import exploration_of
from inspector.cli.output import print_json, records, table
from inspector.cli.pages import takes_html, write_page
from inspector.cli.program_arguments import (
    ProgramRequest,
    compiled,
    open_program,
    prepare,
    takes_json,
    takes_program,
    takes_variants,
)


@click.command()
@takes_program
@click.argument("others", nargs=-1)
@click.option("-t", "--target", "targets", multiple=True, help="Target device; repeat to compare several.")
@takes_variants
@click.option("--exit-code", is_flag=True, help="Exit with status 1 if the programs differ.")
@takes_html
@takes_json
def compare(
    request: ProgramRequest,
    others: tuple[str, ...],
    targets: tuple[str, ...],
    variants: tuple[str, ...],
    exit_code: bool,
    page: Path | None,
    as_json: bool,
) -> None:
    """Compare the numbers and the structure of programs.

    The first program is the baseline.

    \b
      inspector compare step.py:step --args 'f32[8]' -t cpu:8 -t tpu:v5e:2x4
      inspector compare step.py:step --args 'f32[8]' -X xla_cpu_enable_fast_math=true
      inspector compare step.py:step step.py:faster --args 'f32[8]'
      inspector compare before.inspector after.inspector
      inspector compare dump_before/ dump_after/     folders of --xla_dump_to, by module
    """
    if len(others) == 1 and not targets and not variants and page is None and are_dumps(request.program, others[0]):
        if compare_folders(request.program, others[0], as_json=as_json) and exit_code:
            raise SystemExit(1)
        return
    from inspector.stages.estimates import compare as side_by_side

    prepare(*targets)
    inputs = [open_program(each) for each in request.with_others(others)]
    programs: list[Any] = []
    names: list[str] = []
    for one, path in zip(inputs, (request.program, *others), strict=True):
        for target in targets or ("attached",):
            for flags in ("", *variants):
                programs.append(compiled(one, target, tuple(flags.split())))
                parts = [path if others else "", str(programs[-1].target) if len(targets) > 1 else "", flags]
                names.append(" ".join(filter(None, parts)) or "baseline")
    if len(programs) < 2:
        raise click.UsageError("There is only one program. Give another program, a second -t, or -X FLAG=VALUE.")
    frame = side_by_side(*programs, names=names)
    diffs = [programs[0].diff(program) for program in programs[1:]]
    if as_json:
        rows = records(frame.reset_index())
        changes = {name: records(diff.table()) for name, diff in zip(names[1:], diffs, strict=True)}
        print_json({"programs": names, "numbers": rows, "changes": changes})
    else:
        _print_rows(frame)
        for name, diff in zip(names[1:], diffs, strict=True):
            click.echo(f"\n{name}: {diff.headline}")
    if page is not None:
        write_page(page, [exploration_of(program) for program in programs])
    if exit_code and any(diffs):
        raise SystemExit(1)


def _print_rows(frame: Any) -> None:
    from inspector.support.units import format_bytes, format_count, format_seconds

    def text(key: str, cell: Any, is_delta: bool) -> str:
        if cell is None:
            return ""
        form = format_bytes if "bytes" in key else format_seconds if key.endswith("_s") else format_count
        return f"{'+' if is_delta and cell > 0 else ''}{form(cell)}" if cell or not is_delta else "="

    columns = [name for name in frame.columns if name != "unknown"]
    rows = [
        [row["number"], *(text(str(row["number"]), row[name], name.startswith("delta ")) for name in columns)]
        for row in records(frame.reset_index())
    ]
    table(["", *columns], [row for row in rows if any(row[1:])], right=columns)
