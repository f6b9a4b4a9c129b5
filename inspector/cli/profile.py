"""`profile`: the measured time of a program's kernels, on this machine or in a profile from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.output import print_described, print_json, records, working
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
    from inspector.analysis.profile.profile import Profile
    from inspector.analysis.profile.rows import GroupedBy

_BY = ("line", "scope", "opcode", "phase", "kernel")


@click.command()
@takes_program
@takes_target
@takes_flags
@click.option("--repeat", default=5, show_default=True, type=click.IntRange(1), help="Profiled executions.")
@click.option("--by", type=click.Choice(_BY), help="Sum times by this property.")
@click.option("--top", default=30, show_default=True, type=click.IntRange(1), help="Printed rows; --json prints all.")
@takes_json
def profile(
    request: ProgramRequest,
    target: str,
    flags: tuple[str, ...],
    repeat: int,
    by: GroupedBy | None,
    top: int,
    as_json: bool,
) -> None:
    """Measure the time of each kernel, or show a recorded profile.

    Arguments that are shapes, such as 'f32[32,64]', get generated values.

    \b
      inspector profile step.py:train_step --args-from make_args --by line
      inspector profile logdir                 the newest profile that jax.profiler.trace("logdir") wrote
      inspector profile x.xplane.pb --module jit_step
    """
    from inspector.profiles.session_files import is_profile

    prepare(target)
    if Path(request.program).exists() and is_profile(request.program):
        _print_recorded(request.program, request.module, by, top, as_json=as_json)
        return
    source = open_program(request)
    program = compiled(source, target, flags)
    with working(f"profiling on {target}"):
        result = program.profile(*source.args, repeat=repeat, **source.kwargs)
    print_profile(result, by, top, as_json=as_json)


def _print_recorded(path: str, name: str, by: GroupedBy | None, top: int, *, as_json: bool) -> None:
    """Prints the programs of a profile, and one of them: that of a name, or that with the most measured time."""
    from inspector.api.recorded_profile import PROGRAM_COLUMNS, load_profile

    with working(f"reading {path}"):
        recorded = load_profile(path)
        shown = [recorded[name]] if name else [program for program in recorded.programs[:1] if program.calls]
        profiles = [program.profile for program in shown]
    if as_json:
        print_json({
            "hosts": recorded.hosts, "devices": recorded.devices, "total_s": recorded.total_s, "other_s": recorded.other_s,
            "programs": records(recorded.table()), "notes": recorded.notes,
            "profiles": [json_of(each, by) for each in profiles],
        })  # fmt: skip
        return
    click.echo(repr(recorded).partition("\n")[0].strip("<>"))
    print_described(PROGRAM_COLUMNS, recorded.rows()[:top])
    for note in recorded.notes:
        click.echo(f"note: {note}", err=True)
    for each in profiles:
        click.echo()
        print_profile(each, by, top, as_json=False)


def print_profile(result: Profile, by: GroupedBy | None, top: int, *, as_json: bool) -> None:
    """Prints a profile.

    Args:
      result: the profile.
      by: the property to sum by; None for one row per instruction and device.
      top: number of rows in the printed table.
      as_json: whether to print JSON.
    """
    from inspector.analysis.profile.columns import PROFILE_COLUMNS, PROFILE_GROUP_COLUMNS, SharedRow

    if as_json:
        print_json(json_of(result, by))
        return
    click.echo(repr(result).partition("\n")[0].strip("<>"))
    whole = result.total_s
    count = len(result.groups(by)) if by else len(result.rows)
    if by:
        print_described(PROFILE_GROUP_COLUMNS, result.groups(by)[:top])
    else:
        print_described(
            PROFILE_COLUMNS, (SharedRow(row, row.total_s / whole if whole else 0.0) for row in result.rows[:top])
        )
    if count > top:
        click.echo(f"{count - top} more rows: --top {count}")
    for note in result.notes:
        click.echo(f"note: {note}", err=True)


def json_of(result: Profile, by: GroupedBy | None) -> dict[str, object]:
    """Returns a profile as values for JSON."""
    from inspector.errors import Unavailable

    wall = result.wall
    times = {} if isinstance(wall, Unavailable) else {
        "wall_s": wall.median_s, "wall_spread_s": wall.spread_s, "profiler_overhead": wall.overhead,
    }  # fmt: skip
    return {
        "program": result.program, "devices": result.devices, "executions": result.executions, "total_s": result.total_s,
        "other_s": result.other_s, **times, "rows": records(result.by(by) if by else result.table()), "notes": result.notes,
    }  # fmt: skip
