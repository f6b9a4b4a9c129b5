// The column beside a text with the cost of each line.

import { Compartment, type Extension } from "@codemirror/state";
import { type EditorView, gutter, GutterMarker } from "@codemirror/view";
import { h } from "./dom.ts";
import type { LineCost, LineCosts } from "./linecosts.ts";

const costing = new Compartment();

/** The extension that `setCosts` configures. */
export const costGutter = (): Extension => costing.of([]);

export function setCosts(view: EditorView, costs: LineCosts | null): void {
  view.dispatch({ effects: costing.reconfigure(costs ? columnOf(costs) : []) });
}

function columnOf(costs: LineCosts): Extension {
  return gutter({
    class: "insp-costs",
    lineMarker: (view, block) => {
      const cost = costs.of(view.state.doc.lineAt(block.from).number - 1);
      return cost && new CostMarker(costs, cost);
    },
    initialSpacer: () => new Spacer(),
  });
}

class CostMarker extends GutterMarker {
  constructor(
    private readonly costs: LineCosts,
    private readonly cost: LineCost,
  ) {
    super();
  }

  override eq(other: GutterMarker): boolean {
    return other instanceof CostMarker && other.costs === this.costs && other.cost === this.cost;
  }

  override toDOM(): Node {
    const { costs, cost } = this;
    const width = (amount: number): string => `width:${((100 * amount) / cost.amount) * costs.length(cost)}%`;
    const bars = cost.phases.map(({ phase, amount }) =>
      h("span", { class: "insp-cost-bar", "data-phase": phase.split(" ")[0] || "rest", style: width(amount) }),
    );
    const share = h("span", { class: "insp-cost-share" }, costs.share(cost.amount));
    return h("div", { class: "insp-cost", title: costs.describe(cost) }, ...bars, share);
  }
}

class Spacer extends GutterMarker {
  override toDOM(): Node {
    return h("div", { class: "insp-cost" }, h("span", { class: "insp-cost-share" }, "<0.1 %"));
  }
}
