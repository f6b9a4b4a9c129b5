"""`lower`, `compile`, `memory` and `collectives`: the text, the numbers, the memory and the collectives of one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inspector.cli.explorers import exploration_of
from inspector.cli.output import numbers_of, print_described, print_json, printed_to, records, table
from inspector.cli.pages import ANY_FILE, takes_html, write_page
from inspector.cli.program_arguments import (
    ProgramRequest,
    compiled,
    lowered,
    open_program,
    prepare,
    takes_flags,
    takes_json,
    takes_program,
    takes_target,
)
from inspector.support import files

if TYPE_CHECKING:
    from inspector.analysis.memory.timeline import Timeline
    from inspector.errors import Unavailable
    from inspector.hlo.listing import Listing
    from inspector.stages.compiled import Compiled
    from inspector.stages.lowered import Lowered

T = TypeVar("T")

_FORMS = ("stablehlo", "hlo", "jaxpr", "source")


def takes_file(command: Any) -> Any:
    """Adds --output to a command, as `file`."""
    return click.option("-o", "--output", "file", type=ANY_FILE, help="Write to this file instead of stdout.")(command)


@click.command()
@takes_program
@takes_target
@click.option("--form", type=click.Choice(_FORMS), default="stablehlo", show_default=True, help="Form of the text.")
@takes_file
@takes_json
def lower(request: ProgramRequest, target: str, form: str, file: Path | None, as_json: bool) -> None:
    """Print the text that JAX passes to XLA.

    --json prints its lines with the source line of each, without metadata and long constants.
    """
    prepare(target)
    program = lowered(open_program(request), target)
    if as_json:
        with printed_to(file):
            _print_lines(_listing(program, form), {"program": program.program.name, "form": form})
        return
    _write(_text(program, form), file)


def _listing(program: Lowered, form: str) -> Listing | Unavailable:
    from inspector.stages.opened_text import hlo_lines

    if form == "source":
        return program.source
    return (
        program.stablehlo_listing
        if form == "stablehlo"
        else hlo_lines(program)
        if form == "hlo"
        else program.jaxpr_listing
    )


def _print_lines(listing: Listing | Unavailable, facts: Mapping[str, object]) -> None:
    """Prints the lines of a text as JSON, each with its source line."""
    from inspector.hlo.source import NOWHERE

    known = _available(listing)
    lines = []
    for place, text in enumerate(known.text.split("\n")):
        source = next(iter(known.origins_of(place)), NOWHERE).line
        file, line = (None, None) if source is None else (source.file, source.line)
        number = known.labels[place] if known.labels else place + 1
        lines.append({"line": number, "text": text, "source_file": file, "source_line": line})
    print_json({**facts, "lines": lines})


def _text(program: Lowered, form: str) -> str | Unavailable:
    from inspector.hlo.listing import Listing

    if form == "source":
        return program.source.text if isinstance(program.source, Listing) else program.source
    return program.stablehlo if form == "stablehlo" else program.hlo if form == "hlo" else program.jaxpr


@click.command("compile")
@takes_program
@takes_target
@takes_flags
@click.option("--hlo", is_flag=True, help="Print the optimized HLO instead of numbers.")
@takes_file
@takes_html
@takes_json
def compile_(
    request: ProgramRequest,
    target: str,
    flags: tuple[str, ...],
    hlo: bool,
    file: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Compile a program and print its memory, cost and kernels.

    --output FILE.inspector saves the compiled program. With another suffix it saves the printed text.
    """
    from inspector.expectations.number_checks import numbers, written

    if file is not None and file.suffix.lower() in (".html", ".htm"):
        raise click.UsageError(f"-o {file} writes the printed text. For a page: --html {file}.")
    prepare(target)
    program = compiled(open_program(request), target, flags)
    if file is not None and file.suffix == ".inspector":
        program.save(file)
        click.echo(f"{file}: inspector report {file}", err=True)
        file = None
    if page is not None:
        write_page(page, [exploration_of(program)])
    if hlo and as_json:
        from inspector.analysis.hlo_listing import hlo_listing
        from inspector.hlo.source import Root

        listing = hlo_listing(program.hlo, program.module(), Root())
        with printed_to(file):
            _print_lines(listing, {"program": program.program.name, "target": str(program.target)})
        return
    if hlo:
        _write(program.hlo, file)
        return
    known = numbers(program)
    with printed_to(file):
        if as_json:
            print_json({"program": program.program.name, "target": str(program.target), "options": program.options.as_dict(),
                      "versions": dict(program.versions), "numbers": numbers_of(known), "warnings": program.warnings})  # fmt: skip
            return
        click.echo(f"{program.program.signature} for {program.target}, {program.options}")
        table(["", "value"], [[stat.label, written(stat, stat.value)] for stat in known.values()], right=["value"])
    for warning in program.warnings:
        click.echo(f"warning: {warning}", err=True)


