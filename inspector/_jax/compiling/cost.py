"""XLA's HLO cost analysis of a module of any platform, computed with the CPU client."""

from __future__ import annotations

import jax
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]

_NOT_A_COST = "utilization"


def count(module: bytes) -> dict[str, float] | str:
    """Returns the operations and bytes of a module under XLA's names, or XLA's error message.

    A malformed module can abort the process.

    Args:
      module: a serialized `xla.HloModuleProto`.

    Returns:
      `flops`, `transcendentals`, `bytes accessed`, and the bytes of each operand and of the result
      (`bytes accessed0{}`, `bytes accessedout{1}`); zeros may be left out.
    """
    client = jax.devices("cpu")[0].client
    try:
        analysis = _jax.hlo_module_cost_analysis(client, _hlo.HloModule.from_serialized_hlo_module_proto(module))
    except Exception as e:  # XLA's errors have no common base class
        return str(e).partition("\n")[0]
    return {name: float(value) for name, value in analysis.items() if not name.startswith(_NOT_A_COST)}
