"""`targets` and `options`: the available targets and compiler options."""

from __future__ import annotations

import collections
import os

import click

from inspector.cli.output import print_described, print_json, records, working
from inspector.cli.program_arguments import prepare, takes_json


@click.command()
@click.option("--all", "every", is_flag=True, help="Also list targets whose compiler is missing.")
@takes_json
def targets(every: bool, as_json: bool) -> None:
    """List the available targets and what the others need."""
    prepare()
    with working("starting JAX"):
        from inspector.engines.targets import TARGET_COLUMNS, target_rows
        from inspector.errors import needs_jax

        with needs_jax("inspector.targets"):
            rows = list(target_rows())
    if as_json:
        print_json(records(TARGET_COLUMNS.data_frame(rows)))
        return
    print_described(TARGET_COLUMNS, (row for row in rows if every or row.available))
    if not every:
        reasons = collections.Counter(row.reason for row in rows if not row.available)
        for reason, count in reasons.items():
            click.echo(f"{count} more: {reason}", err=True)


@click.command()
@click.argument("search", nargs=-1)
@click.option("--long", "is_long", is_flag=True, help="Print full descriptions.")
@takes_json
def options(search: tuple[str, ...], is_long: bool, as_json: bool) -> None:
    """Search the options of the installed compilers. Example: `inspector options fast math`."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with working("reading the installed compilers"):
        from inspector.toolchain.flags.catalog import OPTION_COLUMNS, find_options

        matches = find_options(" ".join(search))
    if as_json:
        print_json(records(OPTION_COLUMNS.data_frame(matches)))
    elif is_long:
        for option in matches:
            click.echo(f"{option.name}  ({option.type}, default {option.default!r}, {option.channel})")
            if option.choices:
                click.echo(f"    one of {option.choices}")
            click.echo(f"    {option.description}\n")
    else:
        print_described(OPTION_COLUMNS, matches)
    if not matches:
        raise SystemExit(1)
