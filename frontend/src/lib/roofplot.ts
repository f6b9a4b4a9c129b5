// Where things stand under a roofline: both axes are logarithmic.

/** Flops a byte, and flops a second that are attainable there. */
export interface Place {
  readonly intensity: number;
  readonly rate: number;
}

export interface Roofs {
  readonly flops_per_s: number | null;
  readonly memory_bytes_per_s: number;
}

/** From the smallest to the largest value that is seen on each axis, as powers of ten. */
export interface Range {
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}

/** What is attainable at an intensity. */
export function attainable({ flops_per_s, memory_bytes_per_s }: Roofs, intensity: number): number {
  const byMemory = intensity * memory_bytes_per_s;
  return flops_per_s === null ? byMemory : Math.min(flops_per_s, byMemory);
}

/** Where the roofs meet, in flops a byte; null without a flat one. */
export function ridge({ flops_per_s, memory_bytes_per_s }: Roofs): number | null {
  return flops_per_s === null ? null : flops_per_s / memory_bytes_per_s;
}

/** Whole decades with the ridge and all intensities in them, those that are 0 left out. */
export function rangeOf(roofs: Roofs, intensities: readonly number[]): Range {
  const seen = intensities.filter((intensity) => intensity > 0 && Number.isFinite(intensity));
  const all = [...seen, ridge(roofs) ?? 1];
  const left = Math.floor(Math.log10(Math.min(...all)) - 0.15);
  const right = Math.max(left + 2, Math.ceil(Math.log10(Math.max(...all)) + 0.3));
  const bottom = Math.floor(Math.log10(attainable(roofs, 10 ** left)));
  const top = Math.ceil(Math.log10(attainable(roofs, 10 ** right)) + 0.1);
  return { left, right, bottom, top };
}

/** `10` to a power as people write it: `0.01`, `1`, `100`, `10k`. */
export function decade(power: number): string {
  if (power < 0) return (10 ** power).toFixed(Math.min(20, -power));
  const units = ["", "k", "M", "G", "T", "P", "E"];
  const unit = Math.min(units.length - 1, Math.floor(power / 3));
  return `${10 ** (power - 3 * unit)}${units[unit]}`;
}
