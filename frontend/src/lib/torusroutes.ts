// The links that messages between the chips of a slice take: the model of Python's `Torus.ways` and `Torus.hops`.

export interface Slice {
  /** Number of chips along each axis; the first axis varies fastest in device ids. */
  readonly shape: readonly number[];
  /** Whether the last chip of each axis is linked to the first. */
  readonly wraps: readonly boolean[];
}

/** A path with the share of the data that takes it, as chips from the sender to the receiver. */
interface Way {
  readonly share: number;
  readonly chips: readonly number[];
}

export function placeOfDevice({ shape }: Slice, device: number): number[] {
  let rest = device;
  return shape.map((size) => {
    const along = rest % size;
    rest = Math.floor(rest / size);
    return along;
  });
}

/** Returns the shortest paths, along the first axis first; two of half the data where both ways around are equally long. */
function waysBetween(slice: Slice, from: number, to: number): Way[] {
  const [start, goal] = [placeOfDevice(slice, from), placeOfDevice(slice, to)];
  let ways: { share: number; chips: number[]; place: number[] }[] = [{ share: 1, chips: [from], place: start }];
  slice.shape.forEach((size, axis) => {
    ways = ways.flatMap(({ share, chips, place }) =>
      hopsAlong(slice, axis, goal[axis]! - place[axis]!).map(([part, hops]) => {
        const [taken, at] = [[...chips], [...place]];
        for (let hop = 0; hop < Math.abs(hops); hop++) {
          at[axis] = (at[axis]! + Math.sign(hops) + size) % size;
          taken.push(deviceAt(slice, at));
        }
        return { share: share * part, chips: taken, place: at };
      }),
    );
  });
  return ways;
}

/** Returns all links, in both directions. */
export function linksOf(slice: Slice): [number, number][] {
  const count = slice.shape.reduce((a, b) => a * b, 1);
  return Array.from({ length: count }, (_, device) => device).flatMap((device) => {
    const place = placeOfDevice(slice, device);
    return slice.shape.flatMap((size, axis) =>
      [1, -1].flatMap((way): [number, number][] => {
        const along = place[axis]! + way;
        if ((along < 0 || along >= size) && !hasRing(slice, axis)) return [];
        const next = place.map((at, i) => (i === axis ? (along + size) % size : at));
        return [[device, deviceAt(slice, next)]];
      }),
    );
  });
}

/** Returns the load of each link, as "from,to", and the hops of the longest path, if each pair exchanges one unit at once. */
export function loadsOf(
  slice: Slice,
  pairs: readonly (readonly [number, number])[],
): { loads: Map<string, number>; hops: number } {
  const loads = new Map<string, number>();
  let hops = 0;
  for (const [from, to] of pairs)
    for (const { share, chips } of waysBetween(slice, from, to)) {
      hops = Math.max(hops, chips.length - 1);
      for (let i = 1; i < chips.length; i++) {
        const link = `${chips[i - 1]},${chips[i]}`;
        loads.set(link, (loads.get(link) ?? 0) + share);
      }
    }
  return { loads, hops };
}

function deviceAt({ shape }: Slice, place: readonly number[]): number {
  return place.reduceRight((device, at, axis) => device * shape[axis]! + at, 0);
}

function hasRing({ shape, wraps }: Slice, axis: number): boolean {
  return wraps[axis]! && shape[axis]! > 2;
}

/** Returns the shares of the data with their signed hops along an axis. */
function hopsAlong(slice: Slice, axis: number, distance: number): [number, number][] {
  const size = slice.shape[axis]!;
  if (!hasRing(slice, axis)) return [[1, distance]];
  const ahead = (distance + size) % size;
  if (2 * ahead === size) return [[0.5, ahead], [0.5, -ahead]]; // prettier-ignore
  return [[1, 2 * ahead < size ? ahead : ahead - size]];
}
