"""`targets` and `options`: the available targets and compiler options."""

from __future__ import annotations

import os

import click

from inspector.cli.output import print_json, records, table, working
from inspector.cli.program_arguments import prepare, takes_json


@click.command()
@click.option("--all", "every", is_flag=True, help="Also list targets whose compiler is missing.")
@takes_json
def targets(every: bool, as_json: bool) -> None:
    """List the available targets and what the others need."""
    prepare()
    with working("starting JAX"):
        from inspector.engines.targets import targets as rows

        frame = rows()
    if as_json:
        print_json(records(frame))
        return
    entries = records(frame)
    shown = [row for row in entries if every or row["available"]]
    table(
        ["target", "device kind", "devices", "can run", "note"],
        [[r["target"], r["device_kind"], r["device_count"], "yes" if r["can_run"] else "", r["reason"]] for r in shown],
        right=["devices"],
    )
    reasons = dict.fromkeys(str(row["reason"]) for row in entries if not row["available"])
    if not every:
        for reason in reasons:
            count = sum(row["reason"] == reason and not row["available"] for row in entries)
            click.echo(f"{count} more: {reason}", err=True)


@click.command()
@click.argument("search", nargs=-1)
@click.option("--long", "is_long", is_flag=True, help="Print full descriptions.")
@takes_json
def options(search: tuple[str, ...], is_long: bool, as_json: bool) -> None:
    """Search the options of the installed compilers. Example: `inspector options fast math`."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with working("reading the installed compilers"):
        from inspector.toolchain.flags.catalog import option_catalog

        frame = option_catalog(" ".join(search) or None)
    entries = records(frame)
    if as_json:
        print_json(entries)
    elif is_long:
        for row in entries:
            click.echo(f"{row['name']}  ({row['type']}, default {row['default']!r}, {row['channel']})")
            if row["choices"]:
                click.echo(f"    one of {row['choices']}")
            click.echo(f"    {row['description'] or row['unknown']}\n")
    else:
        names = ["name", "type", "default", "group", "description"]
        table(names, [["" if row[name] is None else row[name] for name in names] for row in entries])
    if not entries:
        raise SystemExit(1)
