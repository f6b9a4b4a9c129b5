"""XLA's HLO cost analysis of a module in hand, by the CPU's client: it knows every platform's HLO."""

from __future__ import annotations

import jax
from jaxlib import _hlo, _jax  # type: ignore[attr-defined]

_NOT_A_COST = "utilization"


def count(module: bytes) -> dict[str, float] | str:
    """Operations and bytes of a module, by XLA's names, or what XLA says against it.

    A malformed module can abort the process.

    Args:
      module: a serialized `xla.HloModuleProto`.

    Returns:
      `flops`, `transcendentals`, `bytes accessed`, and the bytes of each operand and of the result
      (`bytes accessed0{}`, `bytes accessedout{1}`); what is zero may be left out.
    """
    client = jax.devices("cpu")[0].client
    try:
        analysis = _jax.hlo_module_cost_analysis(client, _hlo.HloModule.from_serialized_hlo_module_proto(module))
    except Exception as e:  # XLA's errors have no common base
        return str(e).partition("\n")[0]
    return {name: float(value) for name, value in analysis.items() if not name.startswith(_NOT_A_COST)}
