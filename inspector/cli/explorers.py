"""Explorers of the programs that a command line names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inspector.cli.output import working
from inspector.cli.program_arguments import ProgramRequest, open_program, options_text, prepare

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration
    from inspector.compilation.compiled import CompiledProgram
    from inspector.reports.recorded_exploration import RecordedVariant
    from inspector.reports.replay import Replay
    from inspector.widgets.explorer import Explorer


def start(
    request: ProgramRequest, target: str = "attached", flags: tuple[str, ...] = (), compare: Sequence[str] = ()
) -> Explorer:
    """Starts compiling a program; shows the recording of a saved file, with the additional variants that are requested.

    Args:
      request: the program.
      target: the target device.
      flags: compiler options.
      compare: additional variants: targets, or options with or without leading dashes.
    """
    variants = _variants(compare, target)
    prepare(target, *(str(other) for _, other in variants if other is not None))
    program = open_program(request)

    from inspector.api.exploration import Exploration
    from inspector.api.explore import explore
    from inspector.compilation.compiled import CompiledProgram

    saved = exploration_of(program.fun) if isinstance(program.fun, CompiledProgram) else program.fun
    if isinstance(saved, Exploration):
        explorer = saved.explorer()
        recorded = str(explorer.baseline.target)
        if flags or target != "attached":
            explorer.add(options_text(flags) or None, recorded if target == "attached" else target)
        variants = _variants(compare, recorded)
    else:
        with working("lowering"):
            explorer = explore(saved, *program.args, target=target, options=options_text(flags), **program.keywords)
    for options, other in variants:
        explorer.add(options, other)
    return explorer


def _variants(compare: Sequence[str], target: str) -> list[tuple[Any, Any]]:
    from inspector.stages.variant_forms import variants_of

    plain = [f"--{each}" if "=" in each and "==" not in each and not each.startswith("-") else each for each in compare]
    return variants_of(plain, target)


def exploration_of(compiled: CompiledProgram) -> Exploration:
    """Returns an exploration of one compiled program."""
    from inspector.api.exploration import Exploration
    from inspector.errors import needs_jax
    from inspector.reports.recorded_exploration import RecordedExploration, RecordedVariant

    with needs_jax("A page of a saved program"):
        from inspector.lowering.lower import lower

        lowered = lower(compiled)
    variant = RecordedVariant("baseline", compiled.options, compiled.target, "done", lowered=lowered, program=compiled)
    return Exploration.of(RecordedExploration.now(lowered, (variant,)))


def recorded_and_replayed(replay: Replay) -> list[Exploration]:
    """Returns the recorded variants with the replayed ones beside them.

    An Explorer has one variant per request. If the same JAX compiled both, the result is two explorations.
    """
    from inspector.api.exploration import Exploration

    recorded, replayed = replay.recorded, replay.replayed
    if not set(map(_request, recorded.variants)).isdisjoint(map(_request, replayed.variants)):
        return [Exploration.of(recorded), Exploration.of(replayed)]
    return [Exploration.of(dataclasses.replace(recorded, variants=(*recorded.variants, *replayed.variants)))]


def _request(variant: RecordedVariant) -> tuple[object, ...]:
    """Describes the program and the JAX that compiled it."""
    jax = variant.target.jax if variant.program is None else variant.program.versions.get("jax", "")
    return variant.options, variant.target.by(""), variant.tuning, jax
