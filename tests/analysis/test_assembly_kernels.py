"""Kernels and the instructions that they compute, by names."""

from __future__ import annotations

import zlib
from pathlib import Path

from inspector.analysis.assembly_kernels import LibraryCall, instructions_of_kernels, library_calls
from inspector.compilation.records.assembly import PROGRAM, Assembly, Code
from inspector.compilation.records.thunks import Step
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from tests.modules import module_of

DATA = Path(__file__).parent.parent / "hlo" / "data"
MODULE = Module.from_proto((DATA / "plain.0.10.pb").read_bytes())


def code(kernel: str, *symbols: str) -> Code:
    return Code("LLVM IR", kernel, symbols, "llvm", "text", zlib.compress(b"define"))


def test_a_kernel_computes_the_instruction_of_its_name_and_inner_ones() -> None:
    outer = next(i for i in MODULE.instructions() if i.called_computations)
    inner = [i.name for i in outer.called_computations[0].instructions]
    written = outer.name.replace(".", "_").replace("-", "_")
    found = instructions_of_kernels(Assembly((code(written), code("no_such"), code(PROGRAM))), MODULE)
    assert list(found) == [written]
    assert found[written][0] == outer.name
    assert set(inner) <= set(found[written])


def test_a_kernel_with_another_name_is_matched_by_its_symbols() -> None:
    name = next(i.name for i in MODULE.entry.instructions)
    found = instructions_of_kernels(Assembly((code("module_7", "helper", name),)), MODULE)
    assert found["module_7"][0] == name


def test_a_kernel_named_after_a_computation_computes_its_instructions() -> None:
    applied = next(c for c in MODULE.computations if c is not MODULE.entry and not c.proto.is_fusion_computation)
    found = instructions_of_kernels(Assembly((code(applied.name),)), MODULE)
    assert set(found[applied.name]) >= {i.name for i in applied.instructions}


def test_a_call_that_became_one_kernel() -> None:
    name = next(i.name for i in MODULE.entry.instructions)
    (found,) = instructions_of_kernels(Assembly((code(f"{name}_kernel".replace(".", "_")),)), MODULE).values()
    assert found[0] == name


def test_a_kernel_computes_the_instructions_that_launch_it() -> None:
    first, second, third = (i.name for i in MODULE.entry.instructions[:3])
    launches = (Step(first, kernel="kern"), Step(third, kernel="kern"), Step("gone", kernel="kern"))
    found = instructions_of_kernels(Assembly((code("kern"), code(second))), MODULE, launches)
    assert found["kern"][0] == first
    assert third in found["kern"]
    assert found[second][0] == second  # found by name


def test_library_calls_have_the_instructions_inside_of_them() -> None:
    outer = next(i for i in MODULE.instructions() if i.called_computations)
    inner = outer.called_computations[0].instructions[0].name
    other = next(i.name for i in MODULE.entry.instructions if i is not outer)
    run = (Step(outer.name, callee="YNNPACK"), Step(other, callee="copy"), Step("gone", callee="FFT"), Step(other, "k"))
    found = library_calls(MODULE, run, {other})
    assert list(found) == [outer.name]
    assert found[outer.name].callee == "YNNPACK"
    assert {outer.name, inner} <= set(found[outer.name].instructions)


def test_without_an_executable_only_custom_calls_are_known() -> None:
    hlo = """HloModule m
ENTRY %main (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  ROOT %call = f32[2]{0} custom-call(%p), custom_call_target="my_function"
}
"""
    module = module_of(hlo)
    assert library_calls(module, Unavailable("none"), ()) == {"call": LibraryCall("my_function", ("call",))}
    assert library_calls(module, Unavailable("none"), ("call",)) == {}
