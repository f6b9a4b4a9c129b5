"""The formulas of the scaling book and of nccl-tests beside the model of the course. `python -m tests.course.formulas` prints the table.

The book counts W as both directions of one axis' links and leaves out the factor (n - 1)/n, which is 1 for large n. It
takes the larger of latency and transfer; the model adds them. Each row states the expected quotient of both.
"""

from __future__ import annotations

import dataclasses

from inspector.analysis.collectives.exchanges.switch import Switch
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.lower_bound import sent_bytes
from inspector.analysis.collectives.pricing.price import Price, Pricing
from inspector.analysis.collectives.pricing.target_links import Network, TargetLinks
from tests.analysis.collectives.pricing.hand_cases import program

MIB = 1 << 20
V, N = 64 * MIB, 16
ONE_WAY = 45e9
W = 2 * ONE_WAY
HOP = 1e-6
BOOK, NCCL = "scaling book", "nccl-tests"
"""jax-ml.github.io/scaling-book/sharding; github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md."""
RING = Torus((N,), (True,), ONE_WAY)
PLANE = Torus((N, N), (True, True), ONE_WAY)
CUBE = Torus((4, 4, 4), (True, True, True), ONE_WAY)
LINE = Torus((4, 8), (False, False), ONE_WAY)


@dataclasses.dataclass(frozen=True)
class Row:
    """A formula.

    Attributes:
      source: its publication.
      subject: the collective and the network.
      formula: as published, in ASCII or Unicode.
      theirs: its value.
      ours: the value of the model.
      quotient: the expected `ours / theirs`.
      unit: "µs", "hops" or "V", the bytes of the whole array.
      reason: why the quotient is not 1; "" if it is.
    """

    source: str
    subject: str
    formula: str
    theirs: float
    ours: float
    quotient: float
    unit: str
    reason: str = ""


def priced(opcode: str, network: Network, count: int, members: int, whole: int = V, groups: str = "") -> Price:
    """Returns the price of a collective over consecutive ids. An all-to-all's operand is a shard of the whole array."""
    operand = whole // members if opcode == "all-to-all" else whole
    found = program(opcode, operand, groups or f"[{count // members},{members}]<=[{count}]", count, members)
    return Pricing((), TargetLinks(network)).price(found[0])


def us(opcode: str, network: Network, count: int, members: int, whole: int = V, groups: str = "") -> float:
    """Returns the estimated time in microseconds."""
    return 1e6 * priced(opcode, network, count, members, whole, groups).known_s


def least(opcode: str, members: int) -> float:
    """Returns the bytes that a device sends at least, per byte of the whole array: what nccl-tests counts."""
    found = program(
        opcode, V // members if opcode == "all-to-all" else V, f"[1,{members}]<=[{members}]", members, members
    )
    return sent_bytes(found[0]) / (V / members if opcode == "all-to-all" else V)


def rows() -> list[Row]:
    """Returns all formulas with their values."""
    own, both = (N - 1) / N, (N * N - 1) / (N * N)
    shard = "the own shard is not sent"
    quiz, small = 2048 * 8192 * 2, 256 * 256 * 2
    part = 2 * 1024 * 4096
    late = dataclasses.replace(LINE, latency_s=HOP)
    ring = dataclasses.replace(RING, latency_s=HOP)
    plane = dataclasses.replace(PLANE, latency_s=HOP)
    h100 = Switch(8, 450e9, 0.0, reduces=True)
    return [
        Row(BOOK, "all-gather, one axis of 16", "V / W", 1e6 * V / W, us("all-gather", RING, N, N), own, "µs", shard),
        Row(BOOK, "reduce-scatter", "V / W", 1e6 * V / W, us("reduce-scatter", RING, N, N), own, "µs", shard),
        Row(BOOK, "all-reduce", "2 V / W", 2e6 * V / W, us("all-reduce", RING, N, N), own, "µs", shard),
        Row(BOOK, "all-to-all", "V / (4 W)", 1e6 * V / (4 * W), us("all-to-all", RING, N, N), 1.0, "µs"),
        Row(BOOK, "all-gather, two axes of 16", "V / (2 W)", 1e6 * V / (2 * W),
            us("all-gather", PLANE, N * N, N * N), both, "µs", shard),
        Row(BOOK, "hops of an all-gather, one axis", "n / 2", N / 2, priced("all-gather", ring, N, N).hops, 1.0, "hops"),
        Row(BOOK, "hops of an all-gather, two axes", "(n + m) / 2", N,
            priced("all-gather", plane, N * N, N * N).hops, 1.0, "hops"),
        Row(BOOK, "quiz 2, first part: a line of 4", "3 V / 4 / (W / 2)", 3e6 * (quiz / 4) / ONE_WAY,
            us("all-gather", LINE, 32, 4, quiz), 1.0, "µs"),
        Row(BOOK, "quiz 2, second part: 32 KiB a hop", "3 hops of 1 µs", 3.0,
            us("all-gather", late, 32, 4, small), 1 + small * 3 / 4 / ONE_WAY / 3e-6, "µs", "the model adds the transfer"),
        Row(BOOK, "question 2.1: one of three axes", "2 B D / (Y W)", 1e6 * part / (4 * W),
            us("all-gather", CUBE, 64, 4, part // 4), 3 / 4, "µs", shard),
        Row(BOOK, "question 2.3: two of three axes", "2 B D / (2 W)", 1e6 * part / (2 * W),
            us("all-gather", CUBE, 64, 16, part), 15 / 16, "µs", shard),
        Row(BOOK, "question 2.4: all-gather over Z", "2 B D / (X Y W)", 1e6 * part / (16 * W),
            us("all-gather", CUBE, 64, 4, part // 16), 3 / 4, "µs", shard),
        Row(NCCL, "all-reduce", "2 (n − 1) / n", 2 * own, least("all-reduce", N), 1.0, "V"),
        Row(NCCL, "reduce-scatter", "(n − 1) / n", own, least("reduce-scatter", N), 1.0, "V"),
        Row(NCCL, "all-gather", "(n − 1) / n", own, least("all-gather", N), 1.0, "V"),
        Row(NCCL, "all-to-all, V of one device", "(n − 1) / n", own, least("all-to-all", N), 1.0, "V"),
        Row(NCCL, "time of an all-reduce on 8 GPUs by a ring", "(V / B) 2 (n − 1) / n", 1e6 * V / 450e9 * 2 * 7 / 8,
            us("all-reduce", dataclasses.replace(h100, reduces=False), 8, 8), 1.0, "µs"),
        Row(NCCL, "the same, added in the switches", "(V / B) 2 (n − 1) / n", 1e6 * V / 450e9 * 2 * 7 / 8,
            us("all-reduce", h100, 8, 8), 9 / 14, "µs", "each GPU sends (n + 1) / n (NVLS)"),
    ]  # fmt: skip


def table() -> str:
    """Returns the table of `docs/formulas.md`."""
    lines = ["| source | subject | formula | value | model | model / value | why |", "|---|---|---|--:|--:|--:|---|"]
    for row in rows():
        theirs, ours = (f"{value:.4g} {row.unit}" for value in (row.theirs, row.ours))
        reason = row.reason or "equal"
        lines.append(
            f"| {row.source} | {row.subject} | {row.formula} | {theirs} | {ours} | {row.ours / row.theirs:.3g} | {reason} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
