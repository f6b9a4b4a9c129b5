"""The What if pane: the program of a different call, with donations, other dtypes, shapes and checkpoints, rematerialization.

Each supposition becomes a variant, so every other pane compares it with the baseline.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Literal, TypedDict

from inspector.analysis.cost.scopes import names_above, scope_of
from inspector.compilation.program import Argument
from inspector.compilation.what_if import CHECKPOINTS, WhatIf, equal_lengths, leading_dimensions, listed
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.source import phases
from inspector.stages.lowered import Lowered, relowering_of
from inspector.support.segments import segment_length
from inspector.support.units import format_array
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Entry, Pane

_MOST = 400
"""Number of arguments, and of scopes, that can be chosen from a list; others can be typed by name."""


class SupposedArgument(TypedDict):
    """An argument, or all arguments below a name.

    Attributes:
      path: name of the argument.
      what: dtype and shape of the array, or the number of arrays below the name.
      dtype: dtypes of the floating-point arrays; "" if there are none.
      length: length of the first dimension; None if the arrays differ or one has no dimension.
      shape: the lengths of an array's dimensions; None for several arrays, and for one without dimensions. Older recordings lack it.
      donated: whether all of them are donated already.
    """

    path: str
    what: str
    dtype: str
    length: int | None
    shape: list[int] | None
    donated: bool


class SharedDimension(TypedDict):
    """Arrays with the same leading dimension.

    Attributes:
      what: their names as a short list.
      paths: names of all of them.
    """

    length: int
    what: str
    paths: list[str]


class EqualLength(TypedDict):
    """A length that several dimensions have.

    Attributes:
      what: the names of their arrays as a short list.
    """

    length: int
    what: str


class Suppositions(TypedDict):
    """The possible suppositions about a program's call.

    Attributes:
      shared: leading dimensions of several arrays, those of most arguments first.
      lengths: lengths of several dimensions, those of most dimensions first. Older recordings lack them.
      scopes: name scopes that both the forward and the backward pass contain.
      checkpoints: the changes of checkpoints that apply to a program with a backward pass, with their names on screen. Older
        recordings lack them.
      note: the reason why there are none; "" if there are some.
    """

    type: Literal["suppositions"]
    arguments: list[SupposedArgument]
    shared: list[SharedDimension]
    lengths: list[EqualLength]
    scopes: list[str]
    checkpoints: dict[str, str]
    note: str


class Supposed(TypedDict):
    """The reply to `SupposeRequest` number `id`: the new variant, or an error."""

    type: Literal["supposed"]
    id: int
    variant: int | None
    error: messages.Error | None


class SupposeRequest(TypedDict):
    """Lowers the program for a different call, and compiles it as a variant.

    Attributes:
      id: number of the request; late replies are dropped.
      variant: the variant whose call, options and target are the starting point.
      donate, dtype, batch, rematerialize, checkpoint: as in `Lowered.what_if`.
      shape: the lengths of all dimensions by argument; or one new length by the present one, in digits.
    """

    type: Literal["suppose"]
    id: int
    variant: int
    donate: list[str]
    dtype: dict[str, str]
    batch: dict[str, int]
    shape: dict[str, list[int]]
    rematerialize: list[str]
    checkpoint: str


class WhatIfPane(Pane):
    """Lists the possible suppositions and starts variants with them."""

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """Returns the possible suppositions, which all variants share."""
        return [] if variant is not None else [suppositions(lowered)]

    def answer(self, request: SupposeRequest) -> None:
        """Starts a variant for the changed call, on the Explorer's thread, as lowering runs user code."""
        self.context.later(lambda: self._suppose(request))

    def _suppose(self, request: SupposeRequest) -> None:
        reply = Supposed(type="supposed", id=request["id"], variant=None, error=None)
        try:
            variant = self.context.variant(request["variant"])
            changes: Any = {name: request[name] for name in ("donate", "dtype", "batch", "rematerialize", "checkpoint")}
            shape = {
                int(k) if k.isdigit() else k: new[0] if k.isdigit() else new for k, new in request["shape"].items()
            }
            if variant.lowered is None:
                raise ParameterError(f"Variant {variant.label} is not lowered yet. Wait until it is.")
            arrays = [(each.path, each.shape) for each in variant.lowered.inputs]
            what_if = variant.tuning.what_if.merge(WhatIf.of(**changes, shape=shape, arrays=arrays))
            tuning = dataclasses.replace(variant.tuning, what_if=what_if)
            reply["variant"] = self.context.tune(variant.options, variant.target, tuning).number
        except Exception as error:  # user code can raise anything; shown next to the request
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)


