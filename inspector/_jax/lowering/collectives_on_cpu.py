"""CPU implementations of collectives that JAX lowers for GPUs only, built from collectives that CPUs have.

The values on every device are the same as those of the original collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from inspector._jax.values import UserValue

Groups = Sequence[Sequence[int]] | None


def broadcast(operand: UserValue, *, axis_name: Any, source: int) -> UserValue:
    """`jax.lax.pbroadcast`: returns the operand of the member at position `source`."""
    return jax.lax.all_gather(operand, axis_name)[source]


def ragged_all_to_all(
    operand: UserValue, output: UserValue, input_offsets: UserValue, send_sizes: UserValue, output_offsets: UserValue,
    recv_sizes: UserValue, *, axis_name: Any, axis_index_groups: Groups = None, **_: Any,
) -> UserValue:  # fmt: skip
    """`jax.lax.ragged_all_to_all`: collects slices of all members' operands, each at the place that its sender names."""
    del recv_sizes  # equal to the send sizes of the senders
    here = _position(axis_name, axis_index_groups)

    def gathered(value: UserValue) -> UserValue:
        return jax.lax.all_gather(value, axis_name, axis_index_groups=axis_index_groups)

    operands = gathered(operand)
    begins, sizes, ends = (
        jax.lax.dynamic_index_in_dim(gathered(of_members), here, axis=1, keepdims=False)
        for of_members in (input_offsets, send_sizes, output_offsets)
    )
    rows = jnp.arange(operand.shape[0])
    for sender in range(operands.shape[0]):
        sent = rows < sizes[sender]
        taken = jnp.where(sent, begins[sender] + rows, 0)
        placed = jnp.where(sent, ends[sender] + rows, output.shape[0])
        output = output.at[placed].set(operands[sender][taken], mode="drop")
    return output


def _position(axis_name: Any, groups: Groups) -> UserValue:
    """Returns the position of this device in its group."""
    index = jax.lax.axis_index(axis_name)
    if groups is None:
        return index
    positions = {member: position for group in groups for position, member in enumerate(group)}
    return jnp.asarray([positions[member] for member in range(len(positions))])[index]


ON_CPU: Mapping[str, Callable[..., UserValue]] = {"pbroadcast": broadcast, "ragged_all_to_all": ragged_all_to_all}
"""CPU implementations by the primitive's name."""
