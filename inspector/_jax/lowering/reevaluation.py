"""Other evaluations of a traced program, which a lowering may make before it lowers: with a log of collectives, or widened."""

from __future__ import annotations

import contextlib
import enum
from typing import Any, TypeAlias

import jax

from inspector._jax.lowering.equation_errors import measured_call, measured_jaxpr
from inspector._jax.lowering.equation_log import EquationLog
from inspector._jax.lowering.equations import AxisEnv
from inspector._jax.lowering.observing import Logged, ObserveLimits, observed_call, observed_jaxpr
from inspector._jax.lowering.stages import Traced
from inspector._jax.lowering.widening import Narrow, widened_call, widened_jaxpr


class Width(enum.Enum):
    """Evaluations with values of 64 bits.

    Members:
      WIDE: every floating-point value is widened.
      BOTH: both widths side by side; the program returns statistics of the error of each equation instead of its results.
    """

    WIDE = "wide"
    BOTH = "both"


Reevaluation: TypeAlias = ObserveLimits | Width
Description: TypeAlias = tuple[Logged, ...] | tuple[Narrow, ...] | EquationLog
"""The description of the further results: of `ObserveLimits`, of `Width.WIDE` and of `Width.BOTH`, in this order."""


def context(how: Reevaluation | None) -> contextlib.AbstractContextManager[None]:
    """Returns the context in which the changed program is traced and lowered."""
    if not isinstance(how, Width):
        return contextlib.nullcontext()
    wide: contextlib.AbstractContextManager[None] = jax.enable_x64(True)
    return wide


def reevaluated_call(traced: Traced, how: Reevaluation) -> tuple[Traced, Description]:
    """Returns the changed program of a traced call, and the description. Called in the `context`."""
    if isinstance(how, ObserveLimits):
        return observed_call(traced, how)
    return widened_call(traced) if how is Width.WIDE else measured_call(traced)


def reevaluated_jaxpr(closed: Any, axis_env: AxisEnv, how: Reevaluation) -> tuple[Any, Description]:
    """Returns the changed closed jaxpr, whose results are a list, and the description. Called in the `context`.

    Args:
      closed: jaxpr of a program for replicas.
      axis_env: names and sizes of the axes that are bound around it.
      how: the evaluation.
    """
    if isinstance(how, ObserveLimits):
        return observed_jaxpr(closed, axis_env, how)
    return widened_jaxpr(closed, axis_env) if how is Width.WIDE else measured_jaxpr(closed, axis_env)
