import type { Context, Pane } from "./pane.ts";
import { TextPane } from "./text.ts";

/** The lowered program, as JAX passes it to XLA. */
export const pane = (context: Context): Pane => new TextPane(context, "stablehlo");
