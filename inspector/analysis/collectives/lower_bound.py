"""The bytes that a collective moves at least over the links of one device, whatever the algorithm.

They are those of the best known algorithm for each operation (Thakur, Rabenseifner, Gropp, "Optimization of collective
communication operations in MPICH", 2005). With n devices, each sends or receives all but 1/n of the buffer, and twice that
for an all-reduce unless the switches reduce. Times are estimated by `analysis/collectives/pricing/price.py`.
"""

from __future__ import annotations

from inspector.analysis.collectives.collective import Collective
from inspector.errors import AtLeast, Missing, Unavailable


def sent_bytes(collective: Collective, *, adds_on_the_way: bool = False) -> float:
    """Returns the bytes that one device sends or receives at least; `AtLeast` if known only at run time.

    Args:
      collective: any collective.
      adds_on_the_way: whether the switches reduce the data that passes through them.
    """
    members = collective.who.most_devices
    if isinstance(members, Unavailable) or collective.opcode == "ragged-all-to-all":
        return AtLeast(0.0, [Missing(collective.name, "collective", "that sends an unknown number of bytes")])
    if members < 2:
        return 0.0
    others = (members - 1) / members
    if collective.opcode == "all-reduce":
        return collective.operand_bytes * (1.0 if adds_on_the_way else 2 * others)
    if collective.opcode in ("collective-permute", "collective-broadcast"):
        return float(collective.operand_bytes)
    whole = max(collective.operand_bytes, collective.result_bytes)  # an all-gather's result, a reduce-scatter's operand
    return whole * others
