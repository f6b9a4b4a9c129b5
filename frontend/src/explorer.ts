// The widget for anywidget: one `Synced` and one `Local` a model, so that its views are in step, one `View` a view; and
// the same without a notebook kernel.

import type { Model } from "./lib/transport.ts";
import { View } from "./shell/view.ts";
import { Local } from "./state/local.ts";
import { RecordedModel } from "./state/recorded.ts";
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
  let state: { synced: Synced; local: Local } | null = null;
  const start = (model: Model): NonNullable<typeof state> => {
    const synced = new Synced(model);
    state = { synced, local: new Local(synced) };
    synced.start();
    return state;
  };
  return {
    initialize: ({ model }) => void start(model),
    render: ({ model, el }) => {
      const { synced, local } = state ?? start(model);
      const view = new View(synced, local, el);
      return () => view.destroy();
    },
  };
}

/** Shows what was recorded in an element. `remedy` says what a reader can do who wants more. */
export async function mount(el: HTMLElement, transcript: Uint8Array, remedy: string): Promise<void> {
  const synced = new Synced(await RecordedModel.read(transcript, remedy));
  const local = new Local(synced);
  synced.start();
  new View(synced, local, el);
}
