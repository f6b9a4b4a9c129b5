import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksInPlane, isCopied, planeOf, programIds, sizeOf, visitedBlocks } from "../src/lib/grid.ts";
import type { KernelOperand } from "../src/messages.ts";

const operand = (fields: Partial<KernelOperand>): KernelOperand => ({
  name: "x",
  role: "input",
  shape: [4, 16, 16],
  dtype: "float32",
  block: "1, 8, 8",
  block_shape: [1, 8, 8],
  memory_space: "default",
  index_map: "",
  block_bytes: 256,
  starts: [
    [0, 0, 0],
    [0, 8, 0],
    [1, 0, 0],
  ],
  steps: [0, 0, 1, 2, 0],
  revisited: [0],
  overlapping: [],
  copies: 4,
  copied_bytes: 1024,
  remarks: [],
  reason: "",
  ...fields,
});

test("program ids count the last dimension first", () => {
  assert.deepEqual(programIds(0, [2, 3]), [0, 0]);
  assert.deepEqual(programIds(4, [2, 3]), [1, 1]);
  assert.deepEqual(programIds(5, [2, 3]), [1, 2]);
  assert.deepEqual(programIds(3, []), []);
});

test("a block is copied when it is another one than before", () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((step) => isCopied(operand({}), step)),
    [true, false, true, true, true],
  );
});

test("visited blocks are those up to the step", () => {
  assert.deepEqual([...visitedBlocks(operand({}), 2)], [0, 1]);
});

test("blocks of one plane have the same leading indices", () => {
  assert.deepEqual(blocksInPlane(operand({}), 1), [0, 1]);
  assert.deepEqual(blocksInPlane(operand({}), 2), [2]);
});

test("a vector is one row, a scalar one cell", () => {
  assert.deepEqual(planeOf([5]), { rows: 1, columns: 5 });
  assert.deepEqual(planeOf([]), { rows: 1, columns: 1 });
});

test("drawings are to scale but never too thin", () => {
  assert.deepEqual(sizeOf({ rows: 50, columns: 100 }, 160, 10), { width: 160, height: 80 });
  assert.deepEqual(sizeOf({ rows: 1, columns: 4096 }, 160, 10), { width: 160, height: 10 });
});
