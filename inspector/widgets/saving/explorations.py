"""Converts an Explorer to a recorded exploration, and restores a recorded exploration in an Explorer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from inspector.compilation.compiled import OPENED, CompiledProgram, engine_of
from inspector.compilation.request import CompileRequest
from inspector.errors import Unavailable
from inspector.reports.recorded_exploration import RecordedError, RecordedExploration, RecordedVariant, within_limit
from inspector.widgets.compiles import Compiles
from inspector.widgets.panes.run import RunRequest
from inspector.widgets.variants import Variant


def record(variants: Sequence[Variant], compiles: Compiles) -> RecordedExploration:
    """Returns the results of variants that have ended.

    Products that panes recorded by separate compiles come from the cache; if the cache dropped them, they are compiled again.
    """
    recorded = tuple(_recorded(variant, compiles) for variant in variants)
    return RecordedExploration.now(compiles.lowered, within_limit(recorded), compiles.work.portable)


def restore(recorded: Sequence[RecordedVariant], compiles: Compiles) -> None:
    """Starts the recorded variants, except the baseline, which exists already, and shows their runs."""
    for number, each in enumerate(recorded):
        # Without StableHLO, each variant is a module of its own.
        is_own = each.lowered is not None and each.lowered.program.no_stablehlo is not None
        opened = each.lowered if is_own or each.origin else None
        variant = (
            compiles.variants[0]
            if number == 0
            else compiles.start(each.options, each.target, each.tuning, opened, each.origin)
        )
        if each.program is not None and engine_of(each.program) == OPENED:
            compiles.set_origin(variant, each.label)
        if each.is_pinned and not variant.is_baseline:
            compiles.pin(variant, True)
        if variant.state != "done":
            continue
        if each.outcome is not None:
            count = len(each.outcome.durations_s)
            compiles.board.answer(RunRequest(type="run", variant=variant.number, repeat=count))
        if each.profile is not None:
            variant.profile, variant.profile_count = each.profile, 1
            compiles.board.show_profile(variant)


def _recorded(variant: Variant, compiles: Compiles) -> RecordedVariant:
    failure = variant.failure
    is_done = variant.state == "done"
    return RecordedVariant(
        label=variant.label,
        options=variant.options,
        target=variant.target,
        state="done" if is_done else "failed" if failure is not None else "cancelled",
        tuning=variant.tuning,
        lowered=variant.lowered,
        program=_with_products(variant, compiles) if is_done else None,
        failure=None if failure is None else RecordedError.of(failure),
        outcome=compiles.board.outcome(variant),
        profile=None if isinstance(variant.profile, Unavailable) else variant.profile,
        is_pinned=variant.is_pinned,
        origin="" if is_done and engine_of(variant.compiled) == OPENED else variant.origin,
    )


def _with_products(variant: Variant, compiles: Compiles) -> CompiledProgram:
    compiled: CompiledProgram = variant.compiled
    missing = [name for name in compiles.board.products(variant) if isinstance(getattr(compiled, name), Unavailable)]
    requests = [
        CompileRequest(compiled.program, compiled.options, compiled.target, frozenset([name])) for name in missing
    ]
    jobs = [compiles.work.submit(request) for request in requests]
    products = {name: getattr(job.result(), name) for name, job in zip(missing, jobs, strict=True)}
    return dataclasses.replace(compiled, **products) if products else compiled