def suppositions(lowered: Lowered) -> Suppositions:
    """Returns the possible suppositions about a program's call."""
    if relowering_of(lowered) is None:
        note = "The program has no Python function, so it cannot be lowered for a different call."
        return Suppositions(
            type="suppositions", arguments=[], shared=[], lengths=[], scopes=[], checkpoints={}, note=note
        )
    below: dict[str, list[Argument]] = {}
    for argument in lowered.inputs:
        if argument.weak_type and not argument.shape:
            continue  # a Python number
        for name in names_above(argument.path):
            below.setdefault(name, []).append(argument)
    # A name above a single array stands for that array, so only the array is listed.
    names = [name for name, arrays in below.items() if len(arrays) > 1 or name == arrays[0].path]
    return Suppositions(
        type="suppositions",
        arguments=[_argument(name, below[name]) for name in names[:_MOST]],
        shared=_shared(lowered.inputs),
        lengths=_equal_lengths(lowered.inputs),
        scopes=_scopes(lowered)[:_MOST],
        checkpoints=_checkpoints(lowered),
        note="",
    )


def _shared(arguments: Iterable[Argument]) -> list[SharedDimension]:
    """Returns shared leading dimensions. Those of several arguments may be a batch; those of parameters alone are layers or a width."""
    dimensions = leading_dimensions((a.path, a.shape) for a in arguments)
    groups = [(length, paths) for length, paths in dimensions.items() if len(paths) > 1]
    groups.sort(key=lambda group: -len({names_above(path)[0] for path in group[1]}))
    return [SharedDimension(length=length, what=listed(paths), paths=paths) for length, paths in groups]


def _equal_lengths(arguments: Iterable[Argument]) -> list[EqualLength]:
    """Returns the lengths that several dimensions have."""
    found = equal_lengths((a.path, a.shape) for a in arguments)
    groups = sorted(
        ((length, places) for length, places in found.items() if len(places) > 1), key=lambda each: -len(each[1])
    )
    named = [(length, [*dict.fromkeys(path for path, _ in places)]) for length, places in groups]
    return [EqualLength(length=length, what=listed(paths)) for length, paths in named]


def _argument(name: str, arrays: list[Argument]) -> SupposedArgument:
    dtypes = {a.dtype for a in arrays if a.dtype.startswith(("float", "bfloat"))}
    lengths = {a.shape[0] if a.shape else None for a in arrays}
    return SupposedArgument(
        path=name,
        what=format_array(arrays[0].dtype, arrays[0].shape) if len(arrays) == 1 else f"{len(arrays)} arrays",
        dtype=" and ".join(sorted(dtypes)),
        length=lengths.pop() if len(lengths) == 1 else None,
        shape=[*arrays[0].shape] if len(arrays) == 1 and arrays[0].shape else None,
        donated=all(a.donated for a in arrays),
    )


def _scopes(lowered: Lowered) -> list[str]:
    """Returns the name scopes that both forward and backward operations have and that no loop hides."""
    if isinstance(lowered.jaxpr_listing, Unavailable):
        return []
    by_phase: dict[str, set[str]] = {"forward": set(), "backward": set()}
    order: dict[str, None] = {}
    for origin in {o.op_name: o for entry in lowered.jaxpr_listing.origins for o in entry}.values():
        scope = scope_of(origin.op_name)
        if scope.phase in by_phase and not _HIDDEN & {*origin.op_name.split("/")}:
            names = ["/".join(scope.path[:end]) for end in range(1, len(scope.path) + 1)]
            order |= dict.fromkeys(names)
            by_phase[scope.phase].update(names)
    return [name for name in order if name in by_phase["forward"] & by_phase["backward"]]


def _checkpoints(lowered: Lowered) -> dict[str, str]:
    """Returns the changes of checkpoints that a program has a place for: a differentiated loop, or a checkpoint."""
    listing = lowered.jaxpr_listing
    if isinstance(listing, Unavailable) or not any(
        "backward" in phases(o.op_name) for each in listing.origins for o in each
    ):
        return {}
    has_checkpoints = "remat2[" in listing.text or "checkpoint[" in listing.text
    lengths = [int(length) for length in _LENGTH.findall(listing.text)]
    has_place = {"loops": bool(lengths), "segments": any(segment_length(length) > 1 for length in lengths)}
    return {name: text for name, text in CHECKPOINTS.items() if has_place.get(name, has_checkpoints)}


_LENGTH = re.compile(r"\blength=(\d+)")  # of a `jax.lax.scan`
_HIDDEN = frozenset({"while", "cond", "body", "custom_vjp_call", "custom_jvp_call", "shard_map"})
