"""`inspector.mesh_bench`: a mesh over the chips of a slice, whose groups readers predict."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.errors import ParameterError, Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.lowering.lower import lower
from inspector.support.notebook import short
from inspector.widgets import messages
from inspector.widgets.explorables.explorable import Explorable
from inspector.widgets.explorables.messages import MeshBenchMessage, MeshRun

_MOST_DEVICES = 32
_MOST_AXES = 4
_SLICES: Mapping[int, tuple[int, int]] = {2: (2, 1), 4: (2, 2), 8: (4, 2), 16: (4, 4), 32: (8, 4)}


def mesh_bench(
    axes: Mapping[str, int] | None = None,
    over: str | Sequence[str] = (),
    *,
    slice: Torus | None = None,  # noqa: A002 - the term of TPUs
) -> Explorable:
    """Returns a mesh to explore: drag axes and chips, predict the group of a device, and compare with XLA's groups.

    Args:
      axes: axis sizes by name, the last axis varying fastest; None for x = 2, y = 4.
      over: the axes that the collective uses; the first axis if there are none.
      slice: the chips; None for a slice of two axes without links around, as of a TPU v5e.

    Raises:
      ParameterError: invalid axes, or the slice has another number of chips.
    """
    sizes = _checked_axes({"x": 2, "y": 4} if axes is None else axes)
    names = [over] if isinstance(over, str) else list(over) or [next(iter(sizes))]
    if unknown := [name for name in names if name not in sizes]:
        raise ParameterError(f"Got over={short(over)}; there is no axis {unknown[0]!r}. Axes: {', '.join(sizes)}.")
    count = math.prod(sizes.values())
    chips = Torus(_SLICES.get(count, (count, 1)), (False, False)) if slice is None else slice
    if chips.device_count != count or len(chips.shape) > 2:
        raise ParameterError(f"Got a slice of {chips.text}; expected {count} chips along one or two axes.")
    content = MeshBenchMessage(
        type="mesh_bench",
        axis_names=list(sizes),
        axis_sizes=list(sizes.values()),
        over=names,
        shape=list(chips.shape),
        wraps=list(chips.wraps),
        devices=list(range(count)),
    )
    run = {"type": "run_mesh", **{name: content[name] for name in ("axis_names", "axis_sizes", "over")}}
    title = f"Mesh of {', '.join(f'{name} = {size}' for name, size in sizes.items())}"
    return Explorable("mesh_bench", title, content, _form(content), _run, [run])


def _checked_axes(axes: object) -> dict[str, int]:
    try:
        sizes = {str(name): int(size) for name, size in axes.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        raise ParameterError(f"Got axes={short(axes)}; expected sizes by name, such as {{'x': 2, 'y': 4}}.") from None
    count = math.prod(sizes.values())
    if not 1 <= len(sizes) <= _MOST_AXES or min(sizes.values()) < 1 or not 2 <= count <= _MOST_DEVICES:
        raise ParameterError(
            f"Got axes={short(axes)}; expected 1 to {_MOST_AXES} axes of 2 to {_MOST_DEVICES} devices in all."
        )
    return sizes


def _run(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sums two to the power of each id over the axes on virtual devices, and reads the groups from the optimized HLO."""
    reply = MeshRun(type="mesh_run", id=0, error=None, replica_groups="", groups=[], after=[])
    try:
        sizes = _checked_axes(dict(zip(request["axis_names"], request["axis_sizes"], strict=True)))
        over, count = tuple(request["over"]), math.prod(sizes.values())
        lowered = lower(
            lambda x: jax.lax.psum(x, over), jax.ShapeDtypeStruct((), jnp.uint32), axis_env=list(sizes.items())
        )
        compiled = lowered.compile(target=f"cpu:{count}")
        run = compiled.run(np.uint32(1) << np.arange(count, dtype=np.uint32), repeat=1)
        (collective,) = compiled.collectives()
        if isinstance(collective.participants, Unavailable):
            raise ParameterError(f"The groups are unknown: {collective.participants.reason}")
        reply["replica_groups"] = str(collective.form)
        reply["groups"] = [list(group) for group in collective.participants]
        reply["after"] = [str(int(value)) for value in np.asarray(run.outputs[0]).reshape(-1)]
    except Exception as error:  # shown to the user
        reply["error"] = messages.error_of(error)
    return reply


def _form(content: MeshBenchMessage) -> str:
    mesh = Mesh(tuple(content["axis_names"]), tuple(content["axis_sizes"]), "replica")
    rows = np.arange(mesh.size).reshape(-1, mesh.axis_sizes[-1])
    cells = "".join(f"<tr>{''.join(f'<td>{id_}</td>' for id_ in row)}</tr>" for row in rows)
    over = html.escape(", ".join(content["over"]))
    return f"<p>A collective over {over}. Each row of ids is along {html.escape(mesh.axis_names[-1])}.</p><table>{cells}</table>"
