// Mounts the app outside Jupyter, with a kernel made of recorded messages.
//
// index.html?scenario=mlp|mesh|recorded|targets|compiling|loading|failed|cancelled|unavailable|waiting|gone|big|columns &theme=light|dark &width=PX &lab=1 &lines=N &hidden
// `window.demo` has the model, every message the app sent, and `emit(content, buffers)`.

import createExplorer from "../../inspector/widgets/static/explorer.js";

const query = new URLSearchParams(location.search);
const scenario = query.get("scenario") ?? "mlp";
const theme = query.get("theme");
if (theme) document.body.dataset.jpThemeLight = String(theme === "light");
if (query.get("lab")) document.body.classList.add("lab");
const host = document.getElementById("host");
host.hidden = query.has("hidden");
if (query.get("width")) host.style.width = `${query.get("width")}px`;

const listeners = new Set();
const closings = new Set();
const changes = new Set();
const sent = [];
let kernel = { ready() {}, graph() {}, run() {}, record() {}, cancel() {}, remove() {}, select() {} };

const model = {
  on: (name, callback) =>
    ({ "msg:custom": listeners, comm_live_update: closings, "change:arrangement": changes })[name]?.add(callback),
  off: (_name, callback) => listeners.delete(callback),
  traits: {},
  get(name) {
    return this.traits[name];
  },
  set(name, value) {
    const isSame = JSON.stringify(this.traits[name]) === JSON.stringify(value);
    this.traits[name] = value;
    if (!isSame && name === "arrangement") changes.forEach((callback) => callback());
  },
  save_changes() {},
  send(content) {
    sent.push(content);
    queueMicrotask(() => kernel[content.type]?.(content));
  },
};

function emit(content, buffers = []) {
  if (content.type === "session") window.demo.session = content;
  for (const listener of listeners) listener(content, buffers);
}

const decode = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const play = (messages, to) =>
  messages.forEach(({ content, buffers }) => emit({ ...content, to }, buffers.map(decode)));
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A kernel that answers from a recording. */
function recorded({ messages, graphs, runs, products }) {
  const reply =
    (product) =>
    async ({ id, index }) => {
      await wait(40);
      const { content, buffers } = products[product].replies[index];
      emit({ ...content, id }, buffers.map(decode));
    };
  let isCancelled = false;
  const run = async ({ variant }) => {
    const state = (state, stage, result = null) =>
      emit({ type: "run", variant, state, stage, elapsed_s: 0, error: null, result });
    state("running", "warming up");
    await wait(120);
    state("done", "done", runs[variant]);
  };
  return {
    record: async ({ variant, product }) => {
      isCancelled = false;
      const state = { type: "recording", variant, product, stage: "compiling", elapsed_s: 0, error: null };
      emit({ ...state, state: "running" });
      await wait(query.has("slow") ? 3000 : 150);
      if (isCancelled) emit({ ...state, state: "cancelled" });
      else if (query.has("refused") || !products?.[product]) emit({ ...state, state: "failed", error: ERROR });
      else play(products[product].messages);
    },
    cancel: () => (isCancelled = true),
    pass: async ({ id, index, since, whole }) => {
      await wait(40);
      const { replies } = products.passes;
      const { content, buffers } = replies[`${index}/${since}/${whole}`] ?? replies[`${index}/null/false`];
      emit({ ...content, id }, buffers.map(decode));
    },
    follow: async ({ id, instruction }) => {
      await wait(40);
      const { content } = products.passes.stories[instruction] ?? Object.values(products.passes.stories)[0];
      emit({ ...content, id });
    },
    code: reply("assembly"),
    ready: ({ browser }) => play(messages, browser),
    graph: async ({ variant }) => {
      await wait(40);
      play(graphs[variant] ?? []);
    },
    run,
    run_all: () => Promise.all(Object.keys(runs).map((variant) => run({ variant: Number(variant) }))),
    remove: ({ variant }) => emit({ type: "variant_removed", variant }),
  };
}

async function load(name) {
  return await (await fetch(`${name}.json`)).json();
}

const variant = (number, state, more = {}) => ({
  type: "variant",
  variant: number,
  label: number ? `xla_flag_${number}=true` : "baseline",
  target: "cpu",
  platform: "cpu",
  options: {},
  state,
  stage: "compiling",
  elapsed_s: 1.4,
  error: null,
  cached: "",
  origin: "",
  timing: "",
  pinned: false,
  no_run: "",
  ...more,
});

const ERROR = {
  kind: "CompilationError",
  message:
    "XLA refused the request: INVALID_ARGUMENT: during context [Unknown]: Expected all replica groups to have the same size, got {0,1,2} and {3}.\n\n" +
    "Got:      xla_cpu_parallel_codegen_split_count=-5\nExpected: an integer of at least 1\n" +
    "To do:    remove the flag, or give it a positive value; the kernel and the other variants are not affected.\n\n" +
    `a_very_long_word_that_must_not_overflow_${"x".repeat(300)}`,
};

async function withoutCompiled(last) {
  const { messages } = await load("mlp");
  const common = messages.filter(
    ({ content: c }) => c.type === "session" || (c.type === "document" && c.variant === null),
  );
  return ({ browser }) => (play(common, browser), last.forEach((m) => emit({ ...m, to: browser })));
}

