import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The jaxpr: the traced program. */
export const pane = (context: Context): Pane => new TextPane(context, "jaxpr");
