"""Lower bounds for a collective: the bytes that one device must send, and the time for them over all links of its chip.

The bytes are those of the best known algorithm for each operation (Thakur, Rabenseifner, Gropp, "Optimization of
collective communication operations in MPICH", 2005). With n devices, each sends all but 1/n of the buffer, and twice
that for an all-reduce unless the switches reduce. Latency is not counted. The time assumes that all links of a chip
are used, although a collective along one axis of a torus uses only some of them.
"""

from __future__ import annotations

import dataclasses

from inspector.analysis.collectives.collective import Collective
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.platforms import Peak


@dataclasses.dataclass(frozen=True, slots=True)
class Communication:
    """Lower bounds for one execution of a collective on one device.

    Attributes:
      link_bytes: bytes that the device sends; `AtLeast` if the amount is known only at run time.
      least_s: estimated time in seconds; `AtLeast` if a link of unknown speed is involved.
    """

    link_bytes: float
    least_s: float


def communication(collective: Collective, peak: Peak | Unavailable) -> Communication:
    """Returns the bytes and the time that one execution of a collective takes at least on one device."""
    sent = sent_bytes(collective, adds_on_the_way=not isinstance(peak, Unavailable) and peak.switches_reduce)
    if not sent:
        return Communication(sent, sent)
    speed = peak if isinstance(peak, Unavailable) else peak.interconnect_bytes_per_s
    if isinstance(speed, Unavailable) or isinstance(peak, Unavailable):
        return Communication(
            sent, AtLeast(0.0, [Missing(collective.name, "collective", "over links of unknown speed")])
        )
    seconds = sent / (speed / 2)  # the published speed is the sum of both directions
    if collective.who.leaves(peak.linked_devices):
        seconds = AtLeast(seconds, [Missing(collective.name, "collective", "between hosts, whose links are unknown")])
    return Communication(sent, seconds)


def sent_bytes(collective: Collective, *, adds_on_the_way: bool = False) -> float:
    """Returns the bytes that one device sends at least, whatever the algorithm; `AtLeast` if known only at run time.

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
