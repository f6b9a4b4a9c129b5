// What every member of a group has after each step of a textbook's algorithm: as `Exchange.held` in Python.

import type { Exchange } from "../messages.ts";

/** By block the positions of the members whose values are in it. */
export type Held = ReadonlyMap<number, readonly number[]>;

/** Before the first step, and after each: what each member has, by position. */
export function statesOf(exchange: Exchange): Held[][] {
  const states: Held[][] = [beginning(exchange)];
  for (const step of exchange.steps) {
    const before = states[states.length - 1]!;
    const after = before.map((held) => new Map(held));
    for (const { sender, receiver, blocks, adds } of step) {
      for (const block of blocks) {
        const come = before[sender]!.get(block) ?? [];
        const mine = after[receiver]!.get(block) ?? [];
        after[receiver]!.set(block, adds ? [...new Set([...mine, ...come])].sort((a, b) => a - b) : come);
        if (exchange.opcode === "all-to-all") after[sender]!.delete(block); // nobody's but the one's that it is for
      }
    }
    states.push(after);
  }
  return states;
}

function beginning({ opcode, members: count, parts }: Exchange): Held[] {
  const all = range(count * parts);
  return range(count).map((member) => {
    const own = (blocks: readonly number[]): Held => new Map(blocks.map((block) => [block, [member]]));
    if (opcode === "all-gather") return own(range(parts).map((part) => member * parts + part));
    if (opcode === "collective-permute") return own([member]);
    if (opcode === "all-to-all") return own(range(count * parts).map((block) => member * count * parts + block));
    return opcode === "collective-broadcast" && member ? new Map() : own(all);
  });
}

/** A permutation: one step, each pair at once. */
export function permutation(pairs: readonly (readonly number[])[], count: number): Exchange {
  const step = pairs.map(([sender, receiver]) => ({
    sender: sender!,
    receiver: receiver!,
    blocks: [sender!],
    adds: false,
  }));
  return { opcode: "collective-permute", algorithm: "direct", members: count, parts: 1, steps: [step] };
}

/** A block's name: its number, "a" or "b" behind it for a half; of an all-to-all the ids that it is from and for. */
export function blockName({ opcode, members: count, parts }: Exchange, block: number, ids: readonly number[]): string {
  const whole = Math.floor(block / parts);
  const half = parts > 1 ? "ab"[block % parts]! : "";
  if (opcode !== "all-to-all") return `${whole}${half}`;
  return `${ids[Math.floor(whole / count)]}→${ids[whole % count]}${half}`;
}

/** Where a block stands in the row of a member: by its number; of an all-to-all, whose blocks are many, among those held. */
export function columnOf({ opcode }: Exchange, held: Held, block: number): number {
  return opcode === "all-to-all" ? [...held.keys()].filter((other) => other < block).length : block;
}

export function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}
