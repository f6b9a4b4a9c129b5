// A button that runs a variant, which also measures the time of each kernel.

import { textButton } from "../lib/controls.ts";
import type * as messages from "../messages.ts";
import type { Context } from "./pane.ts";

/** Number of executions that a run measures. */
export const EXECUTIONS = 20;

/** Returns the reason why a variant cannot be run; "" if it can. */
export function notRunnable({ synced }: Context, variant: messages.VariantMessage): string {
  return synced.remedy || variant.no_run;
}

export function runButton({ synced }: Context, { variant }: messages.VariantMessage): HTMLElement {
  const title = `Runs the program ${EXECUTIONS} times, and then with JAX's profiler`;
  return textButton("Run", title, () => synced.send({ type: "run", variant, repeat: EXECUTIONS }));
}