/** Side by side: one that is done, one under way, one that failed, one cancelled. */
async function withStates() {
  const { messages } = await load("targets");
  const first = messages.filter(({ content: c }) => c.type !== "variant" && (c.variant ?? 0) === 0);
  const more = [
    variant(1, "running", { label: "tpu:v5e:2x4", target: "tpu:v5e:2x4", platform: "tpu" }),
    variant(2, "failed", { label: "gpu:h100:8", target: "gpu:h100:8", platform: "gpu", error: ERROR }),
    variant(3, "cancelled", { label: "cpu:4", target: "cpu:4" }),
  ];
  const all = [variant(0, "done", { target: "cpu:8" }), ...more];
  return ({ browser }) => (play(first, browser), all.forEach((m) => emit({ ...m, to: browser })));
}

async function gzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new DataView(await new Response(stream).arrayBuffer());
}

/** A synthetic program: `count` lines of HLO from 2,000 source lines. */
async function bigDocument(pane, language, count, number = 0) {
  const origins = [];
  for (let i = 0; i < 20000; i++)
    origins.push([
      `jit(train)/layer_${i % 24}/op_${i}`,
      [
        [0, 1 + (i % 2000)],
        [0, 2001],
      ],
    ]);
  const lines = ["HloModule big", "", "ENTRY %main.1 (p: f32[128,128]) -> f32[128,128] {"];
  const index = new Int32Array(count).fill(-1);
  const defining = new Uint8Array(count);
  for (let i = 3; i < count - 1; i++) {
    const origin = (i * 7919) % 20000;
    index[i] = origin;
    defining[i] = 1;
    lines.push(
      `  %multiply.${i} = f32[128,128]{1,0} multiply(f32[128,128]{1,0} %add.${i - 1}, f32[128,128]{1,0} %p), metadata={op_name="${origins[origin][0]}" stack_frame_id=${origin}}`,
    );
  }
  lines.push("}");
  const text = new TextEncoder();
  const buffers = await Promise.all(
    [
      text.encode(lines.join("\n")),
      index,
      text.encode(JSON.stringify({ files: ["train.py"], origins: origins.map((origin) => [origin]) })),
      text.encode(JSON.stringify({ labels: null })),
      defining,
    ].map(gzip),
  );
  return {
    content: {
      type: "document",
      pane,
      variant: pane === "optimized" ? number : null,
      language,
      title: "",
      line_count: count,
    },
    buffers,
  };
}

async function bigSource() {
  const text = new TextEncoder();
  const lines = Array.from({ length: 2001 }, (_, i) => `x_${i} = layer(x_${i - 1}, params[${i}])  # line ${i + 1}`);
  const origins = lines.map((_, i) => ["", [[0, i + 1]]]);
  const tables = [
    text.encode(lines.join("\n")),
    Int32Array.from(lines, (_, i) => i),
    text.encode(JSON.stringify({ files: ["train.py"], origins: origins.map((origin) => [origin]) })),
    text.encode(JSON.stringify({ labels: null })),
    new Uint8Array(),
  ];
  return {
    content: { type: "document", pane: "source", variant: null, language: "python", title: "", line_count: 2001 },
    buffers: await Promise.all(tables.map(gzip)),
  };
}

/** A kernel with a text of `lines` lines for each of `panes`; of the optimized HLO one a variant. */
async function bigKernel(panes = ["hlo", "optimized"]) {
  const count = Number(query.get("lines") ?? 230000);
  const documents = [await bigSource()];
  const variants = [];
  for (const pane of panes) {
    documents.push(await bigDocument(pane, "hlo", count, variants.length));
    if (pane === "optimized") variants.push(variant(variants.length, "done", { elapsed_s: 39 }));
  }
  const { messages } = await load("mlp");
  const session = messages.find(({ content }) => content.type === "session").content;
  return {
    ready() {
      emit({ ...session, side_by_side: variants.length > 1 });
      variants.forEach((v) => emit(v));
      window.demo.documentsSentAt = performance.now();
      for (const { content, buffers } of documents) emit(content, buffers);
    },
  };
}

const scenarios = {
  mlp: async () => recorded(await load("mlp")),
  recorded: async () => recorded(await load("recorded")),
  mesh: async () => recorded(await load("mesh")),
  targets: async () => recorded(await load("targets")),
  compiling: async () => ({ ready: await withStates() }),
  columns: () => bigKernel(["optimized", "optimized", "optimized"]),
  loading: async () => ({ ready: await withoutCompiled([variant(0, "running"), variant(1, "queued")]) }),
  failed: async () => ({ ready: await withoutCompiled([variant(0, "failed", { error: ERROR })]) }),
  cancelled: async () => ({ ready: await withoutCompiled([variant(0, "cancelled")]) }),
  unavailable: async () => ({
    ready: async () => {
      const { messages } = await load("mlp");
      play(messages.filter(({ content }) => content.type === "session"));
      for (const pane of ["source", "jaxpr"]) {
        emit({
          type: "unavailable",
          pane,
          variant: null,
          reason: "the program was given as HLO text, which has no Python",
          remedy: "Give explore() the function instead.",
        });
      }
      emit({
        type: "notice",
        level: "info",
        message: "HLO text carries no source lines: panes cannot be linked by source.",
      });
    },
  }),
  waiting: async () => kernel,
  gone: async () => {
    const answers = recorded(await load("mlp"));
    const close = () => closings.forEach((callback) => callback());
    return { ...answers, ready: (request) => (answers.ready(request), setTimeout(close, 50)) };
  },
  big: () => bigKernel(),
};

window.demo = { model, sent, emit, createExplorer };
kernel = await scenarios[scenario]();
const widget = createExplorer();
window.demo.startedAt = performance.now();
widget.initialize({ model });
window.demo.destroy = widget.render({ model, el: host });
window.demo.renderAgain = (el) => widget.render({ model, el });
