import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The traced program. */
export const pane = (context: Context): Pane => new TextPane(context, "jaxpr");
