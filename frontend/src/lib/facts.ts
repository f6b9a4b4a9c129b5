// What is known of an instruction of HLO from the text alone: the shapes of its operands, how long its value is alive.

import { computationsOf } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import { grouped, plural } from "./format.ts";
import { userTest } from "./search.ts";

const INSTRUCTION = /^\s*(?:ROOT )?%?([\w.-]+) = (.*?) ?([a-z][a-z\d-]*)\(([^)]*)\)/;
/** Instructions that make no value of their own: they give a part of one, or several, another name. */
const NAMES: ReadonlySet<string> = new Set(["tuple", "get-tuple-element", "bitcast", "opt-barrier", "add-dependency"]);
const MOST_OPERANDS = 8;
const LONGEST = 64;

/** The operands of an instruction with their shapes, a line each; of many the first. */
export function operandsOf(document: TextDocument, line: number): string[] {
  const operands = INSTRUCTION.exec(document.lines[line] ?? "")?.[4];
  if (document.language !== "hlo" || operands === undefined) return [];
  const names = operands.match(/%[\w.-]+/g) ?? operands.match(/[a-z_][\w.-]*/gi) ?? [];
  const told = names.slice(0, MOST_OPERANDS).flatMap((name) => {
    const shape = INSTRUCTION.exec(document.lines[document.lineOfInstruction(name.replace(/^%/, ""))] ?? "")?.[2];
    return shape === undefined ? [] : [`${name}: ${shape.length > LONGEST ? `${shape.slice(0, LONGEST)} …` : shape}`];
  });
  return names.length > MOST_OPERANDS ? [...told, `${grouped(names.length - MOST_OPERANDS)} more`] : told;
}

/** From where to where in the schedule of its computation a value is alive. Places count from 0. */
export interface Alive {
  readonly from: number;
  readonly to: number;
  /** Instructions of the computation. */
  readonly length: number;
}

/** The last use of a value under any name; null where XLA has not said in which order instructions run. */
export function aliveAt(document: TextDocument, line: number): Alive | null {
  const isScheduled = document.lines[0]?.includes("is_scheduled=true");
  const computation = isScheduled ? computationsOf(document).at(line) : null;
  if (!computation || computation.kind !== "run" || !document.defines(line)) return null;
  const first = computation.first + 1;
  const last = lastUse(document, line, computation.last - 1);
  return { from: line - first, to: last - first, length: computation.last - first };
}

/** Instructions of a scheduled computation stand in the order in which they run, a line each. */
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

/** `120 to 145 of 467 in its schedule, 26 steps`. */
export function aliveText({ from, to, length }: Alive): string {
  const steps = plural(to - from + 1, "step");
  return `${grouped(from)} to ${grouped(to)} of ${grouped(length)} in its schedule, ${steps}`;
}
