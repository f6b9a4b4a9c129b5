// Generated from inspector/widgets/panes/registry.py by generate_messages.py. Do not edit.

import type { Pane as Name } from "./messages.ts";
import type { Context, Pane } from "./panes/pane.ts";
import { pane as source } from "./panes/source.ts";
import { pane as outline } from "./panes/outline.ts";
import { pane as jaxpr } from "./panes/jaxpr.ts";
import { pane as stablehlo } from "./panes/stablehlo.ts";
import { pane as hlo } from "./panes/hlo.ts";
import { pane as optimized } from "./panes/optimized.ts";
import { pane as findings } from "./panes/findings.ts";
import { pane as pallas } from "./panes/pallas.ts";
import { pane as stats } from "./panes/stats.ts";
import { pane as instructions } from "./panes/instructions.ts";
import { pane as memory } from "./panes/memory.ts";
import { pane as what_if } from "./panes/what_if.ts";
import { pane as roofline } from "./panes/roofline.ts";
import { pane as collectives } from "./panes/collectives.ts";
import { pane as shardings } from "./panes/shardings.ts";
import { pane as graph } from "./panes/graph.ts";
import { pane as passes } from "./panes/passes.ts";
import { pane as code } from "./panes/code.ts";
import { pane as options } from "./panes/options.ts";
import { pane as bisect } from "./panes/bisect.ts";
import { pane as run } from "./panes/run.ts";
import { pane as profile } from "./panes/profile.ts";
import { pane as retraces } from "./panes/retraces.ts";

export const MAKERS: Record<Name, (context: Context) => Pane> = {
  source,
  outline,
  jaxpr,
  stablehlo,
  hlo,
  optimized,
  findings,
  pallas,
  stats,
  instructions,
  memory,
  what_if,
  roofline,
  collectives,
  shardings,
  graph,
  passes,
  code,
  options,
  bisect,
  run,
  profile,
  retraces,
};
