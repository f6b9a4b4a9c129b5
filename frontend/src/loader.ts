// The widget as a notebook stores it: a few hundred bytes that find the app's code on the page, or request it from the
// notebook kernel.

import type { Model } from "./lib/transport.ts";
import { appOnPage, runApp } from "./lib/modules.ts";

type Module = typeof import("./explorer.ts");
type App = ReturnType<Module["default"]>;
type Rendering = Parameters<App["render"]>[0];

/** The name of the code, inserted by Python. */
const CODE = "$CODE";
const FIRST_PAUSE_MS = 250;
const LAST_PAUSE_MS = 8000;
const SILENT_MS = 4000;

export default function createLoader(): {
  initialize(context: { model: Model }): Promise<void>;
  render(context: Rendering): Promise<() => void>;
} {
  let app: Promise<App> | null = null;
  const begin = (model: Model): Promise<App> => (app ??= load(model).then((module) => module.default()));
  return {
    async initialize({ model }) {
      // Not awaited: a notebook that is opened without a kernel still has views.
      void begin(model).then((app) => app.initialize({ model }));
    },
    async render(context) {
      const silent = setTimeout(
        () => (context.el.textContent = "Waiting for the notebook kernel. It may be busy or gone."),
        SILENT_MS,
      );
      const loaded = await begin(context.model);
      clearTimeout(silent);
      context.el.textContent = "";
      return loaded.render(context);
    },
  };
}

async function load(model: Model): Promise<Module> {
  let arrive: (code: DataView) => void = () => {};
  const arrived = new Promise<DataView>((resolve) => (arrive = resolve));
  const listen = (content: { type?: string }, buffers: DataView[]): void => {
    if (content.type === "app_code" && buffers[0]) arrive(buffers[0]);
  };
  model.on("msg:custom", listen);
  // A request may be lost while the notebook kernel creates the widget. While it runs cells, it does not reply.
  let app = appOnPage(CODE);
  for (let pause = FIRST_PAUSE_MS; !app; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
    model.send({ type: "app_code" });
    const code = await Promise.race([arrived, new Promise<null>((resolve) => setTimeout(() => resolve(null), pause))]);
    app = code ? runApp(CODE, code) : appOnPage(CODE);
  }
  model.off("msg:custom", listen);
  return app;
}
