// The parameters of an entry computation in HLO text, which are folded if there are many.

/** Smallest number of parameters that are folded. */
const FOLDED_PARAMETERS = 8;
const PARAMETER = /^ +(ROOT )?%?[^ ]+ = .* parameter\(\d+\)/;

/** Returns the first and last line, from 0, of the parameters at the beginning of the entry computation; null for a few. */
export function parameterBlock(lines: readonly string[]): [number, number] | null {
  const entry = lines.findIndex((line) => line.startsWith("ENTRY "));
  if (entry < 0) return null;
  let end = entry + 1;
  while (end < lines.length && PARAMETER.test(lines[end]!)) end++;
  return end - entry > FOLDED_PARAMETERS ? [entry + 1, end - 1] : null;
}
