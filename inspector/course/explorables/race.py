"""`inspector.race`: the times of the algorithms for a collective over the size of the array, on three networks."""

from __future__ import annotations

import html

from inspector.analysis.collectives.exchanges.links import Links
from inspector.analysis.collectives.exchanges.switch import Switch
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.course.explorables.networks import network_message
from inspector.errors import ParameterError
from inspector.support.notebook import short
from inspector.support.units import format_bytes
from inspector.widgets.explorables.explorable import Explorable
from inspector.widgets.explorables.messages import RaceMessage, RaceTable

_OPCODES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_TORI = {4: (2, 2), 8: (4, 2), 16: (4, 4), 32: (8, 4)}
_SMALLEST, _LARGEST = 1 << 8, 1 << 30


def race(opcode: str = "all-reduce", members: int = 16) -> Explorable:
    """Returns a race of the algorithms for a collective: predict at which size another one becomes the fastest.

    The networks are a ring and a torus with the published speed of TPU v5e links, and a switch with that of H100 GPUs. The
    reader can change speed and latency.

    Args:
      opcode: the collective that is shown first: "all-reduce", "all-gather", "reduce-scatter" or "all-to-all".
      members: number of devices: 4, 8, 16 or 32.

    Raises:
      ParameterError: another collective or number.
    """
    if opcode not in _OPCODES:
        raise ParameterError(f"Got the collective {short(opcode)}; expected one of {', '.join(_OPCODES)}.")
    if members not in _TORI:
        raise ParameterError(f"Got members={short(members)}; expected one of {', '.join(map(str, _TORI))}.")
    ring, switch = Links.published("tpu:v5e", wraps=True), Switch.published("gpu:h100:8")
    shape = _TORI[members]
    torus = Torus(shape, (True, True), ring.bytes_per_s, ring.latency_s)
    host = Switch(members, switch.bytes_per_s, switch.latency_s, switch.reduces)
    tables = [
        RaceTable(
            opcode=each,
            networks=[
                network_message("ring", each, members, ring, "published for tpu:v5e"),
                network_message(f"torus {shape[0]}x{shape[1]}", each, members, torus, "published for tpu:v5e"),
                network_message("switch", each, members, host, "published for gpu:h100"),
            ],
        )
        for each in _OPCODES
    ]
    content = RaceMessage(
        type="race",
        opcode=opcode,
        members=members,
        smallest_bytes=_SMALLEST,
        largest_bytes=_LARGEST,
        tables=tables,
    )
    return Explorable("race", f"Race of algorithms among {members} devices", content, _form(content))


def _form(content: RaceMessage) -> str:
    """Returns the times of the collective that is shown first, for pages without scripts."""
    sizes = (1 << 10, 1 << 20, 1 << 30)
    (table,) = [each for each in content["tables"] if each["opcode"] == content["opcode"]]
    rows = "".join(
        f"<tr><td>{html.escape(network['name'])}</td><td>{html.escape(cost['algorithm'])}</td>"
        + "".join(
            f"<td>{1e6 * (cost['hops'] * network['latency_s'] + cost['busiest'] * size / network['bytes_per_s']):.4g} µs</td>"
            for size in sizes
        )
        + "</tr>"
        for network in table["networks"]
        for cost in network["costs"]
    )
    heads = "".join(f"<th>{head}</th>" for head in ("links", "algorithm", *map(format_bytes, sizes)))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
