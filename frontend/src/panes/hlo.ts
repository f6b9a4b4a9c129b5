import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The same program in XLA's own language, before any pass. */
export const pane = (context: Context): Pane => new TextPane(context, "hlo");
