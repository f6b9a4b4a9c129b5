// The back-end's code of a variant, by kernel and by instruction.

import type * as messages from "../messages.ts";

export class CodeIndex {
  readonly stages: readonly string[];
  /** Kernels in order, "" first where something belongs to the whole program. */
  readonly kernels: readonly string[];
  private readonly places = new Map<string, number>();
  private readonly kernelOf = new Map<string, string>();

  constructor(
    readonly note: string,
    readonly table: messages.CodeTable,
  ) {
    const { entries, instructions } = table;
    this.stages = [...new Set(entries.map((entry) => entry.stage))];
    const names = new Set(entries.map((entry) => entry.kernel));
    const hasProgram = names.delete("");
    this.kernels = [...(hasProgram ? [""] : []), ...[...names].sort(NATURAL.compare)];
    entries.forEach((entry, i) => this.places.set(key(entry.stage, entry.kernel), i));
    // A kernel's own instruction before those inside of another one.
    for (const inner of [false, true])
      for (const [kernel, all] of Object.entries(instructions))
        for (const name of inner ? all.slice(1) : all.slice(0, 1))
          if (!this.kernelOf.has(name)) this.kernelOf.set(name, kernel);
  }

  /** The entry of a kernel at a stage, or null. */
  place(stage: string, kernel: string): number | null {
    return this.places.get(key(stage, kernel)) ?? null;
  }

  stagesOf(kernel: string): string[] {
    return this.stages.filter((stage) => this.place(stage, kernel) !== null);
  }

  /** The kernel that computes an instruction, or null. */
  kernel(instruction: string): string | null {
    return this.kernelOf.get(instruction) ?? null;
  }

  /** The instruction that a kernel has its name from, or null. */
  instruction(kernel: string): string | null {
    return this.table.instructions[kernel]?.[0] ?? null;
  }
}

/** `fusion.2` before `fusion.10`. */
const NATURAL = new Intl.Collator("en", { numeric: true });

const key = (stage: string, kernel: string): string => `${stage}\n${kernel}`;
