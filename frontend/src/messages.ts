// Generated from inspector/widgets/messages/ by generate_messages.py. Do not edit.

export const VERSION = 3;

export type TextPane = "source" | "jaxpr" | "stablehlo" | "hlo" | "optimized";

export type Pane = "source" | "jaxpr" | "stablehlo" | "hlo" | "optimized" | "graph" | "collectives" | "stats" | "passes" | "code" | "run" | "pallas";

export type Language = "python" | "jaxpr" | "mlir" | "hlo" | "llvm" | "ptx" | "asm" | "sass" | "llo" | "text";

export type State = "queued" | "running" | "done" | "failed" | "cancelled";

export type GraphMode = "whole" | "scopes" | "around";

export type Stage = "hlo" | "optimized";

export type Product = "passes" | "code";

export interface Document {
  type: "document";
  pane: TextPane;
  variant: number | null;
  language: Language;
  title: string;
  line_count: number;
}

export interface Error {
  kind: string;
  message: string;
}

export interface LineTable {
  labels: (number | null)[] | null;
  instructions: (string | null)[] | null;
}

export interface Notice {
  type: "notice";
  level: "info" | "error";
  message: string;
}

export interface OriginTable {
  files: string[];
  origins: [string, [number, number][]][][];
  phases: string[];
}

export interface Session {
  type: "session";
  version: number;
  name: string;
  panes: Pane[];
  height_px: number;
  side_by_side: boolean;
  stored_class: string;
  notes: string[];
}

export interface SourceLine {
  file: string;
  line: number | null;
}

export interface Unavailable {
  type: "unavailable";
  pane: TextPane;
  variant: number | null;
  reason: string;
  remedy: string;
}

export interface Variant {
  type: "variant";
  variant: number;
  label: string;
  target: string;
  platform: string;
  options: Record<string, unknown>;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  cached: string;
  no_run: string;
}

export interface VariantRemoved {
  type: "variant_removed";
  variant: number;
}

export interface AddRequest {
  type: "add";
  flag: string;
  value: string;
  target: string;
}

export interface Controls {
  type: "controls";
  targets: string[];
  target: string;
  axes: string;
  can_lower: boolean;
}

export interface Flag {
  name: string;
  type: string;
  default: string;
  values: string[];
  description: string;
  described: boolean;
  channel: string;
  deprecated: boolean;
  targets: string[];
  is_taken: boolean;
}

export interface Flags {
  type: "flags";
  id: number;
  rows: Flag[];
  total: number;
  note: string;
}

export interface FlagsRequest {
  type: "flags";
  id: number;
  search: string;
  target: string;
}

export interface LowerRequest {
  type: "lower";
  axes: string;
}

export interface Said {
  type: "said";
  error: Error | null;
}

export interface Kernel {
  number: number;
  name: string;
  function: string;
  source: SourceLine | null;
  grid: (number | null)[];
  semantics: string[];
  step_count: number | null;
  steps_shown: number;
  facts: [string, string][];
  operands: KernelOperand[];
  memory: KernelMemory | null;
  memory_reason: string;
  params: KernelParam[];
  interpret: boolean;
}

export interface KernelAllocation {
  name: string;
  what: string;
  buffers: number;
  size_bytes: number;
}

export interface KernelMemory {
  chip: string;
  allocations: KernelAllocation[];
  total_bytes: number;
  limit_bytes: number;
  limit_source: string;
  capacity_bytes: number;
  how_sure: string;
  fits: boolean;
  remark: string;
}

export interface KernelOperand {
  name: string;
  role: "input" | "output";
  shape: number[];
  dtype: string;
  block: string;
  block_shape: number[];
  memory_space: string;
  index_map: string;
  block_bytes: number;
  starts: number[][];
  steps: number[];
  revisited: number[];
  overlapping: number[];
  copies: number | null;
  copied_bytes: number | null;
  remarks: string[];
  reason: string;
}

export interface KernelParam {
  name: string;
  type: string;
  value: string;
  default: string;
  choices: string[];
  description: string;
  overridden: boolean;
  reason: string;
}

export interface Kernels {
  type: "kernels";
  variant: number;
  rows: Kernel[];
  trouble: KernelTrouble | null;
}

export interface KernelTrouble {
  summary: string;
  kernel: number | null;
  advice: string[];
  asked_bytes: number | null;
  limit_bytes: number | null;
  allocations: KernelAllocation[];
  source: SourceLine | null;
  help_url: string;
}

export interface Tuned {
  type: "tuned";
  id: number;
  variant: number | null;
  error: Error | null;
}

