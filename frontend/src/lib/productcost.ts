// The collectives that a product of sharded arrays needs, and the bytes that a device sends, by the rules of sharded products
// (jax-ml.github.io/scaling-book/sharding). Each mesh axis shards one letter of the work, or none: operands are converted to
// that, and the result from it. Of all such plans, the one that sends least counts.

import type { GameMessage } from "../messages.ts";

/** The mesh axes of each dimension of an array. */
export type Axes = readonly (readonly string[])[];

/** The shardings of the operands and of the result. */
export interface Shardings {
  readonly operands: readonly Axes[];
  readonly result: Axes;
}

interface Sent {
  readonly opcode: string;
  readonly array: string;
  readonly axis: string;
  readonly bytes: number;
}

/** What devices send, in order. `work` is the number of devices that share the multiplications. */
interface Plan {
  readonly sent: readonly Sent[];
  readonly bytes: number;
  readonly work: number;
}

type Game = Pick<GameMessage, "operands" | "result" | "sizes" | "itemsize" | "axis_names" | "axis_sizes">;
/** The letter that each axis shards in an array; axes that shard none are left out. */
type Placement = Readonly<Record<string, string>>;

/** Returns the bytes of a device's parts of operands and result, without temporary memory. */
export function heldBytes(game: Game, { operands, result }: Shardings): number {
  const parts = [
    ...operands.map((axes, i) => partBytes(game, game.operands[i]!, placementOf(game.operands[i]!, axes))),
  ];
  return parts.reduce((a, b) => a + b, partBytes(game, game.result, placementOf(game.result, result)));
}

/** Returns the plan that sends least; of equal ones, the one that shares the work among most devices. */
export function bestPlan(game: Game, { operands, result }: Shardings): Plan {
  const [first, second] = operands.map((axes, i) => placementOf(game.operands[i]!, axes));
  const goal = placementOf(game.result, result);
  const plans = worksOf(game)
    .filter((work) => areUsed(work, [first!, second!, goal]))
    .map((work) => planOf(game, work, [first!, second!], goal));
  return plans.reduce((best, plan) => (isBetter(plan, best) ? plan : best));
}

/** Returns the fewest bytes of all shardings whose parts fit into the memory; null if none fits. */
export function fewestBytes(game: Game, memory: number): number | null {
  const arrays = [...game.operands, game.result];
  const choices = game.axis_names.map((axis) =>
    arrays.reduce<Placement[][]>(
      (found, letters) =>
        found.flatMap((each) => ["", ...letters].map((l): Placement[] => [...each, l ? { [axis]: l } : {}])),
      [[]],
    ),
  );
  const all = choices.reduce<Placement[][]>(
    (found, options) =>
      found.flatMap((each) => options.map((option) => each.map((placed, i) => ({ ...placed, ...option[i] })))),
    [arrays.map(() => ({}))],
  );
  let fewest: number | null = null;
  const works = worksOf(game);
  for (const [first, second, goal] of all as [Placement, Placement, Placement][]) {
    const held = [first, second, goal].reduce((sum, placed, i) => sum + partBytes(game, arrays[i]!, placed), 0);
    if (held > memory) continue;
    for (const work of works)
      if (areUsed(work, [first, second, goal]))
        fewest = Math.min(fewest ?? Infinity, planOf(game, work, [first, second], goal).bytes);
  }
  return fewest;
}

/** Returns all ways to share the work: each axis shards one letter, or none. */
function worksOf(game: Game): Placement[] {
  const letters = [...new Set(game.operands.join(""))];
  return game.axis_names.reduce<Placement[]>(
    (found, axis) => found.flatMap((work) => [work, ...letters.map((letter) => ({ ...work, [axis]: letter }))]),
    [{}],
  );
}

/** Returns whether all axes that share the work shard an array: partitioners use no other axes. */
function areUsed(work: Placement, arrays: readonly Placement[]): boolean {
  return Object.keys(work).every((axis) => arrays.some((placed) => axis in placed));
}

function isBetter(a: Plan, b: Plan): boolean {
  return a.bytes < b.bytes || (a.bytes === b.bytes && a.work > b.work);
}

function planOf(game: Game, work: Placement, operands: readonly [Placement, Placement], goal: Placement): Plan {
  const sent: Sent[] = [];
  operands.forEach((placed, i) => {
    const letters = game.operands[i]!;
    const needed = Object.fromEntries(Object.entries(work).filter(([, letter]) => letters.includes(letter)));
    convert(game, letters, placed, needed, sent);
  });
  const made = Object.fromEntries(Object.entries(work).filter(([, letter]) => game.result.includes(letter)));
  const partial = Object.keys(work).filter((axis) => !game.result.includes(work[axis]!));
  convert(game, game.result, made, goal, sent, partial);
  const bytes = sent.reduce((sum, each) => sum + each.bytes, 0);
  return { sent, bytes, work: Object.keys(work).reduce((all, axis) => all * sizeOf(game, axis), 1) };
}

/** Adds what converts an array from one placement to another: first what makes parts smaller, gathers last. */
function convert(
  game: Game,
  letters: string,
  from: Placement,
  to: Placement,
  sent: Sent[],
  partial: readonly string[] = [],
): void {
  const placed: Record<string, string> = { ...from };
  const add = (opcode: string, axis: string, share: number): void => {
    sent.push({ opcode, array: letters, axis, bytes: share * partBytes(game, letters, placed) });
  };
  const scattered = (axis: string): number => (sizeOf(game, axis) - 1) / sizeOf(game, axis);
  const axes = game.axis_names;
  for (const axis of axes) if (!placed[axis] && to[axis] && !partial.includes(axis)) placed[axis] = to[axis]!;
  for (const axis of axes)
    if (partial.includes(axis) && to[axis]) {
      add("reduce-scatter", axis, scattered(axis));
      placed[axis] = to[axis]!;
    }
  for (const axis of axes)
    if (placed[axis] && to[axis] && placed[axis] !== to[axis]) {
      add("all-to-all", axis, scattered(axis));
      placed[axis] = to[axis]!;
    }
  for (const axis of axes) if (partial.includes(axis) && !to[axis]) add("all-reduce", axis, 2 * scattered(axis));
  for (const axis of axes)
    if (placed[axis] && !to[axis]) {
      add("all-gather", axis, sizeOf(game, axis) - 1);
      delete placed[axis];
    }
}

function placementOf(letters: string, axes: Axes): Placement {
  return Object.fromEntries(axes.flatMap((each, i) => each.map((axis) => [axis, letters[i]!])));
}

function partBytes(game: Game, letters: string, placed: Placement): number {
  const whole = [...letters].reduce((bytes, letter) => bytes * game.sizes[letter]!, game.itemsize);
  return Object.keys(placed).reduce((bytes, axis) => bytes / sizeOf(game, axis), whole);
}

function sizeOf(game: Game, axis: string): number {
  return game.axis_sizes[game.axis_names.indexOf(axis)]!;
}
