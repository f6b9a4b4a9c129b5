"""The peak figure of a dot: by precision and algorithm, on three kinds of chips."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.cost.dot_algorithms import Algorithm, algorithm_of, products
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from tests.peaks import PEAKS

DOT = """HloModule m

ENTRY main {{
  a = {type}[8,8]{{1,0}} parameter(0)
  b = {other}[8,8]{{1,0}} parameter(1)
  ROOT d = {result}[8,8]{{1,0}} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{marks}
}}
"""


def algorithm(chip: str, kind: str, marks: str = "", other: str = "", result: str = "") -> Algorithm | Unavailable:
    text = DOT.format(type=kind, other=other or kind, result=result or kind, marks=marks and f", {marks}")
    module = Module.from_proto(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    (product,) = products(module).of(module.entry.root)
    return algorithm_of(product, PEAKS[chip])


HIGH, HIGHEST = "operand_precision={high,high}", "operand_precision={highest,highest}"


@pytest.mark.parametrize(
    ("chip", "kind", "marks", "expected"),
    [
        ("h100", "f32", "", "tf32"),
        ("h100", "f32", HIGH, "tf32"),
        ("h100", "f32", HIGHEST, "f32"),
        ("a100", "f32", HIGHEST, "f32"),
        ("h100", "bf16", HIGHEST, "bf16"),
        ("h100", "f64", "", "f64"),
        ("h100", "s8", "", "s8"),
        ("h100", "f8e4m3fn", "", "f8"),
        ("h100", "f32", "algorithm=dot_bf16_bf16_f32", "bf16"),
        ("h100", "f32", "algorithm=dot_bf16_bf16_f32_x3", "bf16 x 3"),
        ("h100", "f32", "algorithm=dot_tf32_tf32_f32_x3", "tf32 x 3"),
        ("h100", "f32", "algorithm=dot_f32_f32_f32", "f32"),
        ("h100", "f8e4m3fn", "algorithm=dot_any_f8_any_f8_f32", "f8"),
        ("v5e", "f32", "", "bf16"),
        ("v5e", "f32", HIGH, "bf16 x 3"),
        ("v5e", "f32", HIGHEST, "bf16 x 6"),
        ("v5e", "bf16", "", "bf16"),
        ("v5e", "s8", "", "s8"),
    ],
)
def test_algorithms_by_chip_and_precision(chip: str, kind: str, marks: str, expected: str) -> None:
    found = algorithm(chip, kind, marks, result="f32" if "f8" in kind else "s32" if kind == "s8" else "")
    assert isinstance(found, Algorithm)
    assert (str(found), found.doubt) == (expected, "")


@pytest.mark.parametrize(
    ("kind", "other", "passes"),  # at the precisions default, high and highest: those of libtpu's cycles
    [
        ("bf16", "f32", (1, 2, 3)),
        ("f32", "bf16", (1, 2, 3)),
        ("f16", "f16", (1, 3, 3)),
        ("f16", "f32", (1, 3, 5)),
        ("bf16", "f16", (1, 2, 2)),
    ],
)
def test_passes_of_two_types_on_a_tpu(kind: str, other: str, passes: tuple[int, ...]) -> None:
    found = [algorithm("v5e", kind, marks, other=other, result="f32") for marks in ("", HIGH, HIGHEST)]
    assert [each.passes for each in found if isinstance(each, Algorithm)] == [*passes]
    assert all(each.peak_name == "bf16" for each in found if isinstance(each, Algorithm))


def test_an_uncertain_algorithm_states_its_doubt() -> None:
    mixed = algorithm("v5e", "f32", "operand_precision={highest,default}")
    assert mixed == Algorithm("bf16", 1, "its operands differ in type or precision")
    assert algorithm("a100", "f8e4m3fn", result="f32") == Algorithm(
        "bf16", 1, "the a100 has no known peak for f8e4m3fn"
    )
    assert algorithm("h100", "c64") == Algorithm("tf32", 3, "a complex product takes three or four real ones")


def test_no_peak_is_no_algorithm() -> None:
    found = algorithm("v5p", "s8", result="s32")
    assert isinstance(found, Unavailable)
    assert "the v5p has no known peak for s8" in found.reason
