// Coordinates of a roofline plot. Both axes are logarithmic.

/** Attainable FLOP/s, or null if unknown, and bytes per second of the main memory. */
interface Roofs {
  readonly flops_per_s: number | null;
  readonly memory_bytes_per_s: number;
}

/** The smallest and largest value on each axis, as powers of ten. */
interface Range {
  readonly left: number;
  readonly right: number;
  readonly bottom: number;
  readonly top: number;
}

/** Returns the attainable FLOP/s at an arithmetic intensity in FLOPs per byte. */
export function attainable({ flops_per_s, memory_bytes_per_s }: Roofs, intensity: number): number {
  const byMemory = intensity * memory_bytes_per_s;
  return flops_per_s === null ? byMemory : Math.min(flops_per_s, byMemory);
}

/** Returns the intensity where the roofs meet, in FLOPs per byte; null without a compute roof. */
export function ridge({ flops_per_s, memory_bytes_per_s }: Roofs): number | null {
  return flops_per_s === null ? null : flops_per_s / memory_bytes_per_s;
}

/** Returns whole decades that contain the ridge, all nonzero intensities and all nonzero FLOP/s. */
export function rangeOf(roofs: Roofs, intensities: readonly number[], rates: readonly number[]): Range {
  const isPlaced = (value: number): boolean => value > 0 && Number.isFinite(value);
  const seen = intensities.filter(isPlaced);
  const achieved = rates.filter(isPlaced);
  const all = [...seen, ridge(roofs) ?? 1];
  const left = Math.floor(Math.log10(Math.min(...all)) - 0.15);
  const right = Math.max(left + 2, Math.ceil(Math.log10(Math.max(...all)) + 0.3));
  const bottom = Math.floor(Math.log10(Math.min(attainable(roofs, 10 ** left), ...achieved)));
  const top = Math.ceil(Math.log10(Math.max(attainable(roofs, 10 ** right), ...achieved)) + 0.1);
  return { left, right, bottom, top };
}

/** Returns a power of ten as text: `0.01`, `1`, `100`, `10k`. */
export function decade(power: number): string {
  if (power < 0) return (10 ** power).toFixed(Math.min(20, -power));
  const units = ["", "k", "M", "G", "T", "P", "E"];
  const unit = Math.min(units.length - 1, Math.floor(power / 3));
  return `${10 ** (power - 3 * unit)}${units[unit]}`;
}
