"""Kernels and the instructions that they compute, by names."""

from __future__ import annotations

import zlib
from pathlib import Path

from inspector.analysis.assembly_kernels import instructions_of_kernels
from inspector.compilation.records.assembly import PROGRAM, Assembly, Code
from inspector.hlo.module import Module

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
