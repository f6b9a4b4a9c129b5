import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The user's Python, the lines of several files one below the other. */
export const pane = (context: Context): Pane => new TextPane(context, "source");
