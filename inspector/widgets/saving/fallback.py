"""An Explorer without its widget: as text, and as HTML that is readable without a notebook kernel."""

from __future__ import annotations

import dataclasses
import html
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from inspector.analysis.cost.stats import aligned, difference, stats
from inspector.analysis.memory.tpu_errors import explain, explain_kernel
from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.support.units import format_change, format_number
from inspector.widgets.panes.framework.pane import Excerpt
from inspector.widgets.panes.pallas import kernels_html

if TYPE_CHECKING:
    from inspector.analysis.cost.stats import Stat
    from inspector.stages.lowered import Lowered
    from inspector.widgets.variants import Variant

# Limits for a saved notebook, which contains this form of every Explorer.
_SHOWN_LINES = 120
_SHOWN_CHARACTERS = 400
_SHOWN_PROGRAMS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Details:
    """Further results of a variant.

    Attributes:
      difference: sentence about the difference between its program and the baseline's.
      collectives: table of its collectives, as HTML.
      excerpts: excerpts of the data that was recorded beyond its compile.
    """

    difference: str = ""
    collectives: str = ""
    excerpts: Sequence[Excerpt] = ()


_NONE: Mapping[int, Details] = types.MappingProxyType({})


def text_form(lowered: Lowered, variants: Sequence[Variant], details: Mapping[int, Details] = _NONE) -> str:
    """Returns a few lines about the program and its variants; arguments as in `html_form`."""
    program = lowered.program
    lines = [f"Explorer of {program.name} for {program.platform}" + (f", {program.mesh}" if program.mesh else "")]
    if lowered.notes:
        lines.append(f"  notes: {_cut(', '.join(lowered.notes))}")
    for variant in variants:
        target = "" if variant.label == variant.target_text else f" [{variant.target_text}]"
        line = f"  {variant.label}{target}: {variant.state}"
        if variant.state == "done":
            line += ", " + ", ".join(
                f"{s.label} {number_text(s)}" for s in stats(variant.compiled) if s.key in _HEADLINE
            )
        if variant.failure is not None:
            line += f", {_reason(variant.failure)}"
        lines.append(line)
        lines += [f"    {_cut(excerpt.title)}" for excerpt in details.get(variant.number, Details()).excerpts]
    return "\n".join(lines)


def html_form(
    lowered: Lowered, variants: Sequence[Variant], details: Mapping[int, Details] = _NONE, *, has_texts: bool = True
) -> str:
    """Returns the numbers as an HTML table and the texts folded. Styles are inline, as pages remove others.

    Args:
      lowered: the program.
      variants: its variants, the baseline first.
      details: further results of variants, by number.
      has_texts: whether to include Source, jaxpr and StableHLO.
    """
    program = lowered.program
    mesh = f" · {html.escape(str(program.mesh))}" if program.mesh else ""
    parts = [
        f"<p><b>{html.escape(program.name)}</b> · lowered for {html.escape(program.platform)}{mesh}</p>",
        *(f"<p>notes: {html.escape(_cut(', '.join(notes)))}</p>" for notes in [lowered.notes] if notes),
        _numbers(variants),
        *_changes(variants, details),
        *_failures(variants),
        *_kernels(variants),
        *_collectives(variants, details),
        *(_folded(title, listing) for title, listing in (_texts(lowered) if has_texts else ())),
        *_programs(variants),
        *_excerpts(variants, details),
    ]
    return "".join(parts)


_HEADLINE = ("peak_bytes", "flops", "compile_s")


def _numbers(variants: Sequence[Variant]) -> str:
    done = [v for v in variants if v.state == "done"]
    if not done:
        states = ", ".join(f"{html.escape(v.label)}: {v.state}" for v in variants)
        has_ended = all(v.state in ("failed", "cancelled") for v in variants)
        return f"<p>{states}.{'' if has_ended else ' Run the cell to compile and explore.'}</p>"
    head = "".join(f"<th>{_heading(v)}</th>" for v in done)
    columns = aligned([stats(v.compiled) for v in done], [v.compiled for v in done])
    references = [next(i for i, other in enumerate(done) if other.target == v.target) for v in done]
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(row[0].label)}</th>"
        + "".join(
            f"<td style='text-align:right'>{_value(stat)}{_change(stat, row[at]) if at < i else ''}</td>"
            for i, (stat, at) in enumerate(zip(row, references, strict=True))
        )
        + "</tr>"
        for row in zip(*columns, strict=True)
    )
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _changes(variants: Sequence[Variant], details: Mapping[int, Details]) -> list[str]:
    """Returns the differences between the programs of variants and the baseline's."""
    return [
        f"<p>{html.escape(variant.label)}, compared with the baseline: {html.escape(_cut(details[variant.number].difference))}</p>"
        for variant in variants
        if variant.number in details and details[variant.number].difference
    ]


def _collectives(variants: Sequence[Variant], details: Mapping[int, Details]) -> list[str]:
    """Returns the distinct collectives of the variants, the baseline first."""
    forms = [details[variant.number].collectives for variant in variants if variant.number in details]
    return [form for form in dict.fromkeys(forms) if form][:_SHOWN_PROGRAMS]


