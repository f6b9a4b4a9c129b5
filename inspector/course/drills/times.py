"""Exercises on the time of collectives on links of known speed and latency."""

from __future__ import annotations

import random

from inspector.analysis.collectives.exchanges.links import Links
from inspector.course.answers import Number
from inspector.course.drills.shardings import exchange_of
from inspector.course.programs import microseconds
from inspector.course.question import Mistake, Question

_GATHERS = ("all_gather", "psum_scatter", "psum")
_CASES = (  # by level: algorithms, kinds of links, latency in µs
    (("ring",), ("ring",), 0),
    (("ring", "bidirectional ring"), ("ring",), 0),
    (("ring", "bidirectional ring"), ("ring",), 1),
    (("ring", "bidirectional ring", "halving and doubling"), ("ring", "switch"), 1),
)
_WAYS = {
    "ring": "by the ring algorithm, in one direction",
    "bidirectional ring": "by rings in both directions, each with half of every block, in {steps} steps",
    "halving and doubling": "by halving and doubling",
    "direct": "with every block sent the shorter way at once",
}
_CLOSE = 0.03  # wrong answers that are closer than this to the right one count as right


def time(draw: random.Random, level: int) -> Question:
    """Returns an exercise: the estimated time of a collective."""
    algorithms, kinds, latency_us = _CASES[min(level, len(_CASES)) - 1]
    operation, algorithm, kind = draw.choice(_GATHERS), draw.choice(algorithms), draw.choice(kinds)
    if level > 4 and draw.random() < 0.4:
        operation, algorithm, kind = "all_to_all", "direct", "ring"
    members, speed_gb = draw.choice((4, 8, 16)), draw.choice((45, 50, 90, 100, 450))
    elements = draw.choice((1 << 16, 1 << 20, 1 << 22) if not latency_us else (1 << 12, 1 << 16, 1 << 20))
    collectives = exchange_of(operation, "f32", elements, members)

    def estimated(with_latency: int, kind_of_links: str, algorithm: str = algorithm) -> float:
        links = Links(kind_of_links, bytes_per_s=speed_gb * 1e9, latency_s=with_latency * 1e-6)
        return microseconds(collectives.exchange(0, algorithm, links=links))

    exchange = collectives.exchange(0, algorithm, links=Links(kind, bytes_per_s=speed_gb * 1e9))
    right = estimated(latency_us, kind)
    busiest = sum(max(exchange.link_bytes(step).values(), default=0.0) for step in exchange.steps)
    hops = sum(map(exchange.hops, exchange.steps))
    wrong = {
        elements * 4 / speed_gb / 1e3: "That is the operand over the speed. Find the bytes that pass over the busiest link.",
        estimated(0, kind): f"That leaves out the latency of {hops} hops.",
        estimated(latency_us, "switch" if kind == "ring" else "ring"): f"That is for links of another kind. Here they are a {kind}.",
        right / 1e6: "That is in seconds.",
    }  # fmt: skip
    return Question(
        f"{members} devices on a {kind} run {operation}(x, \"i\"), tiled where it applies, {_WAYS[algorithm].format(steps=len(exchange.steps))}. x is f32[{elements:,}] on each"
        f" device. A link has {speed_gb} GB/s in each direction and a latency of {latency_us} µs a hop. How many microseconds does it take?",
        Number("microseconds"),
        lambda: right,
        f"{round(busiest):,} bytes on the busiest link over {speed_gb} GB/s"
        + (f", and {hops} hops of {latency_us} µs." if latency_us else "."),
        "Add the latency of the hops in sequence, and the bytes on the busiest link over its speed.",
        tuple(Mistake(value, reply) for value, reply in wrong.items() if abs(value - right) > _CLOSE * right),
    )  # fmt: skip
