"""`inspector.sharding_game`: shardings of a product of arrays, judged by the compiler."""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from inspector.analysis.collectives.lower_bound import sent_bytes
from inspector.errors import ParameterError, Unavailable
from inspector.lowering.lower import lower
from inspector.support.notebook import short
from inspector.support.units import format_bytes
from inspector.widgets import messages
from inspector.widgets.explorables.explorable import Explorable
from inspector.widgets.explorables.messages import GameMessage, Judged, JudgedCollective

_EINSUM = re.compile(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]+)")
_MOST_DEVICES = 16
_MOST_FLOPS = 1 << 40
_DTYPE = jnp.float32

Axes = list[list[str]]
"""The mesh axes of each dimension."""


def sharding_game(
    einsum: str = "ij,jk->ik",
    sizes: Mapping[str, int] | None = None,
    axes: Mapping[str, int] | None = None,
    *,
    memory_bytes: int | None = None,
) -> Explorable:
    """Returns a game: drag mesh axes onto the dimensions of a product. Fewest bytes sent within the memory wins.

    The compiler for virtual CPU devices judges: it lists the collectives that it inserts, and the memory of a device. Pages
    compute the memory and the bytes by the rules of sharded products (jax-ml.github.io/scaling-book/sharding).

    Args:
      einsum: a product of two operands, such as "ij,jk->ik". Letters that are not in the result are summed over.
      sizes: size of each letter's dimension; None for 1,024 and 4,096 in turn.
      axes: axis sizes of the mesh by name; None for x = 4, y = 2.
      memory_bytes: memory of a device, including temporary memory; None for a little less than any sharding without messages needs.

    Raises:
      ParameterError: an einsum of another form, or invalid sizes or axes.
    """
    text: object = einsum
    found = _EINSUM.fullmatch(text.replace(" ", "")) if isinstance(text, str) else None
    if found is None or any(len(set(part)) < len(part) for part in found.groups()):
        raise ParameterError(f"Got einsum={short(einsum)}; expected a product of two operands, such as 'ij,jk->ik'.")
    first, second, result = found.groups()
    letters = list(dict.fromkeys(first + second))
    if set(result) - set(letters):
        raise ParameterError(f"Got einsum={short(einsum)}; the letters of the result must be in the operands.")
    known = _positive(
        "sizes", {letter: (1024, 4096)[i % 2] for i, letter in enumerate(letters)} if sizes is None else sizes
    )
    if set(known) != set(letters):
        raise ParameterError(f"Got sizes={short(sizes)}; expected a size for each of {', '.join(letters)}.")
    mesh = _positive("axes", {"x": 4, "y": 2} if axes is None else axes)
    if not 1 < math.prod(mesh.values()) <= _MOST_DEVICES or len(mesh) > 3:
        raise ParameterError(f"Got axes={short(axes)}; expected 1 to 3 axes with 2 to {_MOST_DEVICES} devices in all.")
    itemsize = jnp.dtype(_DTYPE).itemsize
    least = _least_without_messages(known, mesh, (first, second, result), itemsize)
    memory: object = least * 49 // 50 if memory_bytes is None else memory_bytes
    if not isinstance(memory, int) or memory < 1:
        raise ParameterError(f"Got memory_bytes={short(memory_bytes)}; expected a number of bytes, 1 or more.")
    content = GameMessage(
        type="sharding_game",
        operands=[first, second],
        result=result,
        sizes=known,
        dtype=str(jnp.dtype(_DTYPE)),
        itemsize=itemsize,
        axis_names=list(mesh),
        axis_sizes=list(mesh.values()),
        memory_bytes=memory,
    )
    title = (
        f"Sharding game: {first},{second}->{result} on {', '.join(f'{name} = {size}' for name, size in mesh.items())}"
    )
    return Explorable("sharding_game", title, content, _form(content), lambda request: _judge(content, request))