export interface CodeEntry {
  stage: string;
  kernel: string;
  language: Language;
}

export interface CodeList {
  type: "code";
  variant: number;
  note: string;
}

export interface CodeTable {
  entries: CodeEntry[];
  instructions: Record<string, string[]>;
}

export interface CodeText {
  type: "code_text";
  id: number;
  variant: number;
  index: number;
  reason: string;
  remedy: string;
  error: Error | null;
}

export interface PassChange {
  type: "pass_change";
  id: number;
  variant: number;
  index: number;
  hunks: [number, number, number, number][];
  summary: string;
  error: Error | null;
}

export interface PassList {
  type: "passes";
  variant: number;
  rows: PassRow[];
  note: string;
}

export interface PassRow {
  pipeline: string;
  name: string;
  changed: boolean;
  duration_s: number | null;
  reason: string;
}

export interface Recording {
  type: "recording";
  variant: number;
  product: Product;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
}

export interface CancelRequest {
  type: "cancel";
  variant: number;
}

export interface CodeRequest {
  type: "code";
  id: number;
  variant: number;
  index: number;
}

export interface GraphRequest {
  type: "graph";
  id: number;
  variant: number;
  mode: GraphMode;
  selection: Selection | null;
}

export interface PassRequest {
  type: "pass";
  id: number;
  variant: number;
  index: number;
}

export interface Ready {
  type: "ready";
  client: string;
}

export interface RecordRequest {
  type: "record";
  variant: number;
  product: Product;
}

export interface RemoveRequest {
  type: "remove";
  variant: number;
}

export interface RunRequest {
  type: "run";
  variant: number;
  repeat: number;
}

export interface Selection {
  pane: Pane;
  variant: number | null;
  file: string | null;
  line: number | null;
  origin: string | null;
  instruction: string | null;
}

export interface SelectionChanged {
  type: "select";
  selection: Selection | null;
}

export interface TuneRequest {
  type: "tune";
  id: number;
  variant: number;
  kernel: number;
  values: Record<string, string>;
  interpret: boolean;
}

export interface Collective {
  name: string;
  opcode: string;
  computation: string;
  context: string;
  axes: string[] | null;
  axes_reason: string;
  groups: number[][];
  is_pairs: boolean;
  group_mode: string;
  operand_shapes: string[];
  result_shapes: string[];
  operand_bytes: number;
  executions: number | null;
  executions_reason: string;
  phases: string[];
  source: SourceLine | null;
  source_from: string;
  inserted_by: string;
  members: Member[];
}

export interface Collectives {
  type: "collectives";
  variant: number;
  stage: Stage;
  mesh: Mesh | null;
  note: string;
  rows: Collective[];
}

export interface Diff {
  type: "diff";
  baseline: number;
  variant: number;
  hunks: [number, number, number, number][];
  summary: string;
}

export interface Graph {
  type: "graph";
  id: number;
  variant: number;
  mode: GraphMode;
  svg: string | null;
  caption: string;
  error: Error | null;
}

export interface Member {
  group: number | null;
  position: number | null;
  logical_id: number;
  replica: number;
  partition: number;
  coordinates: number[] | null;
  before: string;
  after: string;
}

export interface Mesh {
  axis_names: string[];
  axis_sizes: number[];
  kind: "replica" | "partition";
  device_ids: number[] | null;
}

export interface Run {
  type: "run";
  variant: number;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  result: RunResult | null;
}

export interface RunArray {
  path: string;
  shape: string;
  dtype: string;
  generated: boolean;
  per_replica: boolean;
  preview: string[];
}

export interface RunResult {
  device_kind: string;
  durations_s: number[];
  median_s: number;
  min_s: number;
  iqr_s: number;
  inputs: RunArray[];
  outputs: RunArray[];
  note: string;
}

export interface Stats {
  type: "stats";
  variant: number;
  rows: StatsRow[];
}

export interface StatsRow {
  key: string;
  label: string;
  unit: "bytes" | "count" | "seconds";
  value: number | null;
  reason: string | null;
  less_is_better: boolean;
}

export type ToBrowser = Session | Document | Unavailable | Variant | VariantRemoved | Stats | Diff | Collectives | Graph | Run | Recording | PassList | PassChange | CodeList | CodeText | Kernels | Tuned | Controls | Flags | Said | Notice;

export type FromBrowser = Ready | RunRequest | CancelRequest | RemoveRequest | GraphRequest | RecordRequest | PassRequest | CodeRequest | TuneRequest | FlagsRequest | AddRequest | LowerRequest | SelectionChanged;
