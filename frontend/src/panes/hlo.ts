import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The HLO before any compiler pass. */
export const pane = (context: Context): Pane => new TextPane(context, "hlo");
