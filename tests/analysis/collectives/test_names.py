"""The names of one collective: its instruction in `collectives()`, its kernel in `roofline()`, and bars in `schedule()`."""

from __future__ import annotations

from functools import cache

import pytest

import inspector
from inspector.analysis.collectives.collectives import collectives
from inspector.analysis.collectives.columns import COLLECTIVE_COLUMNS, CollectiveRow
from inspector.analysis.cost.roofline_columns import KERNEL_COLUMNS, KernelRow
from inspector.stages.compiled import Compiled
from tests.analysis.collectives.test_operations import CHAIN, IN_FUSION, SCATTER, TOGETHER
from tests.conftest import ROOT
from tests.modules import module_of


@cache
def recorded() -> dict[str, Compiled]:
    """Returns the programs of lesson 6, recorded with the compilers for TPUs and GPUs."""
    variants = inspector.load(ROOT / "notebooks" / "course" / "6_overlap.inspector").variants
    return {f"{each.target} {each.options}": each.compiled for each in variants}


def test_recorded_programs_have_collectives_inside_fusions_and_starts() -> None:
    names = {(each.name, each.kernel) for one in recorded().values() for each in one.collectives()}
    assert {("all-reduce.11", "fusion.3"), ("reduce-scatter-start", "reduce-scatter.6")} <= names


@pytest.mark.parametrize("program", recorded())
def test_tables_of_one_program_name_each_others_rows(program: str) -> None:
    compiled = recorded()[program]
    found = compiled.collectives()
    table, kernels = found.table().set_index("name"), compiled.roofline().table().set_index("name")
    assert set(table.kernel) == set(kernels.index[kernels.link_bytes > 0]) - {compiled.module().name}
    assert {name: kernels.loc[kernel, "collectives"] for name, kernel in table.kernel.items()} == {
        name: [name] for name in table.index
    }
    assert not any(kernels.loc[name, "collectives"] for name in kernels.index.difference(table.kernel))
    on_links = [each.name for each in compiled.schedule() if each.lane == "links"]
    assert sorted(found[name].name for name in on_links) == sorted(table.index)
    assert [found[kernel].name for kernel in table.kernel] == list(table.index)


def test_text_has_both_names() -> None:
    (tpu,) = (one for name, one in recorded().items() if name == "tpu:v5e:2x4 defaults")
    name = [column.name for column in COLLECTIVE_COLUMNS.of("pane")].index("name")
    shown = [COLLECTIVE_COLUMNS.texts("pane", CollectiveRow(each))[name] for each in tpu.collectives()]
    assert shown[3] == "all-reduce.11 (fusion.3)"
    assert shown[-1] == "all-gather.36"
    roof = tpu.roofline()
    name = [column.name for column in KERNEL_COLUMNS.of("pane")].index("name")
    kernels = [KERNEL_COLUMNS.texts("pane", KernelRow(each, roof.spent_s))[name] for each in roof.points]
    assert "fusion.3 (all-reduce.11)" in kernels
    assert "all-gather.36" in kernels


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        (IN_FUSION, {"r": "f", "gs": "g"}),
        (CHAIN, {"g": "begun", "c": "c"}),
        (SCATTER, {"r": "f", "r2": "g"}),
        (TOGETHER, {"r": "r", "g": "g"}),
    ],
)
def test_a_kernel_is_the_outermost_fusion(text: str, kernels: dict[str, str]) -> None:
    found = collectives(module_of(text), None, num_partitions=8)
    assert {each.name: each.kernel for each in found} == kernels


TWO = """HloModule two, num_partitions=2

add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }

inside {
  p = f32[8]{0} parameter(0)
  r = f32[8]{0} all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  n = f32[8]{0} negate(r)
  ROOT s.1 = f32[8]{0} all-reduce(n), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
}

ENTRY main {
  a = f32[8]{0} parameter(0)
  ROOT f = f32[8]{0} fusion(a), kind=kCustom, calls=inside
}
"""


def test_several_collectives_of_one_kernel_are_listed() -> None:
    found = collectives(module_of(TWO), None, num_partitions=2)
    assert [each.kernel for each in found] == ["f", "f"]
    with pytest.raises(KeyError, match=r"The kernel 'f' has 2 collectives\. Choose one of \['r', 's\.1'\]"):
        found["f"]
    with pytest.raises(KeyError, match="No collective 'g'"):
        found["g"]
