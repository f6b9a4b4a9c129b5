// Links to a line of a saved page: the part of the address behind "#".

/** A place in an exploration: a pane, and optionally a line or an instruction of it. */
export interface Place {
  /** The number of the exploration on the page. */
  readonly program: number;
  readonly pane: string;
  readonly variant: number | null;
  /** The line number as the pane shows it. */
  readonly line: number | null;
  readonly instruction: string | null;
}

/** Returns the place as the fragment of an address, with "#". */
export function fragmentOf({ program, pane, variant, line, instruction }: Place): string {
  const fields = { program: program || null, pane, variant, line, instruction };
  const known = Object.entries(fields).filter(([, value]) => value !== null);
  return `#${new URLSearchParams(known.map(([name, value]) => [name, String(value)])).toString()}`;
}

/** Returns the place of a fragment; null if it names none. */
export function placeOf(fragment: string): Place | null {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const pane = fields.get("pane");
  if (!pane) return null;
  const number = (name: string): number | null => {
    const text = fields.get(name) ?? "";
    return /^\d{1,9}$/.test(text) ? Number(text) : null;
  };
  const instruction = fields.get("instruction");
  return {
    program: number("program") ?? 0,
    pane,
    variant: number("variant"),
    line: instruction ? null : number("line"),
    instruction,
  };
}
