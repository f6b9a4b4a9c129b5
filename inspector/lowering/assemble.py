"""The last step of every lowering: builds a `Lowered` from a module and its program. Also shared names and error mappings."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from inspector._jax.lowering.traced import JaxprFacts
from inspector._jax.modules.module_contents import Contents
from inspector.compilation.program import NamedAxes, Program
from inspector.errors import InspectorError, Unavailable, UnboundAxisError, UnsupportedError
from inspector.hlo.listing import Listing
from inspector.hlo.mlir_text import read_located_text
from inspector.hlo.source import Root
from inspector.lowering.axis_env import parse_axis_env, refuse_empty
from inspector.lowering.listings import definition, jaxpr_listing, source_listing
from inspector.lowering.pallas import Overrides
from inspector.stages.kernel import Kernel
from inspector.stages.lowered import Lowered
from inspector.support import deferred


def assemble(
    program: Program, contents: Contents, jaxpr: JaxprFacts | None, fun: Any, *,
    out_shape: Any = None, overrides: Overrides | None = None, notes: tuple[str, ...] = (),
) -> Lowered:  # fmt: skip
    """Builds a `Lowered` from a program, its module, and its jaxpr and function if known. Its texts are deferred."""
    root, forms = root_of(program, fun, contents.facts.scope), contents.forms
    kernels: tuple[Kernel, ...] = ()
    if jaxpr is not None:
        program = dataclasses.replace(program, named_axes=_named_axes(program, jaxpr))
        kernels = (overrides or Overrides()).kernels(jaxpr.kernels, root)

    def source(made: Lowered) -> Listing | Unavailable:
        listings = made.jaxpr_listing, made.stablehlo_listing
        return source_listing(fun, [listing for listing in listings if not isinstance(listing, Unavailable)])

    return deferred.defer(
        Lowered,
        {
            "source": source,
            "jaxpr_listing": lambda _: NO_JAXPR if jaxpr is None else jaxpr_listing(jaxpr, root),
            "stablehlo_listing": lambda _: read_located_text(forms.located, root),
            "hlo": lambda _: forms.hlo,
            "hlo_proto": lambda _: forms.hlo_proto,
        },
        program=program,
        root=root,
        out_shape=out_shape,
        kernels=kernels,
        notes=notes,
    )


NO_JAXPR = Unavailable("the program was given after tracing, so it has no jaxpr", "lower the function itself")
"""The jaxpr of a program that was given as StableHLO or HLO."""


def _named_axes(program: Program, jaxpr: JaxprFacts) -> tuple[NamedAxes, ...]:
    if program.mesh is None or 1 not in program.mesh.axis_sizes:
        return ()
    return tuple(NamedAxes(c.primitive, c.file, c.line, c.axes) for c in jaxpr.collectives)


def root_of(program: Program, fun: Any, scope: str) -> Root:
    """Returns the frame where a program begins.

    Args:
      program: the program.
      fun: its function, None if unknown.
      scope: the first part of its operation names, "" if unknown.
    """
    stack = traceback.walk_stack(sys._getframe())  # noqa: SLF001 - the documented way to walk one's own stack
    callers = frozenset((frame.f_code.co_filename, line) for frame, line in stack)
    file, lines = definition(fun) or ("", (0, 0))
    return Root(scope or _usual_scope(program.name), file, lines, callers)


def _usual_scope(name: str) -> str:
    """Returns the outermost scope of a module whose operations have none. Our replica lowering uses the name itself."""
    return f"jit({name.removeprefix('jit_')})" if name.startswith("jit_") else name


@contextlib.contextmanager
def mapped_errors(fun: Any, axis_env: Any) -> Iterator[None]:
    """Maps JAX's tracing errors to ours. Errors that JAX explains better keep their class and text."""
    try:
        yield
    except (ValueError, NotImplementedError) as error:
        ours = next((text for words, text in _NOT_ON_THIS_PLATFORM.items() if words in str(error)), None)
        if ours is None:
            raise
        raise UnsupportedError(f"{fun_name(fun)} {ours} JAX: {str(error).splitlines()[0]}") from error
    except ZeroDivisionError:
        refuse_empty(parse_axis_env(axis_env))
        raise
    except NameError as error:
        if isinstance(error, InspectorError) or "axis name" not in str(error):
            raise
        bound = ", ".join(repr(name) for name, _ in parse_axis_env(axis_env)) or "none"
        raise UnboundAxisError(
            f"{error} in {fun_name(fun)}. Bound axes: {bound}. Give the axis a size with"
            " axis_env=[(name, size)], or wrap the function in jax.shard_map."
        ) from error


_NO_KERNELS = (
    "calls a Pallas kernel, which compiles for a TPU or a GPU only, and was lowered for the CPU. Run its kernels in"
    " JAX's interpreter with interpret=True, or lower for the platform that they were written for: platform='tpu'"
    " (or 'gpu'), or a target such as 'tpu:v5e:1x1'."
)

# A fragment of JAX's message, and our message.
_NOT_ON_THIS_PLATFORM = {
    "Only interpret mode is supported on CPU backend": _NO_KERNELS,
    "Unsupported TPU device kind: cpu": _NO_KERNELS,  # a kernel that queries its chip
    # JAX creates Python callbacks for the attached devices, whatever platform is lowered for.
    "the platform for the specified backend": (
        "calls back into this process (jax.debug.print, io_callback, pure_callback), which a device of another"
        " platform cannot do. Remove the callbacks to lower for that platform."
    ),
    "MLIR translation rule for primitive": (
        "has an operation that JAX cannot lower for this platform. Lower for another platform, or remove the operation."
    ),
    "Compiler params for platform": (
        "calls a Pallas kernel with the compiler parameters of another platform. Lower for the platform that the"
        " kernel was written for."
    ),
}


def fun_name(fun: Any, unnamed: str = "fun") -> str:
    """Returns a function's name, for messages."""
    return str(getattr(fun, "__name__", None) or getattr(getattr(fun, "func", None), "__name__", None) or unnamed)