def _least_without_messages(
    sizes: Mapping[str, int], mesh: Mapping[str, int], arrays: Sequence[str], itemsize: int
) -> int:
    """Returns the least bytes of a device's parts if no device sends anything: each axis shards a letter of the result."""

    def held(letters: Sequence[str]) -> int:
        parts = [
            math.prod(sizes[letter] for letter in array)
            // math.prod(count for count, letter in zip(mesh.values(), letters, strict=True) if letter in array)
            for array in arrays
        ]
        return itemsize * sum(parts)

    return min(held(letters) for letters in itertools.product(arrays[-1], repeat=len(mesh)))


def _positive(name: str, values: object) -> dict[str, int]:
    try:
        sizes = {str(key): int(size) for key, size in values.items()}  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        sizes = {}
    if not sizes or min(sizes.values()) < 1:
        raise ParameterError(f"Got {name}={short(values)}; expected sizes by name, 1 or more.")
    return sizes


def _judge(game: GameMessage, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Compiles the product with shardings and returns its collectives and memory."""
    reply = Judged(type="judged", id=0, error=None, collectives=[], sent_bytes=0.0, memory_bytes=None)
    try:
        mesh = AbstractMesh(
            tuple(game["axis_sizes"]), tuple(game["axis_names"]), axis_types=(AxisType.Auto,) * len(game["axis_names"])
        )
        target = f"cpu:{math.prod(game['axis_sizes'])}"

        def placed(letters: str, axes: Axes) -> jax.ShapeDtypeStruct:
            shape = tuple(game["sizes"][letter] for letter in letters)
            return jax.ShapeDtypeStruct(shape, _DTYPE, sharding=_sharding(mesh, letters, axes))

        operands = [placed(*each) for each in zip(game["operands"], request["operands"], strict=True)]
        out = _sharding(mesh, game["result"], request["result"])
        text = f"{','.join(game['operands'])}->{game['result']}"
        product = jax.jit(lambda *arrays: jnp.einsum(text, *arrays), out_shardings=out)
        compiled = lower(product, *operands, target=target).compile(target=target)
        for each in compiled.collectives():
            sent = sent_bytes(each)
            axes = "?" if isinstance(each.axes, Unavailable) else ", ".join(each.axes)
            operand = ", ".join(str(shape.without_layout()) for shape in each.operand_shapes)
            reply["collectives"].append(
                JudgedCollective(opcode=each.opcode, axes=axes, operand=operand, sent_bytes=float(sent))
            )
        reply["sent_bytes"] = sum(each["sent_bytes"] for each in reply["collectives"])
        memory = compiled.memory
        peak = memory if isinstance(memory, Unavailable) else memory.peak_bytes
        reply["memory_bytes"] = None if isinstance(peak, Unavailable) else int(peak)
    except Exception as error:  # shown to the user
        reply["error"] = messages.error_of(error)
    return reply


def _sharding(mesh: AbstractMesh, letters: str, axes: Sequence[Sequence[str]]) -> NamedSharding:
    used = [axis for each in axes for axis in each]
    if len(axes) != len(letters) or len(set(used)) < len(used) or set(used) - set(mesh.axis_names):
        raise ParameterError(f"Got the axes {short(axes)} for {letters}; expected each mesh axis once at most.")
    return NamedSharding(mesh, PartitionSpec(*(tuple(each) or None for each in axes)))


def _form(game: GameMessage) -> str:
    arrays = "".join(
        f"<li>{html.escape(letters)}: {' x '.join(str(game['sizes'][letter]) for letter in letters)}</li>"
        for letters in (*game["operands"], game["result"])
    )
    axes = ", ".join(
        f"{html.escape(name)} = {size}" for name, size in zip(game["axis_names"], game["axis_sizes"], strict=True)
    )
    return (
        f"<p>Shard two operands and the result over {axes}, so that devices send as few bytes as possible and hold at most"
        f" {format_bytes(game['memory_bytes'])}.</p><ul>{arrays}</ul>"
    )
