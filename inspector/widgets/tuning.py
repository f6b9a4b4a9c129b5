"""What a browser asks to be compiled with other compiler parameters for Pallas kernels, or with interpreted ones."""

from __future__ import annotations

import dataclasses

from inspector.compilation.options import Options
from inspector.compilation.target import Target
from inspector.hlo.pallas import Tuning
from inspector.widgets import messages
from inspector.widgets.pallas import read_values
from inspector.widgets.variants import Variant
from inspector.widgets.work import LoweredView, Work


def requested(
    request: messages.TuneRequest, variant: Variant, lowered: LoweredView, work: Work
) -> tuple[Options, Target, Tuning]:
    """Options, target and tuning of a variant like another one.

    Args:
      request: what was asked for.
      variant: the other one.
      lowered: its program.
      work: tells the fields of kernels, and the devices that a program needs.

    Raises:
      InspectorError: there is no such field, or a value is wrong.
    """
    if request["interpret"]:
        target = work.suit(lowered, Target.parse("cpu"))
        return Options(), target, dataclasses.replace(variant.tuning, interpret=True)
    kernel = lowered.kernels[request["kernel"]]
    values = read_values(work.kernel_fields(kernel, lowered.program.platform), request["values"])
    return variant.options, variant.target, variant.tuning.with_params({kernel.number: values})
