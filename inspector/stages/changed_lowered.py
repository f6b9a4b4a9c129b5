"""`changed_lowered`: a lowered program whose StableHLO was changed, with texts of the changed module."""

from __future__ import annotations

from inspector.compilation.program import Program
from inspector.errors import Unavailable
from inspector.hlo.mlir_text import read_located_text
from inspector.stages.lowered import Lowered
from inspector.support import deferred

_NO_JAXPR = Unavailable("the StableHLO was changed after tracing", "see the jaxpr of the baseline")


def changed_lowered(lowered: Lowered, program: Program) -> Lowered:
    """Returns a lowered program with another module, such as `Proof.compiled.program`. It cannot be lowered again.

    Args:
      lowered: the program before the change.
      program: the changed program.
    """
    from inspector._jax.modules import module_contents

    forms = module_contents.forms(program.module)
    return deferred.defer(
        Lowered,
        {
            "source": lambda _: lowered.source,
            "stablehlo_listing": lambda _: read_located_text(forms.located, lowered.root),
            "hlo": lambda _: forms.hlo,
            "hlo_proto": lambda _: forms.hlo_proto,
        },
        program=program,
        jaxpr_listing=_NO_JAXPR,
        root=lowered.root,
        out_shape=lowered.out_shape,
        kernels=lowered.kernels,
        notes=lowered.notes,
    )
