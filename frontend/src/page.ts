// The script of a stored Explorer, in a notebook output or on a report's page. It runs the app on the recording.
//
// It follows its data, in the element that also contains a readable form of them:
// <div class="inspector-stored ..." data-code="NAME" data-remedy="...">
//   <div class="inspector-form">...</div>
//   <script type="application/x-inspector-transcript">BASE64</script>
//   <script type="application/x-inspector-code" data-code="NAME">BASE64</script>   once per page
//   <script>this</script>
// </div>

import { appOnPage, decoded, type runApp } from "./lib/modules.ts";
import { placeOf } from "./lib/place.ts";

/** If there is a notebook kernel, the widget itself appears within this time and hides the element. */
const PATIENCE_MS = 1500;
const POLL_MS = 500;

/** Waits for the app's code, which may be in an output of the notebook that is not on the page yet. */
async function appNamed(name: string): ReturnType<typeof runApp> {
  for (;;) {
    const app = appOnPage(name);
    if (app) return app;
    await wait(POLL_MS);
  }
}

async function revive(stored: HTMLElement): Promise<void> {
  const isNotebook = stored.dataset["notebook"] !== undefined;
  const number = isNotebook ? null : [...document.querySelectorAll(".inspector-stored")].indexOf(stored);
  // Only what is on screen starts, so a link to a later exploration scrolls there first.
  if (number && placeOf(location.hash)?.program === number) addEventListener("load", () => stored.scrollIntoView());
  do {
    await shown(stored);
    if (isNotebook) await wait(PATIENCE_MS);
  } while (!stored.getClientRects().length);
  const transcript = stored.querySelector('script[type="application/x-inspector-transcript"]');
  const form = stored.querySelector<HTMLElement>(".inspector-form");
  if (!transcript || !form || stored.querySelector(".insp")) return;
  const { mount } = await appNamed(stored.dataset["code"]!);
  const host = document.createElement("div");
  form.before(host);
  await mount(host, decoded(transcript), stored.dataset["remedy"]!, number);
  form.hidden = true;
  if (isNotebook) settle(stored);
}

/** Removes Jupyter's style for HTML outputs, and hides its "model not found" message of the widget above. */
function settle(stored: HTMLElement): void {
  stored.closest(".jp-RenderedHTMLCommon")?.classList.remove("jp-RenderedHTMLCommon");
  const output = stored.closest(".jp-OutputArea-child")?.previousElementSibling;
  if (!(output instanceof HTMLElement)) return;
  const hide = (): void => {
    if (!/model not found/i.test(output.textContent ?? "")) return;
    output.style.display = "none";
    observer.disconnect();
  };
  const observer = new MutationObserver(hide);
  observer.observe(output, { childList: true, subtree: true, characterData: true });
  hide();
}

function shown(element: Element): Promise<void> {
  return new Promise((resolve) => {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      resolve();
    });
    observer.observe(element);
  });
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

const script = document.currentScript;
// VS Code runs a copy of the script that follows the output, instead of the script in the output.
const stored =
  script?.closest<HTMLElement>(".inspector-stored") ??
  script?.parentElement?.querySelector<HTMLElement>(".inspector-stored");
if (stored) void revive(stored);
