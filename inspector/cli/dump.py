"""`dump`: the modules of a folder that XLA wrote with --xla_dump_to, and two folders side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.output import print_described, print_json, records, working
from inspector.cli.program_arguments import prepare, takes_json

if TYPE_CHECKING:
    from inspector.api.dumped_module import DumpedModule

_ROWS = 200


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--module", "name", default="", metavar="NAME", help="Show one module, e.g. jit_step or module_0004.jit_step."
)
@click.option("--passes", "has_passes", is_flag=True, help="With --module: list the passes that changed it.")
@takes_json
def dump(folder: Path, name: str, has_passes: bool, as_json: bool) -> None:
    """List modules of a folder that XLA wrote with --xla_dump_to.

    \b
      inspector dump xla_dump/
      inspector dump xla_dump/ --module jit_step --passes
      inspector explore xla_dump/                    the largest module in a browser
      inspector explore xla_dump/:jit_step           another module
      inspector compare dump_before/ dump_after/
    """
    if has_passes and not name:
        raise click.UsageError("--passes needs --module NAME.")
    prepare("cpu")
    from inspector.api.dump import DUMP_COLUMNS, load_dump

    opened = load_dump(folder)
    if name:
        _print_module(opened[name], has_passes=has_passes, as_json=as_json)
        return
    if as_json:
        print_json(
            {"path": opened.path, "modules": records(opened.table()), "others": opened.others, "notes": opened.notes}
        )
        return
    click.echo(repr(opened).partition("\n")[0].strip("<>"))
    print_described(DUMP_COLUMNS, opened.modules[:_ROWS])
    if len(opened) > _ROWS:
        click.echo(f"{len(opened) - _ROWS} more modules: --json prints all")
    for note in opened.notes:
        click.echo(f"note: {note}", err=True)


def _print_module(module: DumpedModule, *, has_passes: bool, as_json: bool) -> None:
    from inspector.errors import ModuleError, Unavailable

    passes = module.passes if has_passes else None
    if isinstance(passes, Unavailable):
        raise ModuleError(f"{module.label} has no passes: {passes.reason}. {passes.remedy}")
    lacks = {part: {"reason": why.reason, "remedy": why.remedy} for part, why in module.missing.items()}
    if as_json:
        written = {"files": dict(module.files), "missing": lacks}
        print_json({**written, **({} if passes is None else {"passes": records(passes.table()), "note": passes.note})})
        return
    click.echo(repr(module).partition("\n")[0].strip("<>"))
    for program in (module.before, module.after):
        text = program.reason if isinstance(program, Unavailable) else repr(program).partition("\n")[0].strip("<>")
        click.echo(f"  {text}")
    for part, why in module.missing.items():
        click.echo(f"  missing: {part}: {why.reason}; {why.remedy}")
    if passes is not None:
        for each in passes.changed:
            click.echo(f"  {each!r}"[:200])
        if passes.note:
            click.echo(f"note: {passes.note}", err=True)


def are_dumps(*paths: str) -> bool:
    """Reports whether all paths are folders of --xla_dump_to."""
    from inspector.compilation.dumps.folder import is_dump

    return all(is_dump(path) for path in paths)


def compare_folders(a: str, b: str, *, as_json: bool) -> bool:
    """Prints two dump folders side by side, and returns whether they differ."""
    prepare("cpu")
    from inspector.api.dump import load_dump
    from inspector.api.dump_comparison import COMPARISON_COLUMNS

    with working(f"comparing {a} and {b}"):
        comparison = load_dump(a).compare(load_dump(b))
        frame = comparison.table()
    if as_json:
        print_json({"a": a, "b": b, "modules": records(frame)})
    else:
        click.echo(repr(comparison).partition("\n")[0].strip("<>"))
        print_described(COMPARISON_COLUMNS, comparison.modules)
    return bool(comparison)
