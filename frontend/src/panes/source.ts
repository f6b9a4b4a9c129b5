import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The user's Python source, with the lines of several files one after another. */
export const pane = (context: Context): Pane => new TextPane(context, "source");
