"""The optimized HLO against the last snapshot: spelling is no difference, instructions are."""

from __future__ import annotations

from inspector.compilation.records.final_text import final_text

SNAPSHOT = """\
HloModule m, is_scheduled=true

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=5}
2 {file_name_id=1 function_name_id=1 line=6}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

ENTRY %main (p: (f32[8], f32[8])) -> f32[8] {
  %p = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT %add = f32[8]{0} add(%p#0, %p#1), metadata={op_name="jit(f)/add" stack_frame_id=2}, backend_config={"a":1,"b":2}
}
"""
OPTIMIZED = """\
HloModule m, is_scheduled=true

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=6}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main (p: (f32[8], f32[8])) -> f32[8] {
  %p = (f32[8]{0}, f32[8]{0}) parameter(0)
  %get.1 = f32[8]{0} get-tuple-element(%p), index=0
  %get.2 = f32[8]{0} get-tuple-element(%p), index=1
  ROOT %add = f32[8]{0} add(%get.1, %get.2), metadata={op_name="jit(f)/add" stack_frame_id=1}, backend_config={"b":2,"a":1}
}
"""


def test_spelling_is_not_a_difference() -> None:
    assert final_text(OPTIMIZED, SNAPSHOT) is None
    assert final_text(OPTIMIZED, OPTIMIZED) is None


def test_new_instructions_are_one_with_the_frames_of_the_snapshot() -> None:
    copied = OPTIMIZED.replace("add(%get.1", "add(%copy").replace(
        "  ROOT", '  %copy = f32[8]{0:S(1)} copy(%get.1), metadata={op_name="jit(f)/add" stack_frame_id=1}\n  ROOT'
    )
    found = final_text(copied, SNAPSHOT)
    assert found is not None
    assert found.split("\n")[:18] == SNAPSHOT.split("\n")[:18]
    assert '  %copy = f32[8]{0:S(1)} copy(%p#0), metadata={op_name="jit(f)/add" stack_frame_id=2}' in found
    assert 'ROOT %add = f32[8]{0} add(%copy, %p#1), metadata={op_name="jit(f)/add" stack_frame_id=2}' in found
    assert "get-tuple-element" not in found


def test_a_frame_that_the_snapshot_has_not_is_left_out() -> None:
    other = OPTIMIZED.replace("line=6", "line=7").replace("%add =", "%sum =")
    found = final_text(other, SNAPSHOT)
    assert found is not None
    assert 'metadata={op_name="jit(f)/add"}, backend_config' in found
