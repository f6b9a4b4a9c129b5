// Which devices work together in what nodes do: those of a collective's groups. All others work for themselves.

import type { Collective } from "../messages.ts";
import { type GraphModel, NOWHERE } from "./model.ts";

/** Kinds of groups of devices, and of each node those of the collectives that it is or has inside. */
export interface Parties {
  /** As `data, model: 8 devices`. */
  readonly texts: readonly string[];
  readonly of: ReadonlyMap<number, readonly number[]>;
}

export function partiesOf(model: GraphModel, collectives: readonly Collective[]): Parties {
  const places = new Map<string, number>();
  const of = new Map<number, number[]>();
  for (const collective of collectives) {
    const row = model.rowOf(collective.name);
    if (row === NOWHERE) continue;
    const text = textOf(collective);
    if (!places.has(text)) places.set(text, places.size);
    const place = places.get(text)!;
    for (const node of [row, ...model.path(row)]) {
      const known = of.get(node);
      if (!known) of.set(node, [place]);
      else if (!known.includes(place)) known.push(place);
    }
  }
  return { texts: [...places.keys()], of };
}

function textOf({ axes, group_sizes: [least, most], is_pairs }: Collective): string {
  if (is_pairs) return axes?.length ? `pairs along ${axes.join(", ")}` : "pairs";
  const size = `${least === most ? most : `${least} to ${most}`} devices`;
  return axes?.length ? `${axes.join(", ")}: ${size}` : size;
}
