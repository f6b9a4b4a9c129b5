"""What a program would take of another call: donated arguments, other dtypes and batches, values computed again.

Each supposition becomes a variant, so every other pane compares it with the baseline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, TypedDict

from inspector.analysis.cost.scopes import names_above, scope_of
from inspector.compilation.program import Argument
from inspector.compilation.tuning import WhatIf, leading_dimensions, listed
from inspector.errors import Unavailable
from inspector.stages.lowered import Lowered, relowering_of
from inspector.support.units import format_array
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Entry, Pane

_MOST = 400
"""Arguments, and scopes, that can be chosen from a list; of others the name can be typed."""


class SupposedArgument(TypedDict):
    """An argument, or all below a name.

    Attributes:
      path: its name.
      what: the array's dtype and shape, or how many there are below the name.
      dtype: of those that are floating-point numbers; "" where none is.
      length: of their first axes; None where these differ or one has none.
      donated: whether all of them are donated already.
    """

    path: str
    what: str
    dtype: str
    length: int | None
    donated: bool


class SharedDimension(TypedDict):
    """Arrays with the same leading dimension.

    Attributes:
      what: their names, for a list.
      paths: of all of them.
    """

    length: int
    what: str
    paths: list[str]


class Suppositions(TypedDict):
    """What can be supposed of a program's call.

    Attributes:
      shared: leading dimensions of several arrays, those of most arguments first.
      scopes: name scopes that a forward and a backward pass have.
      note: why nothing can be; "" where something can.
    """

    type: Literal["suppositions"]
    arguments: list[SupposedArgument]
    shared: list[SharedDimension]
    scopes: list[str]
    note: str


class Supposed(TypedDict):
    """The reply to `SupposeRequest` number `id`: the new variant, or what is wrong."""

    type: Literal["supposed"]
    id: int
    variant: int | None
    error: messages.Error | None


class SupposeRequest(TypedDict):
    """Lower the program of another call, and compile that as a variant.

    Attributes:
      id: numbers the request; late replies are dropped.
      variant: whose call, options and target it is else.
      donate, dtype, batch, rematerialize: as of `Lowered.what_if`.
    """

    type: Literal["suppose"]
    id: int
    variant: int
    donate: list[str]
    dtype: dict[str, str]
    batch: dict[str, int]
    rematerialize: list[str]


class WhatIfPane(Pane):
    """See the module."""

    def lowered(self, lowered: Lowered, variant: int | None) -> Iterable[Entry]:
        """What can be chosen; the same for all variants."""
        return [] if variant is not None else [suppositions(lowered)]

    def answer(self, request: SupposeRequest) -> None:
        """A variant like another one, of such a call. Lowering runs user code."""
        self.context.later(lambda: self._suppose(request))

    def _suppose(self, request: SupposeRequest) -> None:
        reply = Supposed(type="supposed", id=request["id"], variant=None, error=None)
        try:
            variant = self.context.variant(request["variant"])
            given: Any = {name: request[name] for name in ("donate", "dtype", "batch", "rematerialize")}
            what_if = variant.tuning.what_if.merge(WhatIf.of(**given))
            tuning = dataclasses.replace(variant.tuning, what_if=what_if)
            reply["variant"] = self.context.tune(variant.options, variant.target, tuning).number
        except Exception as error:  # user code ran: whatever it is, it belongs beside what was asked
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)


def suppositions(lowered: Lowered) -> Suppositions:
    """What can be supposed of a program's call."""
    if relowering_of(lowered) is None:
        note = "The program was given without its function, so it cannot be lowered for another call."
        return Suppositions(type="suppositions", arguments=[], shared=[], scopes=[], note=note)
    below: dict[str, list[Argument]] = {}
    for argument in lowered.inputs:
        if argument.weak_type and not argument.shape:
            continue  # a number of Python's
        for name in names_above(argument.path):
            below.setdefault(name, []).append(argument)
    # What holds a single array is that array.
    names = [name for name, found in below.items() if len(found) > 1 or name == found[0].path]
    return Suppositions(
        type="suppositions",
        arguments=[_argument(name, below[name]) for name in names[:_MOST]],
        shared=_shared(lowered.inputs),
        scopes=_scopes(lowered)[:_MOST],
        note="",
    )


def _shared(arguments: Iterable[Argument]) -> list[SharedDimension]:
    """A batch is the leading dimension of several arguments; that of parameters alone is the layers or a width."""
    found = leading_dimensions((a.path, a.shape) for a in arguments)
    groups = [(length, paths) for length, paths in found.items() if len(paths) > 1]
    groups.sort(key=lambda group: -len({names_above(path)[0] for path in group[1]}))
    return [SharedDimension(length=length, what=listed(paths), paths=paths) for length, paths in groups]


def _argument(name: str, found: list[Argument]) -> SupposedArgument:
    dtypes = {a.dtype for a in found if a.dtype.startswith(("float", "bfloat"))}
    lengths = {a.shape[0] if a.shape else None for a in found}
    return SupposedArgument(
        path=name,
        what=format_array(found[0].dtype, found[0].shape) if len(found) == 1 else f"{len(found)} arrays",
        dtype=" and ".join(sorted(dtypes)),
        length=lengths.pop() if len(lengths) == 1 else None,
        donated=all(a.donated for a in found),
    )


def _scopes(lowered: Lowered) -> list[str]:
    """Those that forward and backward operations have, and that no loop hides."""
    if isinstance(lowered.jaxpr_listing, Unavailable):
        return []
    found: dict[str, set[str]] = {"forward": set(), "backward": set()}
    order: dict[str, None] = {}
    for origin in {o.op_name: o for entry in lowered.jaxpr_listing.origins for o in entry}.values():
        scope = scope_of(origin.op_name)
        if scope.phase in found and not _HIDDEN & {*origin.op_name.split("/")}:
            names = ["/".join(scope.path[:end]) for end in range(1, len(scope.path) + 1)]
            order |= dict.fromkeys(names)
            found[scope.phase].update(names)
    return [name for name in order if name in found["forward"] & found["backward"]]


_HIDDEN = frozenset({"while", "cond", "body", "custom_vjp_call", "custom_jvp_call", "shard_map"})
