"""Collectives on slices and hosts with their times computed by hand: `V` bytes of the array, `W` bytes/s of a link one way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jaxlib import _hlo

from inspector.analysis.collectives.collectives import Collectives, collectives
from inspector.analysis.collectives.pricing.price import Price, Pricing
from inspector.analysis.collectives.pricing.target_links import links_of
from inspector.analysis.cost.peaks import peak_of
from inspector.compilation.target import Target
from inspector.hlo.module import Module

HOP = 1e-6
MIB = 1 << 20

TEXT = """HloModule m, num_partitions={count}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[{operand}]{{0}} parameter(0)
  ROOT c = f32[{result}]{{0}} {opcode}(x), channel_id=1, {groups}{more}
}}
"""
_MORE = {
    "all-gather": ", use_global_device_ids=true, dimensions={0}",
    "reduce-scatter": ", use_global_device_ids=true, dimensions={0}, to_apply=add",
    "all-reduce": ", use_global_device_ids=true, to_apply=add",
    "all-to-all": ", dimensions={0}",
}


def program(opcode: str, whole_bytes: int, groups: str, count: int, members: int, config: str = "") -> Collectives:
    """A module with one collective. `whole_bytes` is the array of a gather or scatter, else the operand."""
    whole, part = whole_bytes // 4, whole_bytes // 4 // members
    operand = part if opcode == "all-gather" else whole
    result = part if opcode == "reduce-scatter" else whole
    written = f"source_target_pairs={groups}" if opcode == "collective-permute" else f"replica_groups={groups}"
    text = TEXT.format(
        count=count, operand=operand, result=result, opcode=opcode, groups=written, more=_MORE.get(opcode, "") + config
    )
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return collectives(Module.from_proto(proto), None, 1, count)


def price_on(target: str, found: Collectives) -> Price:
    """The price of the first collective of a program on a target."""
    read = Target(target)
    assert read.device_count is not None
    return Pricing(found.devices, links_of(peak_of(read), read, read.device_count)).price(found[0])


@dataclasses.dataclass(frozen=True)
class Case:
    """A collective and its time by hand, from the bytes of the array and the speed of a link."""

    name: str
    target: str
    opcode: str
    groups: str
    members: int
    whole_bytes: int
    speed: float
    by_hand: Callable[[float, float], float]
    formula: str

    @property
    def hand_s(self) -> float:
        return self.by_hand(self.whole_bytes, self.speed)

    @property
    def price(self) -> Price:
        count = Target(self.target).device_count
        assert count is not None
        return price_on(self.target, program(self.opcode, self.whole_bytes, self.groups, count, self.members))


V5E, V5P, V6E, V4, H100, A100 = 50e9, 100e9, 100e9, 45e9, 450e9, 300e9
ROWS = "{{0,2,4,6},{1,3,5,7}}"  # the two rows of 4 on a 2x4 slice, whose first axis varies fastest
RING = ",".join(f"{{{16 * i},{16 * ((i + 1) % 16)}}}" for i in range(16))


def _case(
    name: str, target: str, opcode: str, groups: str, members: int, mib: float, speed: float, formula: str
) -> Case:
    by_hand = eval(f"lambda V, W: {formula}", {"HOP": HOP})
    return Case(name, target, opcode, groups, members, int(mib * MIB), speed, by_hand, formula)


CASES = [
    _case("line of 4: gather", "tpu:v5e:2x4", "all-gather", ROWS, 4, 64, V5E, "3*HOP + V*3/4/W"),
    _case("line of 4: scatter", "tpu:v5e:2x4", "reduce-scatter", ROWS, 4, 64, V5E, "3*HOP + V*3/4/W"),
    _case("line of 4: reduce", "tpu:v5e:2x4", "all-reduce", ROWS, 4, 64, V5E, "6*HOP + 2*V*3/4/W"),
    _case("line of 4: all-to-all", "tpu:v5e:2x4", "all-to-all", ROWS, 4, 64, V5E, "3*HOP + V/4*4/W"),
    _case("pair across", "tpu:v5e:2x4", "all-gather", "{{0,1},{2,3},{4,5},{6,7}}", 2, 64, V5E, "HOP + V/2/W"),
    _case("2x4 with corners: gather", "tpu:v5e:2x4", "all-gather", "[1,8]<=[8]", 8, 64, V5E, "4*HOP + V*7/8/(2*W)"),
    _case("2x4 with corners: reduce", "tpu:v5e:2x4", "all-reduce", "[1,8]<=[8]", 8, 64, V5E, "8*HOP + 2*V*7/8/(2*W)"),
    _case("2x4: all-to-all", "tpu:v5e:2x4", "all-to-all", "[1,8]<=[8]", 8, 64, V5E, "4*HOP + V/8*8/W"),
    _case("2x2 of v6e: gather", "tpu:v6e:2x2", "all-gather", "[1,4]<=[4]", 4, 64, V6E, "2*HOP + V*3/4/(2*W)"),
    _case("halves of 2x4", "tpu:v5e:2x4", "all-gather", "{{0,1,2,3},{4,5,6,7}}", 4, 64, V5E, "2*HOP + V*3/4/(2*W)"),
    _case("every second chip of 4", "tpu:v5e:2x4", "all-gather", "{{0,4},{1,5},{2,6},{3,7}}", 2, 64, V5E, "2*HOP + 2*V/2/W"),
    _case("ends of a line alone", "tpu:v5e:2x4", "all-gather", "{{0,6},{1,7}}", 2, 64, V5E, "3*HOP + V/2/W"),
    _case("4x4, no wrap: row", "tpu:v5e:4x4", "all-gather", "[4,4]<=[16]", 4, 64, V5E, "3*HOP + V*3/4/W"),
    _case("4x4, no wrap: both axes", "tpu:v5e:4x4", "all-reduce", "[1,16]<=[16]", 16, 64, V5E, "12*HOP + 2*V*15/16/(2*W)"),
    _case("16x16: ring of 16", "tpu:v5e:16x16", "all-gather", "[16,16]<=[256]", 16, 64, V5E, "8*HOP + V*15/16/(2*W)"),
    _case("16x16: two axes at once", "tpu:v5e:16x16", "all-gather", "[1,256]<=[256]", 256, 64, V5E, "16*HOP + V*255/256/(4*W)"),
    _case("16x16: all-to-all on a ring", "tpu:v5e:16x16", "all-to-all", "[16,16]<=[256]", 16, 64, V5E, "8*HOP + V*16/8/W"),
    _case("16x16: 8 of a ring of 16", "tpu:v5e:16x16", "all-gather", "[32,8]<=[256]", 8, 64, V5E, "7*HOP + V*7/8/W"),
    _case("16x16: every second of 16", "tpu:v5e:16x16", "all-gather", "[32,8]<=[16,8,2]T(0,2,1)", 8, 64, V5E, "8*HOP + 2*V*7/8/(2*W)"),
    _case("4x16: a line and a ring", "tpu:v5e:4x16", "all-gather", "[1,64]<=[64]", 64, 64, V5E, "11*HOP + V*63/64/(3*W)"),
    _case("4x4x4: ring of 4", "tpu:v5p:4x4x4", "all-gather", "[16,4]<=[64]", 4, 64, V5P, "2*HOP + V*3/4/(2*W)"),
    _case("4x4x4: plane", "tpu:v5p:4x4x4", "all-gather", "[4,16]<=[64]", 16, 64, V5P, "4*HOP + V*15/16/(4*W)"),
    _case("4x4x4: all three axes", "tpu:v5p:4x4x4", "all-reduce", "[1,64]<=[64]", 64, 64, V5P, "12*HOP + 2*V*63/64/(6*W)"),
    _case("4x4x4: all-to-all", "tpu:v5p:4x4x4", "all-to-all", "[1,64]<=[64]", 64, 64, V5P, "6*HOP + V*4/8/W"),
    _case("4x4x4 of v4: ring of 4", "tpu:v4:4x4x4", "all-reduce", "[16,4]<=[64]", 4, 64, V4, "4*HOP + 2*V*3/4/(2*W)"),
    _case("2x2x1 of v5p, no wrap", "tpu:v5p:2x2x1", "all-gather", "[1,4]<=[4]", 4, 64, V5P, "2*HOP + V*3/4/(2*W)"),
    _case("permute, one hop", "tpu:v5e:2x4", "collective-permute", "{{0,2},{2,4},{4,6}}", 1, 1 / 64, V5E, "HOP + V/W"),
    _case("permute back to the start of a line", "tpu:v5e:2x4", "collective-permute", "{{0,2},{2,4},{4,6},{6,0}}", 1, 16, V5E, "3*HOP + V/W"),
    _case("permute across two axes", "tpu:v5e:2x4", "collective-permute", "{{0,7}}", 1, 16, V5E, "4*HOP + V/W"),
    _case("permute around a ring", "tpu:v5e:16x16", "collective-permute", f"{{{RING}}}", 1, 16, V5E, "HOP + V/W"),
    _case("permute half around a ring", "tpu:v5e:16x16", "collective-permute", "{{0,8}}", 1, 16, V5E, "8*HOP + V/2/W"),
    _case("two permutes over one link", "tpu:v5e:2x4", "collective-permute", "{{0,4},{2,6}}", 1, 16, V5E, "2*HOP + 2*V/W"),
    _case("8 GPUs with SHARP: reduce", "gpu:h100:8", "all-reduce", "[1,8]<=[8]", 8, 64, H100, "2*HOP + V*9/8/W"),
    _case("2 GPUs with SHARP: reduce", "gpu:h100:8", "all-reduce", "[4,2]<=[8]", 2, 64, H100, "2*HOP + V/W"),
    _case("8 GPUs without SHARP: reduce", "gpu:a100:8", "all-reduce", "[1,8]<=[8]", 8, 64, A100, "14*HOP + 2*V*7/8/W"),
    _case("8 GPUs: gather", "gpu:h100:8", "all-gather", "[1,8]<=[8]", 8, 64, H100, "7*HOP + V*7/8/W"),
    _case("8 GPUs: all-to-all", "gpu:h100:8", "all-to-all", "[1,8]<=[8]", 8, 64, H100, "HOP + V*7/8/W"),
    _case("GPUs: permute", "gpu:h100:8", "collective-permute", "{{0,1},{1,2}}", 1, 64, H100, "HOP + V/W"),
]  # fmt: skip


def table() -> str:
    """The cases as a table: case, time by hand, time of the model, ratio."""
    rows = [("case", "by hand", "formula", "model", "ratio")]
    for case in CASES:
        model = case.price.known_s
        rows.append(
            (
                case.name,
                f"{case.hand_s * 1e6:.2f} µs",
                case.formula,
                f"{model * 1e6:.2f} µs",
                f"{model / case.hand_s:.4f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    print(table())
