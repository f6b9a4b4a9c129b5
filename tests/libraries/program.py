"""`Program`: a call as a user of a library writes it, and what `explore` is to make of it.

Three things are checked, each against the library without inspector:

- explored: `explore` opens it, with source, jaxpr, HLO, optimized HLO and findings, and operations that come from the
  line that the program names;
- HLO equal: the optimized HLO is the bare compile's;
- run equal: what Run computes is what the call returns.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import inspector

if TYPE_CHECKING:
    from inspector.hlo.listing import Listing
    from inspector.widgets.explorer import Explorer

WAIT_S = 120


@dataclasses.dataclass(frozen=True)
class Program:
    """One call.

    Attributes:
      name: what it is, in a few words.
      function: what is called.
      args: its positional arguments.
      kwargs: its keyword arguments.
      line: a piece of the one line of the library's file here that operations must come from; "" where
        the user writes none of the program's lines.
      jit: how a user would jit it (`static_argnums`, `donate_argnums`), for a function that is not jitted.
      bare: lowers it without inspector; None for the function's own `lower`, or `jax.jit`'s.
      plain: calls it without inspector and gives all that the program computes, where that is more than
        the call returns, such as state that changes in place; None for the call itself.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    line: str = ""
    jit: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    bare: Callable[[], Any] | None = None
    plain: Callable[[], Any] | None = None

    def bare_hlo(self) -> str:
        """The optimized HLO of a compile that inspector has no part in."""
        if self.bare is not None:
            lowered = self.bare()
        else:
            jitted = self.function if hasattr(self.function, "lower") else jax.jit(self.function, **self.jit)
            lowered = jitted.lower(*self.args, **self.kwargs)
        compiled = lowered.compile()
        # Equinox wraps JAX's compiled object into its own.
        text: str = getattr(compiled, "compiled", compiled).as_text()
        return text

    def plain_outputs(self) -> list[np.ndarray]:
        """The arrays that the call gives; it may donate its arguments, so nothing comes after it."""
        result = self.plain() if self.plain is not None else self.function(*self.args, **self.kwargs)
        return arrays_of(result)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a program: "" for each check that holds, else the failure."""

    explored: str
    hlo_equal: str
    run_equal: str

    @property
    def failures(self) -> list[str]:
        """Returns the failed checks, one line each."""
        named = dataclasses.asdict(self)
        return [f"{name.replace('_', ' ')}: {said}" for name, said in named.items() if said]


def outcome(program: Program, file: str) -> Outcome:
    """Explores a program and compares.

    Args:
      program: what to explore.
      file: of the library's programs, where `program.line` stands.
    """
    try:
        explorer = inspector.explore(program.function, *program.args, **program.jit, **program.kwargs)
    except Exception as error:  # the table is to say so, whatever it is
        said = _said(error)
        return Outcome(said, said, said)
    try:
        return Outcome(
            _try(lambda: _explored(explorer, program, file)),
            _try(lambda: _hlo_equal(explorer, program)),
            _try(lambda: _run_equal(explorer, program)),
        )
    finally:
        explorer.close()


def _try(check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception as error:
        return _said(error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


# ---------------------------------------------------------------- explored


def _explored(explorer: Explorer, program: Program, file: str) -> str:
    explorer.wait(WAIT_S)
    lowered = explorer.lowered
    listings = {"source": lowered.source, "jaxpr": lowered.jaxpr_listing, "StableHLO": lowered.stablehlo_listing}
    for name, listing in listings.items():
        if not getattr(listing, "text", ""):
            return f"{name}: {listing}"
    if not lowered.hlo:
        return "no HLO"
    if not explorer.baseline.compiled.hlo:
        return "no optimized HLO"
    if unknown := explorer.findings().unknown:
        return f"findings: not looked for {unknown[0]}"
    if not program.line:
        return ""
    number = line_number(file, program.line)
    if program.line not in lowered.source.text:
        return f"the source pane does not show {program.line!r}"
    for name in ("jaxpr", "StableHLO"):
        if (file, number) not in _places(listings[name]):
            return f"nothing in the {name} comes from line {number}, {program.line!r}"
    return ""


def line_number(file: str, piece: str) -> int:
    """The number, from 1, of the one line of a file that has a piece of text, entries that name it left out.

    Raises:
      ValueError: there is none, or more than one.
    """
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    found = [n for n, line in enumerate(lines, 1) if piece in line and "line=" not in line]
    if len(found) != 1:
        raise ValueError(f"{piece!r} stands on the lines {found} of {file}, expected one.")
    return found[0]


def _places(listing: Listing) -> set[tuple[str, int]]:
    return {(f.file, f.line) for entry in listing.origins for origin in entry for f in origin.frames}


# ---------------------------------------------------------------- HLO equal

_QUOTED = r'"(?:[^"\\]|\\.)*"'
# Where an instruction was written: the bare compile has another call line and stack than explore's.
_METADATA = re.compile(rf', metadata=\{{(?:[^{{}}"]|{_QUOTED})*\}}')
# The tables that metadata refers to, from JAX 0.12 on, at the head of a module.
_TABLES = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*\n?", re.MULTILINE)
# A host callback is a number or an address that its process hands out anew with each lowering.
_CALLBACK = re.compile(r"\{index = \d+ : ui64\}|callback=\d+|backend_config=\"\d{6,}\"")


def without_places(hlo: str) -> str:
    """HLO without what legitimately differs between two lowerings of one program."""
    return _CALLBACK.sub("{callback}", _TABLES.sub("", _METADATA.sub("", hlo)))


def _hlo_equal(explorer: Explorer, program: Program) -> str:
    ours = without_places(explorer.baseline.compiled.hlo).splitlines()
    bare = without_places(program.bare_hlo()).splitlines()
    if ours == bare:
        return ""
    pairs = zip(ours, bare, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(bare)))
    return f"{len(ours)} and {len(bare)} lines, first difference: {ours[at : at + 1]} and {bare[at : at + 1]}"


# ---------------------------------------------------------------- run equal


def arrays_of(tree: Any) -> list[np.ndarray]:
    """The arrays of a pytree; random keys as their data; what is no array left out."""
    arrays = [
        leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, (jax.Array, np.ndarray, np.generic, float, int))
    ]
    return [np.asarray(jax.random.key_data(a) if _is_key(a) else a) for a in arrays]


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _run_equal(explorer: Explorer, program: Program) -> str:
    # What the Run button does.
    run = explorer._compiles.work.run(explorer.baseline.compiled, 1).result()
    made = [given.argument.path for given in run.inputs if given.made]
    if made:
        return f"these inputs were made, not the user's: {', '.join(made)}"
    ours = list(run.outputs) if program.plain is not None else arrays_of(run.result)
    jitted = hasattr(program.function, "lower")
    return difference(ours, program.plain_outputs(), 0.0 if jitted else _EAGER_ROUNDING)


# A function that nobody jits is called one operation after the other, so XLA does not contract its arithmetic.
_EAGER_ROUNDING = 1e-5


def difference(ours: Sequence[np.ndarray], plain: Sequence[np.ndarray], tolerance: float = 0.0) -> str:
    """Returns the differences between two lists of arrays, or "".

    Args:
      ours: from Run.
      plain: from the call.
      tolerance: of floating-point numbers, relative to the largest; 0 for equality to the last bit. NaN equals NaN.
    """
    if len(ours) != len(plain):
        return f"{len(ours)} arrays, the call gives {len(plain)}"
    for index, (a, b) in enumerate(zip(ours, plain, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {index} is {a.dtype}{list(a.shape)}, the call gives {b.dtype}{list(b.shape)}"
        inexact = jax.dtypes.issubdtype(a.dtype, np.inexact)
        if np.array_equal(a, b, equal_nan=inexact):
            continue
        far = np.max(np.abs(a - b)) if inexact else np.inf
        if not far <= tolerance * np.max(np.abs(b)):
            return f"output {index} differs by {far}"
    return ""
