// The widget for anywidget: one `Synced` a model, one `View` a view.

import type { Model } from "./lib/transport.ts";
import { View } from "./shell/view.ts";
import { Synced } from "./state/synced.ts";
import "./styles/index.css";

interface Initialize {
  model: Model;
}

interface Render extends Initialize {
  el: HTMLElement;
}

/** Called by anywidget once a model; the two hooks share what Python sent. */
export default function createExplorer(): {
  initialize(context: Initialize): void;
  render(context: Render): () => void;
} {
  let synced: Synced | null = null;
  const start = (model: Model): Synced => {
    synced = new Synced(model);
    synced.start();
    return synced;
  };
  return {
    initialize: ({ model }) => void start(model),
    render: ({ model, el }) => {
      const view = new View(synced ?? start(model), el);
      return () => view.destroy();
    },
  };
}