@click.command()
@takes_program
@takes_target
@takes_flags
@click.option("--totals", is_flag=True, help="Print sums by axes and kind.")
@takes_html
@takes_json
def collectives(
    request: ProgramRequest, target: str, flags: tuple[str, ...], totals: bool, page: Path | None, as_json: bool
) -> None:
    """List the collectives: devices, mesh axes, bytes and origin."""
    from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS, CollectiveRow
    from inspector.analysis.collectives.totals import TOTAL_COLUMNS, totals_of

    prepare(target)
    program = compiled(open_program(request), target, flags)
    result = program.collectives()
    if page is not None:
        write_page(page, [exploration_of(program)])
    if as_json:
        print_json(records(result.totals() if totals else result.table()))
        return
    click.echo(repr(result).partition("\n")[0].strip("<>"))
    if not len(result):
        return
    if totals:
        print_described(TOTAL_COLUMNS, totals_of(result.items))
    else:
        print_described(COLLECTIVE_COLUMNS, map(CollectiveRow, result))


@click.command()
@takes_program
@takes_target
@takes_flags
@click.option(
    "--space", default="", metavar="NAME", help="Memory space of the listed buffers; the main memory by default."
)
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(1), help="Printed buffers; --json prints all."
)
@takes_json
def memory(request: ProgramRequest, target: str, flags: tuple[str, ...], space: str, top: int, as_json: bool) -> None:
    """Show memory spaces, buffers at the peak, and donations.

    \b
      inspector memory step.py:step --args-from inputs -t tpu:v5e
      inspector memory step.hlo --top 50
    """
    from inspector.errors import Unavailable

    prepare(target)
    program = compiled(open_program(request), target, flags, optional=("buffers",))
    timeline, donations = program.timeline(), program.donations()
    if as_json:
        print_json({
            "program": program.program.name, "target": str(program.target), **_memory_values(program, timeline, space),
            "donations": records(donations.table()),
        })  # fmt: skip
        return
    known = program.memory
    click.echo(f"Memory: {known}" if isinstance(known, Unavailable) else repr(known).partition("\n")[0].strip("<>"))
    if isinstance(timeline, Unavailable):
        click.echo(f"note: buffers at the peak are not available: {timeline.reason}", err=True)
    else:
        _print_buffers(timeline, _space(program, space), top)
    click.echo(f"\n{repr(donations).partition(chr(10))[0].strip('<>')}")


def _memory_values(program: Compiled, timeline: Timeline | Unavailable, space: str) -> dict[str, object]:
    """Returns the memory spaces, and the buffers that are live at the peak of one of them."""
    from inspector.errors import Unavailable

    if isinstance(timeline, Unavailable):
        known = program.memory if isinstance(program.memory, Unavailable) else records(program.memory.table())
        return {"spaces": known, "live_at_peak": timeline}
    name = _space(program, space)
    alive = dataclasses.replace(timeline, lives=timeline.alive(name))
    return {
        "spaces": records(timeline.space_table()), "space": name, "is_estimated": timeline.is_estimated,
        "peak_instruction": timeline.spaces[name].peak_instruction, "live_at_peak": records(alive.table()),
    }  # fmt: skip


def _space(program: Compiled, name: str) -> str:
    from inspector.compilation.memory import space_name

    return name or space_name(program.program.platform, 0)


def _print_buffers(timeline: Timeline, space: str, top: int) -> None:
    from inspector.hlo.source import line_text
    from inspector.support.units import format_bytes

    alive = timeline.alive(space)
    at = timeline.spaces[space].peak_instruction
    model = ", estimated from the schedule" if timeline.is_estimated else ""
    click.echo(f"\nLive in {space} at the peak{f', {at}' if at else ''}{model}:")
    rows = [
        (format_bytes(life.byte_size), life.kind, life.value, origin.op_name, line_text(origin.frames))
        for life in alive[:top]
        for origin in [timeline.origin(life)]
    ]
    table(["size", "kind", "value", "scope", "line"], rows, right=["size"])
    if len(alive) > top:
        click.echo(f"{len(alive) - top} more buffers: --top {len(alive)}")


def _write(text: str | Unavailable, file: Path | None) -> None:
    known = _available(text)
    if file is None:
        click.echo(known)
    else:
        files.write_text(file, known)


def _available(text: T | Unavailable) -> T:
    from inspector.errors import Unavailable

    if isinstance(text, Unavailable):
        raise click.UsageError(
            f"This text is not available: {text.reason}.{f' Remedy: {text.remedy}.' if text.remedy else ''}"
        )
    return text
