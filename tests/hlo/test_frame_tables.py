"""The tables of stack frames in a module's text."""

from __future__ import annotations

from inspector.hlo.frame_tables import read_frames
from inspector.hlo.source import Frame

TEXT = """HloModule jit_f

FileNames
1 "a.py"
2 "b b.py"

FunctionNames
1 "f"
2 "g.<locals>.h"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5 end_line=5 column=4 end_column=70}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


ENTRY %main (x: f32[]) -> f32[] {
  %x = f32[] parameter(0), metadata={op_name="x" stack_frame_id=2}
}
"""


def test_stacks_are_innermost_first() -> None:
    outer, inner = Frame("a.py", 5, "f"), Frame("b b.py", 7, "g.<locals>.h")
    assert read_frames(TEXT.split("\n")) == {1: (outer,), 2: (inner, outer)}


def test_a_text_without_tables_has_none() -> None:
    assert read_frames(["HloModule jit_f", "", "ENTRY %main () -> f32[] {", "}"]) == {}


def test_a_circle_of_frames_ends() -> None:
    circle = TEXT.replace("1 {file_location_id=1 parent_frame_id=1}", "1 {file_location_id=1 parent_frame_id=3}")
    assert len(read_frames(circle.split("\n"))[1]) <= 1000
