// The blocks of every member of a group after each step of a textbook algorithm, like `Exchange.blocks` in Python.

import type { ExchangeMessage } from "../messages.ts";

/** The blocks of a member, with the positions of the members whose values each block contains. */
export type MemberBlocks = ReadonlyMap<number, readonly number[]>;

/** Returns the blocks of each member, by position, before the first step and after each step. */
export function statesOf(exchange: ExchangeMessage): MemberBlocks[][] {
  const states: MemberBlocks[][] = [beginning(exchange)];
  for (const step of exchange.steps) {
    const before = states[states.length - 1]!;
    const after = before.map((held) => new Map(held));
    for (const { sender, receiver, blocks, adds } of step) {
      for (const block of blocks) {
        const sent = before[sender]!.get(block) ?? [];
        const own = after[receiver]!.get(block) ?? [];
        after[receiver]!.set(block, adds ? [...new Set([...own, ...sent])].sort((a, b) => a - b) : sent);
        if (exchange.opcode === "all-to-all") after[sender]!.delete(block); // only the receiver keeps it
      }
    }
    states.push(after);
  }
  return states;
}

function beginning({ opcode, members: count, parts }: ExchangeMessage): MemberBlocks[] {
  const all = range(count * parts);
  return range(count).map((member) => {
    const own = (blocks: readonly number[]): MemberBlocks => new Map(blocks.map((block) => [block, [member]]));
    if (opcode === "all-gather") return own(range(parts).map((part) => member * parts + part));
    if (opcode === "collective-permute") return own([member]);
    if (opcode === "all-to-all") return own(range(count * parts).map((block) => member * count * parts + block));
    return opcode === "collective-broadcast" && member ? new Map() : own(all);
  });
}

/** Returns a permutation: one step in which all pairs exchange at once. */
export function permutation(pairs: readonly (readonly number[])[], count: number): ExchangeMessage {
  const step = pairs.map(([sender, receiver]) => ({
    sender: sender!,
    receiver: receiver!,
    blocks: [sender!],
    adds: false,
  }));
  return { opcode: "collective-permute", algorithm: "direct", members: count, parts: 1, steps: [step] };
}

/** Returns a block's name: its number, plus "a" or "b" for halves. In an all-to-all: the ids of source and target. */
export function blockName(
  { opcode, members: count, parts }: ExchangeMessage,
  block: number,
  ids: readonly number[],
): string {
  const whole = Math.floor(block / parts);
  const half = parts > 1 ? "ab"[block % parts]! : "";
  if (opcode !== "all-to-all") return `${whole}${half}`;
  return `${ids[Math.floor(whole / count)]}→${ids[whole % count]}${half}`;
}

/**
 * Returns a block's column in the row of a member: its number or, in an all-to-all, its index among the held blocks.
 */
export function columnOf({ opcode }: ExchangeMessage, held: MemberBlocks, block: number): number {
  return opcode === "all-to-all" ? [...held.keys()].filter((other) => other < block).length : block;
}

export function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}
