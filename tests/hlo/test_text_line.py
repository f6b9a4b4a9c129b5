"""One line of HLO text."""

from __future__ import annotations

import pytest

from inspector.hlo.text_line import InstructionLine, opcode, read_line, shape_bytes, without_layouts


def test_all_parts_of_a_line_are_read() -> None:
    line = (
        "  ROOT %t.1 = (f32[2]{0:T(8,128)S(1)}, /*index=1*/(s32[], pred[4,3]{1,0})) fusion(%a, %b.1), kind=kLoop,"
        ' calls=%fc.1, control-predecessors={%z}, metadata={op_name="jit(f)/a \\"b\\"" stack_frame_id=4},'
        ' backend_config={"a":"%c )"}'
    )
    assert read_line(line) == InstructionLine(
        name="t.1",
        is_root=True,
        shape="(f32[2]{0:T(8,128)S(1)}, /*index=1*/(s32[], pred[4,3]{1,0}))",
        opcode="fusion",
        operands=("a", "b.1"),
        literal="",
        attributes='kind=kLoop, calls=%fc.1, control-predecessors={%z}, backend_config={"a":"%c )"}',
        called=("fc.1",),
        op_name='jit(f)/a "b"',
        frame=4,
    )


@pytest.mark.parametrize(
    ("line", "operands", "literal", "called"),
    [
        ("  %c = f32[2]{0} constant({1, 2})", (), "{1, 2}", ()),
        ("  %p = f32[] parameter(3)", (), "3", ()),
        ("  %w = (s32[]) while(%t), condition=%c.1, body=%b.2", ("t",), "", ("c.1", "b.2")),
        ("  %i = s32[] conditional(%p, %a, %b), branch_computations={%x, %y}", ("p", "a", "b"), "", ("x", "y")),
        ("  %d = f32[4]{0} add(f32[4]{0} %a, f32[4]{0} %b)", ("a", "b"), "", ()),
        ('  %q = f32[] custom-call(%a), custom_call_target="f(", api_version=X', ("a",), "", ()),
        ("  %k = c64[] constant((1, 2))", (), "(1, 2)", ()),
    ],
)
def test_operands_literals_and_calls(
    line: str, operands: tuple[str, ...], literal: str, called: tuple[str, ...]
) -> None:
    read = read_line(line)
    assert read is not None
    assert (read.operands, read.literal, read.called) == (operands, literal, called)


@pytest.mark.parametrize(
    "line", ["}", "", "HloModule jit_f", "ENTRY %main (x: f32[]) -> f32[] {", '1 "a = b.py"', "  %x"]
)
def test_lines_without_an_instruction_are_none(line: str) -> None:
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  %a = f32[2]{0} add(%b, %c)", "add"),
        ("  ROOT %t = (f32[2]{0:T(8,128)S(1)}, /*index=1*/(s32[], pred[])) tuple(%a)", "tuple"),
        ("  %c = token[] after-all()", "after-all"),
        ("}", ""),
    ],
)
def test_the_opcode_stands_behind_the_shape(line: str, expected: str) -> None:
    assert opcode(line) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("f32[]", 4), ("bf16[3,2]{1,0}", 12), ("pred[5]{0}", 5), ("(f32[2]{0}, (s8[3]{0}, token[]))", 11),
        ("u4[3,3]{1,0:E(4)}", 5), ("u4[3,3]{1,0}", 9), ("f32[<=8,2]{1,0}", 64), ("f32[0,4]{1,0}", 0), ("c128[2]{0}", 32),
        ("f8e4m3fn[7]{0:T(256)(4,1)}", 7),
    ],
)  # fmt: skip
def test_bytes_of_a_shape(shape: str, expected: int) -> None:
    assert shape_bytes(shape) == expected


def test_layouts_are_taken_off() -> None:
    assert without_layouts("(f32[2]{0:T(128)}, s32[])") == "(f32[2], s32[])"
