import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The lowered program, as JAX hands it to XLA. */
export const pane = (context: Context): Pane => new TextPane(context, "stablehlo");
