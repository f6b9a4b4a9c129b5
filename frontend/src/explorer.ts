// The entry points of the app: the widget for anywidget, and the same app without a notebook kernel. Each model has one
// `Synced` and one `Local`, which its views share.

import { ExplorableView } from "./explorables/view.ts";
import { placeOf } from "./lib/place.ts";
import type { Model } from "./lib/transport.ts";
import type * as messages from "./messages.ts";
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

/** Called by anywidget once per model. The two hooks share the state that Python sent. */
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
      return show(synced, local, el, String(model.get("explorable") ?? ""));
    },
  };
}

/** Shows the app, or the explorable that the model is for. Returns a function that removes it. */
function show(synced: Synced, local: Local, el: HTMLElement, explorable: string): () => void {
  const view = explorable
    ? new ExplorableView(synced, explorable as Exclude<messages.Explorable, "">, el)
    : new View(synced, local, el);
  return () => view.destroy();
}

/**
 * Shows a recording in an element.
 *
 * @param remedy explains how to get what was not recorded.
 * @param number the number of the exploration on a saved page, whose address may name a place in it; null in a notebook.
 */
export async function mount(
  el: HTMLElement,
  transcript: Uint8Array,
  remedy: string,
  number: number | null,
): Promise<void> {
  const model = await RecordedModel.read(transcript, remedy, number);
  const synced = new Synced(model);
  const local = new Local(synced);
  synced.start();
  show(synced, local, el, synced.session?.explorable ?? "");
  const go = (): void => {
    const place = placeOf(location.hash);
    if (place?.program === number && synced.session?.panes.includes(place.pane as messages.Pane)) model.goTo(place);
  };
  if (number === null) return;
  go();
  addEventListener("hashchange", go);
}
