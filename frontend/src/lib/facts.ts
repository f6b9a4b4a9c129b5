// Facts about an HLO instruction from the text only: the shapes of its operands, and its live range.

import { computationsOf } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import { grouped, plural } from "./format.ts";
import { userTest } from "./search.ts";

const INSTRUCTION = /^\s*(?:ROOT )?%?([\w.-]+) = (.*?) ?([a-z][a-z\d-]*)\(([^)]*)\)/;
/** Instructions that produce no new value: they only name parts or groups of existing values. */
const NAMES: ReadonlySet<string> = new Set(["tuple", "get-tuple-element", "bitcast", "opt-barrier", "add-dependency"]);
const MOST_OPERANDS = 8;
const LONGEST = 64;

/** Returns the operands of an instruction with their shapes, one per line, up to `MOST_OPERANDS`. */
export function operandsOf(document: TextDocument, line: number): string[] {
  const operands = INSTRUCTION.exec(document.lines[line] ?? "")?.[4];
  if (document.language !== "hlo" || operands === undefined) return [];
  const names = operands.match(/%[\w.-]+/g) ?? operands.match(/[a-z_][\w.-]*/gi) ?? [];
  const rows = names.slice(0, MOST_OPERANDS).flatMap((name) => {
    const shape = INSTRUCTION.exec(document.lines[document.lineOfInstruction(name.replace(/^%/, ""))] ?? "")?.[2];
    return shape === undefined ? [] : [`${name}: ${shape.length > LONGEST ? `${shape.slice(0, LONGEST)} …` : shape}`];
  });
  return names.length > MOST_OPERANDS ? [...rows, `${grouped(names.length - MOST_OPERANDS)} more`] : rows;
}

/** The live range of a value in the schedule of its computation. Positions start at 0. */
interface Alive {
  readonly from: number;
  readonly to: number;
  /** The number of instructions in the computation. */
  readonly length: number;
}

/**
 * Returns the live range of the value of a line, including uses under other names; null if the HLO is not scheduled.
 */
export function aliveAt(document: TextDocument, line: number): Alive | null {
  const isScheduled = document.lines[0]?.includes("is_scheduled=true");
  const computation = isScheduled ? computationsOf(document).at(line) : null;
  if (!computation || computation.kind !== "run" || !document.defines(line)) return null;
  const first = computation.first + 1;
  const last = lastUse(document, line, computation.last - 1);
  return { from: line - first, to: last - first, length: computation.last - first };
}

/** Returns the last use of a value. The lines of a scheduled computation are in execution order. */
function lastUse(document: TextDocument, line: number, end: number): number {
  const tests = [userTest(document.instruction(line)!)];
  if (/^\s*ROOT /.test(document.lines[line]!)) return end;
  let last = line;
  for (let at = line + 1; at <= end; at++) {
    const text = document.lines[at]!;
    if (!tests.some((isUser) => isUser(text))) continue;
    last = at;
    const opcode = INSTRUCTION.exec(text)?.[3] ?? "";
    if (!NAMES.has(opcode)) continue;
    if (/^\s*ROOT /.test(text)) return end;
    tests.push(userTest(document.instruction(at)!));
  }
  return last;
}

/** Returns text such as `steps 120 to 145 of 467 (26 steps)`. */
export function aliveText({ from, to, length }: Alive): string {
  const steps = plural(to - from + 1, "step");
  return `steps ${grouped(from)} to ${grouped(to)} of ${grouped(length)} (${steps})`;
}
