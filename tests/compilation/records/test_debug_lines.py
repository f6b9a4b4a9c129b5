"""Source lines of code with debug information, in the forms that LLVM, ptxas and nvdisasm write."""

from __future__ import annotations

import pytest

from inspector.compilation.records.debug_lines import source_frames

LLVM = """define ptr @fusion(ptr %0) !dbg !4 {
  %2 = load float, ptr %0, align 4, !dbg !7
  %3 = fadd float %2, %2, !dbg !8, !invariant.load !1
  store float %3, ptr %0, align 4, !dbg !9
  %4 = fadd float %3, %3, !dbg !10
  ret ptr null
}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = !{}
!2 = !DIFile(filename: "f.py", directory: "/home/me")
!3 = !DIFile(filename: "/lib/g.py", directory: "/home/me")
!4 = distinct !DISubprogram(name: "fusion", scope: !2, file: !2, line: 1, type: !1)
!5 = distinct !DILexicalBlock(scope: !4, line: 2, column: 1)
!6 = distinct !DISubprogram(name: "g", scope: !3, file: !3, line: 9)
!7 = !DILocation(line: 3, column: 5, scope: !4)
!8 = !DILocation(line: 12, column: 5, scope: !6, inlinedAt: !7)
!9 = !DILocation(line: 4, scope: !5)
!10 = !DILocation(line: 0, scope: !4)
"""


def test_llvm_names_the_innermost_line_first() -> None:
    found = source_frames("llvm", LLVM)
    assert found is not None
    assert found[:7] == (
        (), (("/home/me/f.py", 3),), (("/lib/g.py", 12), ("/home/me/f.py", 3)), (("/home/me/f.py", 4),), (), (), (),
    )  # fmt: skip
    assert len(found) == len(LLVM.split("\n"))
    assert not any(found[7:])


@pytest.mark.parametrize(
    "circle", ["!7 = !DILocation(line: 3, scope: !7)", "!7 = !DILocation(line: 3, scope: !4, inlinedAt: !7)"]
)
def test_scopes_that_form_a_circle_end(circle: str) -> None:
    found = source_frames("llvm", LLVM.replace("!7 = !DILocation(line: 3, column: 5, scope: !4)", circle))
    assert found is not None
    assert found[3] == (("/home/me/f.py", 4),)


PTX = """.visible .entry kern(
	.param .u64 kern_param_0
)
{
	.loc	1 8 3
	ld.param.b64 	%rd1, [kern_param_0];
	.reg .b32 	%r<3>;
$L__tmp0:
	.loc	2 12 1, function_name $L__info_string0, inlined_at 1 8 3
	add.f32 	%r1, %r1, %r2;
	// a comment;
	st.global.b32 	[%rd1], %r1;
	.loc	1 0 0
	ret;
}
	.file	1 "/home/me/f.py"
	.file	2 "/lib/g.py"
.visible .entry other(
{
	ret;
}
"""


def test_ptx_lines_have_the_place_of_the_directive_before_them() -> None:
    found = source_frames("ptx", PTX)
    assert found is not None
    known = {line.strip(): frames for line, frames in zip(PTX.split("\n"), found, strict=True) if frames}
    both = (("/lib/g.py", 12), ("/home/me/f.py", 8))
    assert known == {
        "ld.param.b64 	%rd1, [kern_param_0];": (("/home/me/f.py", 8),),
        "add.f32 	%r1, %r1, %r2;": both,
        "st.global.b32 	[%rd1], %r1;": both,
    }


def test_sass_lines_have_the_place_of_the_comment_before_them() -> None:
    text = """kern:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/home/me/f.py", line 8
        /*0010*/                   S2R R5, SR_TID.X ;
.L_x_8:
        /*0020*/                   EXIT ;
	//## File "/home/me/f.py", line 9 inlined at "/home/me/f.py", line 8
        /*0030*/                   NOP;"""
    eight = (("/home/me/f.py", 8),)
    assert source_frames("sass", text) == ((), (), (), eight, (), eight, (), (("/home/me/f.py", 9),))


@pytest.mark.parametrize(("language", "text"), [
    ("llvm", 'define void @f() {\n  ret void\n}\n!0 = !{i32 2, !"Debug Info Version", i32 3}'),
    ("llvm", "  ret void, !dbg !5"),
    ("ptx", ".file 1 \"f.py\"\n.entry f(\n.loc 2 3 1\nret;"),
    ("ptx", "  st.local.b32 [%rd1], %r1;\n  .local .align 4 .b8 __local_depot0[28];"),
    ("sass", "        /*0000*/   EXIT ;"),
    ("asm", "f:\n  0:  ret"),
    ("llo", "%0 = vdelay 1 // File \"f.py\", line 3"),
])  # fmt: skip
def test_code_without_debug_information_has_no_lines(language: str, text: str) -> None:
    assert source_frames(language, text) is None
