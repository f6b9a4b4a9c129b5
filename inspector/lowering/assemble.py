"""The last step of every lowering: a module and its program become a `Lowered`. And names and errors that all share."""

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
    """A `Lowered` of a program, its module, and its jaxpr and function where they are known; its texts are deferred."""
    root, forms = _root(program, fun, contents.facts.scope), contents.forms
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
            "jaxpr_listing": lambda _: _NO_JAXPR if jaxpr is None else jaxpr_listing(jaxpr, root),
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


_NO_JAXPR = Unavailable("the program was given after tracing, so it has no jaxpr", "lower the function itself")


def _named_axes(program: Program, jaxpr: JaxprFacts) -> tuple[NamedAxes, ...]:
    if program.mesh is None or 1 not in program.mesh.axis_sizes:
        return ()
    return tuple(NamedAxes(c.primitive, c.file, c.line, c.axes) for c in jaxpr.collectives)


def _root(program: Program, fun: Any, scope: str) -> Root:
    stack = traceback.walk_stack(sys._getframe())  # noqa: SLF001 - the documented way to walk one's own stack
    callers = frozenset((frame.f_code.co_filename, line) for frame, line in stack)
    file, lines = definition(fun) or ("", (0, 0))
    return Root(scope or _usual_scope(program.name), file, lines, callers)


def _usual_scope(name: str) -> str:
    """Where no operation bears one. Our replica lowering puts the name itself first."""
    return f"jit({name.removeprefix('jit_')})" if name.startswith("jit_") else name


@contextlib.contextmanager
def mapped_errors(fun: Any, axis_env: Any) -> Iterator[None]:
    """Maps JAX's tracing errors to ours; those that JAX words best keep their class and text."""
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
            f"{error} in {fun_name(fun)}. Axes that are bound: {bound}. Give the axis a size with"
            " axis_env=[(name, size)], or wrap the function in jax.shard_map."
        ) from error


_NO_KERNELS = (
    "calls a Pallas kernel, which compiles for a TPU or a GPU only, and was lowered for the CPU. Let JAX's"
    " interpreter run its kernels with interpret=True, or lower it for what it was written for: platform='tpu'"
    " (or 'gpu'), a target such as 'tpu:v5e:1x1'."
)

# Words of JAX's error, and what to say instead.
_NOT_ON_THIS_PLATFORM = {
    "Only interpret mode is supported on CPU backend": _NO_KERNELS,
    "Unsupported TPU device kind: cpu": _NO_KERNELS,  # a kernel asked for its chip
    # JAX makes Python callbacks for the devices that it has, whatever platform is lowered for.
    "the platform for the specified backend": (
        "calls back into this process (jax.debug.print, io_callback, pure_callback), which a device of another"
        " platform cannot do. Leave the callbacks out to lower for that platform."
    ),
    "MLIR translation rule for primitive": (
        "has an operation that JAX cannot lower for this platform. Lower it for another one, or without the operation."
    ),
    "Compiler params for platform": (
        "calls a Pallas kernel with the compiler parameters of another platform. Lower it for the platform that it was"
        " written for."
    ),
}


def fun_name(fun: Any, unnamed: str = "fun") -> str:
    """What to call a function in a message."""
    return str(getattr(fun, "__name__", None) or getattr(getattr(fun, "func", None), "__name__", None) or unnamed)
