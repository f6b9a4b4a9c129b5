// Tokens of lines in each language: comments, operations, names.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TOKENS } from "../src/lib/tokens.ts";
import type { Language } from "../src/messages.ts";

/** Returns the texts of a line's tokens of one kind. */
function tokens(language: Language, line: string, kind: string): string[] {
  return [...line.matchAll(TOKENS[language]!)].map(({ groups }) => groups?.[kind]).filter((text) => text !== undefined);
}

const BUNDLE =
  "  0x13   :  { %131 = vtrace 2684354560  ;;  %v1222_v1 = vld [vmem:[%s1804_s1] ss:$0 sm:$0xff] /* spill */" +
  "  ;;  %v22_v5 = vsub.f32 %v1010_v3, %v1222_v1 }";

test("two semicolons separate the slots of a TPU bundle and begin no comment", () => {
  assert.deepEqual(tokens("llo", BUNDLE, "comment"), ["/* spill */"]);
  assert.deepEqual(tokens("llo", BUNDLE, "op"), ["vtrace", "vld", "vsub.f32"]);
  assert.deepEqual(tokens("llo", BUNDLE, "name").at(-1), "%v1222_v1");
});

test("LLO has comments after slashes, quoted names, and marks of regions", () => {
  assert.deepEqual(tokens("llo", "  $region2: #{fusion} parent=0 // pred_check", "comment"), ["// pred_check"]);
  const allocation = "  #allocation0 [shape = 's32[1]{0}', space=vmem, tag = 'buffer // 1; 2']";
  assert.deepEqual(tokens("llo", allocation, "string"), ["'s32[1]{0}'", "'buffer // 1; 2'"]);
  assert.deepEqual(tokens("llo", allocation, "comment"), []);
  const region = "  0x5a PF:  { %126 = vsettm 1 } /* Start/End empty region 38 */";
  assert.deepEqual(tokens("llo", region, "attribute"), ["  0x5a PF:"]);
  assert.deepEqual(tokens("llo", region, "op"), ["vsettm"]);
});

test("a semicolon ends a statement of PTX and SASS", () => {
  const ptx = "\tmov.u32 %r1, 0x0; ld.global.v4.b32 { %r1 }, [ %rd1 + 0 ]; // load";
  assert.deepEqual(tokens("ptx", ptx, "comment"), ["// load"]);
  assert.deepEqual(tokens("ptx", ptx, "op"), ["mov.u32", "ld.global.v4.b32"]);
  const sass = "        /*0010*/              @!P0 S2R R21, SR_TID.X ; R2UR UR4, R6 ; /* 0x000fe2 */";
  assert.deepEqual(tokens("sass", sass, "comment"), ["/*0010*/", "/* 0x000fe2 */"]);
  assert.deepEqual(tokens("sass", sass, "op"), ["S2R", "R2UR"]);
});

test("the disassembly of a CPU names the target of a relocation after a semicolon", () => {
  const x86 = "       8:  movabs       rcx, 0  ; .rodata.cst4";
  assert.deepEqual(tokens("asm", x86, "comment"), ["; .rodata.cst4"]);
  assert.deepEqual(tokens("asm", "      1c:  add          x8, x8, #0x10", "comment"), []);
  assert.deepEqual(tokens("asm", "      1c:  ldr          x8, [x0, #0x18]", "name"), ["x8", "x0"]);
});

test("LLVM IR and MLIR have no comments inside of strings", () => {
  const llvm = '  %51 = call i32 asm sideeffect "mov.u32 $0, 0x0; add $1;", "=r"(ptr %47), !dbg !3 ; done';
  assert.deepEqual(tokens("llvm", llvm, "comment"), ["; done"]);
  assert.deepEqual(tokens("llvm", llvm, "string"), ['"mov.u32 $0, 0x0; add $1;"', '"=r"']);
  const mlir = '#loc1 = loc("file:///tmp/a.py":3:4) // where';
  assert.deepEqual(tokens("mlir", mlir, "comment"), ["// where"]);
  const hlo = '%c = f32[] custom-call(%x), custom_call_target="a//b", /*index=5*/ sharding={replicated}';
  assert.deepEqual(tokens("hlo", hlo, "comment"), ["/*index=5*/"]);
});