def _excerpts(variants: Sequence[Variant], details: Mapping[int, Details]) -> list[str]:
    """Returns the data that was recorded beyond the compiles, with texts for the first variants only."""
    parts = []
    for place, variant in enumerate(v for v in variants if v.number in details):
        for excerpt in details[variant.number].excerpts:
            title = f"{variant.label}: {_cut(excerpt.title)}"
            has_text = excerpt.text and place < _SHOWN_PROGRAMS
            parts.append(_folded(title, excerpt.text) if has_text else f"<p>{html.escape(title)}</p>")
    return parts


def _failures(variants: Sequence[Variant]) -> list[str]:
    """Returns the errors of failed variants, except errors about Pallas kernels, which are shown with the kernel."""
    return [
        f"<p>✗ {_heading(variant)}: {html.escape(_reason(variant.failure))}</p>"
        for variant in variants
        if variant.failure is not None and not (_has_kernels(variant) and explain_kernel(str(variant.failure)))
    ]


def _has_kernels(variant: Variant) -> bool:
    return variant.lowered is not None and bool(variant.lowered.kernels)


def _reason(error: BaseException) -> str:
    """Returns an error on one line; for a TPU compiler's error, its figures."""
    text = str(explain(str(error)) or error)
    return _cut(f"{type(error).__name__}: {' '.join(text.split())}")


def _heading(variant: Variant) -> str:
    label = html.escape(variant.label)
    return label if variant.label == variant.target_text else f"{label}<br><small>{variant.target_text}</small>"


def _kernels(variants: Sequence[Variant]) -> list[str]:
    """Returns the Pallas kernels of the baseline, and of variants whose compiler rejected theirs."""
    parts = []
    for variant in variants:
        if (
            variant.lowered is not None
            and _has_kernels(variant)
            and (variant.is_baseline or variant.failure is not None)
        ):
            parts.append(kernels_html(variant.lowered.kernels, variant.target, variant.failure))
    return parts


def _texts(lowered: Lowered) -> list[tuple[str, Listing | Unavailable]]:
    return [("Source", lowered.source), ("jaxpr", lowered.jaxpr_listing), ("StableHLO", lowered.stablehlo_listing)]


def _programs(variants: Sequence[Variant]) -> list[str]:
    """Returns the optimized HLO of compiled variants from the entry computation on; the computations that it calls precede it."""
    done = [v for v in variants if v.state == "done"]
    folded = [_folded(_program_title(v), v.compiled.hlo, _entry_line(v.compiled.hlo)) for v in done[:_SHOWN_PROGRAMS]]
    more = len(done) - _SHOWN_PROGRAMS
    return [*folded, f"<p>… and {more} more.</p>"] if more > 0 else folded


def _program_title(variant: Variant) -> str:
    target = "" if variant.label == variant.target_text else f", {variant.target_text}"
    return f"Optimized HLO of {variant.label}{target}"


def _entry_line(hlo: str) -> int:
    """Returns the line, from 0, where the entry computation begins."""
    at = 0 if hlo.startswith("ENTRY ") else hlo.find("\nENTRY ") + 1
    return hlo.count("\n", 0, at)


def _folded(title: str, listing: Listing | Unavailable | str, first: int = 0) -> str:
    """Returns a folded text from a line on, truncated for a saved notebook."""
    if isinstance(listing, Unavailable):
        return f"<p style='opacity:.6'>{title}: {html.escape(str(listing))}</p>"
    lines = (listing if isinstance(listing, str) else listing.text).split("\n")
    shown = [_cut(line) for line in lines[first : first + _SHOWN_LINES]]
    if first:
        shown.insert(0, f"… {first:,} lines above")
    if more := max(0, len(lines) - first - _SHOWN_LINES):
        shown.append(f"… {more:,} more lines")
    return (
        f"<details><summary>{html.escape(title)} ({len(lines):,} {'line' if len(lines) == 1 else 'lines'})</summary>"
        f"<pre style='max-height:24em;overflow:auto'>{html.escape(chr(10).join(shown))}</pre></details>"
    )


def _cut(line: str) -> str:
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}…"


def _value(stat: Stat) -> str:
    """Returns a number as HTML."""
    if isinstance(stat.value, Unavailable):
        return f"<span title='{html.escape(stat.value.reason)}' style='opacity:.5'>unavailable</span>"
    return html.escape(number_text(stat))


def _change(stat: Stat, reference: Stat) -> str:
    """Returns the difference from the first variant for the same target as HTML; "" if it is unknown."""
    delta = difference(stat.value, reference.value)
    if isinstance(delta, Unavailable):
        return ""
    text = "="
    if delta:
        base = float(reference.value) if not isinstance(reference.value, Unavailable) else 0.0
        share = f" ({format_change(base + delta, base)})" if base > 0 else ""
        text = f"{'−' if delta < 0 else '+'}{format_number(abs(delta), stat.unit)}{share}"
    return f" <span style='opacity:.6'>{html.escape(text)}</span>"


def number_text(stat: Stat) -> str:
    """Returns a number with its unit."""
    if isinstance(stat.value, Unavailable):
        return "unavailable"
    return format_number(stat.value, stat.unit)
