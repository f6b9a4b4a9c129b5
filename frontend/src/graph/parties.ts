// Categories of nodes: the devices that work together in them, or the effects of a pass.

import { plural } from "../lib/format.ts";
import type { CollectiveMessage } from "../messages.ts";
import { type GraphModel, NOWHERE, type Parties } from "./model.ts";

/** Returns the device groups of the collectives. All other instructions have none. */
export function partiesOf(model: GraphModel, collectives: readonly CollectiveMessage[]): Parties {
  const known = collectives.filter(({ name }) => model.rowOf(name) !== NOWHERE);
  const texts = [...new Set(known.map(textOf))];
  const rows = known.map((each): [number, number] => [model.rowOf(each.name), texts.indexOf(textOf(each))]);
  return { texts, of: gathered(model, rows) };
}

/** Returns the effects of a pass. `done` has an index into `words` for each instruction, from 1; 0 for no effect. */
export function doneIn(model: GraphModel, words: readonly string[], done: Uint8Array): Parties {
  const rows = [...done.entries()]
    .filter(([, word]) => word > 0)
    .map(([row, word]): [number, number] => [row, word - 1]);
  return { texts: words, of: gathered(model, rows) };
}

function gathered(model: GraphModel, rows: readonly (readonly [number, number])[]): Map<number, number[]> {
  const of = new Map<number, number[]>();
  for (const [row, place] of rows) {
    for (const node of [row, ...model.path(row)]) {
      const known = of.get(node);
      if (!known) of.set(node, [place]);
      else if (!known.includes(place)) known.push(place);
    }
  }
  return of;
}

function textOf({ axes, group_sizes: [least, most], is_pairs }: CollectiveMessage): string {
  if (is_pairs) return axes?.length ? `pairs along ${axes.join(", ")}` : "pairs";
  const size = least === most ? plural(most, "device") : `${least} to ${most} devices`;
  return axes?.length ? `${axes.join(", ")}: ${size}` : size;
}
