// An index of the backend's code and library calls of a variant, by kernel and by instruction.

import type * as messages from "../messages.ts";

export class CodeIndex {
  readonly stages: readonly string[];
  /** Kernels in natural order. "" comes first if there is code of the whole program. */
  readonly kernels: readonly string[];
  /** Names of the instructions that call a library, in natural order. */
  readonly calls: readonly string[];
  private readonly callOf = new Map<string, string>();
  private readonly places = new Map<string, number>();
  private readonly kernelOf = new Map<string, string>();

  constructor(
    readonly note: string,
    readonly table: messages.CodeTable,
  ) {
    const { entries, instructions, calls } = table;
    this.stages = [...new Set(entries.map((entry) => entry.stage))];
    const names = new Set(entries.map((entry) => entry.kernel));
    const hasProgram = names.delete("");
    this.kernels = [...(hasProgram ? [""] : []), ...[...names].sort(NATURAL.compare)];
    entries.forEach((entry, i) => this.places.set(key(entry.stage, entry.kernel), i));
    // The main instruction of a kernel has priority over instructions inside another kernel.
    for (const inner of [false, true])
      for (const [kernel, all] of Object.entries(instructions))
        for (const name of inner ? all.slice(1) : all.slice(0, 1))
          if (!this.kernelOf.has(name)) this.kernelOf.set(name, kernel);
    this.calls = Object.keys(calls).sort(NATURAL.compare);
    for (const call of this.calls)
      for (const name of calls[call]!.instructions) if (!this.callOf.has(name)) this.callOf.set(name, call);
  }

  /** Returns the index of a kernel's entry at a stage, or null. */
  place(stage: string, kernel: string): number | null {
    return this.places.get(key(stage, kernel)) ?? null;
  }

  stagesOf(kernel: string): string[] {
    return this.stages.filter((stage) => this.place(stage, kernel) !== null);
  }

  /** Returns the kernel that computes an instruction, or null. */
  kernel(instruction: string): string | null {
    return this.kernelOf.get(instruction) ?? null;
  }

  /** Returns the library call that contains an instruction, by the name of the calling instruction, or null. */
  call(instruction: string): string | null {
    return this.callOf.get(instruction) ?? null;
  }

  /** Returns the first instruction that launches a kernel, or null. */
  instruction(kernel: string): string | null {
    return this.table.instructions[kernel]?.[0] ?? null;
  }
}

/** Natural order: `fusion.2` comes before `fusion.10`. */
const NATURAL = new Intl.Collator("en", { numeric: true });

const key = (stage: string, kernel: string): string => `${stage}\n${kernel}`;
