"""What a collective at least takes: the bytes that one device must send, over all its links to other chips.

The bytes are those of the best algorithm that is known for each operation (Thakur, Rabenseifner, Gropp,
"Optimization of collective communication operations in MPICH", 2005): of a buffer among n devices all but the
n-th part of it leaves a device, twice for an all-reduce, unless switches add it up. Latencies are left out, and no
operation is held to fewer than all links of a chip, though one along one axis of a torus uses only some.
"""

from __future__ import annotations

import dataclasses

from inspector.analysis.collectives.collective import Collective
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.platforms import Peak


@dataclasses.dataclass(frozen=True, slots=True)
class Communication:
    """One execution of a collective.

    Attributes:
      link_bytes: that one device at least sends; `AtLeast` where only a run tells.
      least_s: the time that this takes; `AtLeast` where it also takes a link whose speed is not known.
    """

    link_bytes: float
    least_s: float


def communication(collective: Collective, peak: Peak | Unavailable) -> Communication:
    """What one execution of a collective at least takes on one device."""
    sent = sent_bytes(collective, adds_on_the_way=not isinstance(peak, Unavailable) and peak.switches_reduce)
    if not sent:
        return Communication(sent, sent)
    speed = peak if isinstance(peak, Unavailable) else peak.interconnect_bytes_per_s
    if isinstance(speed, Unavailable) or isinstance(peak, Unavailable):
        return Communication(
            sent, AtLeast(0.0, [Missing(collective.name, "collective", "over links of unknown speed")])
        )
    seconds = sent / (speed / 2)  # published for both directions together
    if collective.who.leaves(peak.linked_devices):
        seconds = AtLeast(seconds, [Missing(collective.name, "collective", "between hosts, whose links are unknown")])
    return Communication(sent, seconds)


def sent_bytes(collective: Collective, *, adds_on_the_way: bool = False) -> float:
    """That one device at least sends, by any algorithm; `AtLeast` where only a run tells.

    Args:
      collective: any.
      adds_on_the_way: whether what passes the switches is added up there.
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
