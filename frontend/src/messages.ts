// Generated from inspector/widgets/messages/ and inspector/widgets/panes/ by generate_messages.py. Do not edit.

export const VERSION = 3;

export const KEYS = ["pane", "baseline", "variant", "program", "product"] as const;

export type Pane = "source" | "outline" | "jaxpr" | "stablehlo" | "hlo" | "optimized" | "findings" | "pallas" | "stats" | "instructions" | "memory" | "what_if" | "roofline" | "collectives" | "shardings" | "graph" | "passes" | "code" | "options" | "bisect" | "run" | "profile" | "retraces";

export type TextPane = "source" | "jaxpr" | "stablehlo" | "hlo" | "optimized";

export type Product = "assembly" | "buffers" | "passes";

export type Place = "left" | "middle" | "right" | "dock";

export type Language = "python" | "jaxpr" | "mlir" | "hlo" | "llvm" | "ptx" | "asm" | "sass" | "llo" | "text";

export type State = "queued" | "running" | "done" | "failed" | "cancelled";

export type Stage = "hlo" | "optimized";

export type Explorable = "" | "player" | "mesh_bench" | "race" | "sharding_game";

export type StatGroup = "memory" | "time" | "work" | "counts";

export type InstructionColumn = "order" | "name" | "opcode" | "shape" | "flops" | "bytes_accessed" | "executions" | "measured_s" | "least_s" | "source";

export type GroupedBy = "line" | "scope" | "opcode" | "phase" | "kernel";

export type Subject = "memory" | "time" | "place" | "communication" | "donations";

export type BoxKind = "module" | "scope" | "inputs" | "part" | "computation";

export type Search = "values" | "memory" | "time" | "compile_time" | "parts";

export interface Session {
  type: "session";
  version: number;
  name: string;
  panes: Pane[];
  height_px: number;
  side_by_side: boolean;
  is_kernel: boolean;
  stored_class: string;
  notes: string[];
  explorable: Explorable;
}

export interface Focus {
  type: "focus";
  pane: Pane;
  variant: number | null;
  line: number | null;
  instruction: string | null;
}

export interface Existing {
  type: "existing";
  variant: number;
}

export interface TableHead {
  name: string;
  title: string;
  tooltip: string;
  is_number: boolean;
}

export interface TableCell {
  value: string | number | null;
  text: string;
  note: string;
}

export interface Document {
  type: "document";
  pane: TextPane;
  variant: number | null;
  language: Language;
  title: string;
  line_count: number;
}

export interface OriginTable {
  files: string[];
  libraries: boolean[];
  origins: [string, [number, number][]][][];
  phases: string[];
}

export interface LineTable {
  first_line: number;
  labels: (number | null)[] | null;
}

export interface UnavailableMessage {
  type: "unavailable";
  pane: TextPane;
  variant: number | null;
  reason: string;
  remedy: string;
}

export interface Error {
  kind: string;
  message: string;
}

export interface VariantMessage {
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
  origin: string;
  cached: string;
  timing: string;
  warnings: string[];
  pinned: boolean;
  no_run: string;
  supposed: string;
  profile: number;
}

export interface VariantRemoved {
  type: "variant_removed";
  variant: number;
}

export interface SourceLine {
  file: string;
  line: number | null;
  library: string;
}

export interface Page {
  type: "page";
  id: number;
  error: Error | null;
}

export interface Notice {
  type: "notice";
  level: "info" | "error";
  message: string;
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

export interface ControlsMessage {
  type: "controls";
  targets: string[];
  target: string;
  axes: string;
  can_lower: boolean;
  no_compile: string;
  has_previous: boolean;
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

export interface Said {
  type: "said";
  error: Error | null;
}

export interface FlagsRequest {
  type: "flags";
  id: number;
  search: string;
  target: string;
}

export interface AddRequest {
  type: "add";
  flag: string;
  value: string;
  target: string;
}

export interface LowerRequest {
  type: "lower";
  axes: string;
}

export interface TransferMessage {
  sender: number;
  receiver: number;
  blocks: number[];
  adds: boolean;
}

export interface ExchangeMessage {
  opcode: string;
  algorithm: string;
  members: number;
  parts: number;
  steps: TransferMessage[][];
}

export interface AlgorithmCostMessage {
  algorithm: string;
  steps: number;
  hops: number;
  busiest: number;
  sent: number;
}

export interface NetworkMessage {
  name: string;
  bytes_per_s: number;
  latency_s: number;
  source: string;
  costs: AlgorithmCostMessage[];
}

export interface PlayerMessage {
  type: "player";
  opcode: string;
  groups: number[][];
  is_pairs: boolean;
  array_bytes: number;
  operand: string;
  exchanges: ExchangeMessage[];
  networks: NetworkMessage[];
  before: string[];
  after: string[];
}

export interface PlayerRunRequest {
  type: "run_player";
  id: number;
}

export interface PlayerRun {
  type: "player_run";
  id: number;
  error: Error | null;
  device_kind: string;
  before: string[];
  after: string[];
}

export interface MeshBenchMessage {
  type: "mesh_bench";
  axis_names: string[];
  axis_sizes: number[];
  over: string[];
  shape: number[];
  wraps: boolean[];
  devices: number[];
}

export interface MeshRunRequest {
  type: "run_mesh";
  id: number;
  axis_names: string[];
  axis_sizes: number[];
  over: string[];
}

export interface MeshRun {
  type: "mesh_run";
  id: number;
  error: Error | null;
  replica_groups: string;
  groups: number[][];
  after: string[];
}

export interface RaceTable {
  opcode: string;
  networks: NetworkMessage[];
}

export interface RaceMessage {
  type: "race";
  opcode: string;
  members: number;
  smallest_bytes: number;
  largest_bytes: number;
  tables: RaceTable[];
}

export interface GameMessage {
  type: "sharding_game";
  operands: string[];
  result: string;
  sizes: Record<string, number>;
  dtype: string;
  itemsize: number;
  axis_names: string[];
  axis_sizes: number[];
  memory_bytes: number;
}

export interface JudgeRequest {
  type: "judge";
  id: number;
  operands: string[][][];
  result: string[][];
}

export interface JudgedCollective {
  opcode: string;
  axes: string;
  operand: string;
  sent_bytes: number;
}

export interface Judged {
  type: "judged";
  id: number;
  error: Error | null;
  collectives: JudgedCollective[];
  sent_bytes: number;
  memory_bytes: number | null;
}

export interface ChangeMessage {
  kind: string;
  opcode: string;
  before: string[];
  after: string[];
  names: number;
  what: string;
  line: number;
}

export interface DiffMessage {
  type: "diff";
  baseline: number;
  variant: number;
  hunks: [number, number, number, number][];
  following: number[];
  summary: string;
  changes: ChangeMessage[];
  count: number;
}

export interface DiffRequest {
  type: "compare";
  baseline: number;
  variant: number;
}

export interface DiffCostsRequest {
  type: "diff_costs";
  id: number;
  baseline: number;
  variant: number;
}

export interface DiffCosts {
  type: "diff_costs";
  id: number;
  baseline: number;
  variant: number;
  costs: ((number | null)[])[];
  unknown: string[];
  error: Error | null;
}

export interface FindingRow {
  kind: string;
  title: string;
  gain: string;
  gain_source: string;
  share: number;
  remedy: string;
  caution: string;
  instructions: string[];
  source: SourceLine | null;
  no_proof: string;
  verdict: "" | "proven" | "different results" | "no gain" | "worse" | "cannot be tried";
  proof: string;
  changed: number | null;
  can_add: boolean;
}

export interface FindingsMessage {
  type: "findings";
  variant: number;
  summary: string;
  rows: FindingRow[];
  folded: number;
  folded_words: string;
  looked_for: string[];
  unknown: string[];
  error: Error | null;
}

export interface Proving {
  type: "proving";
  variant: number;
  row: number | null;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
}

export interface FindingsRequest {
  type: "findings";
  variant: number;
}

export interface ProveRequest {
  type: "prove";
  variant: number;
  do: "start" | "stop";
  row: number | null;
  time_limit_s: number;
}

export interface AddChangedRequest {
  type: "add_changed";
  variant: number;
  row: number;
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
  fits: boolean | null;
  verdict: string;
  remark: string;
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

export interface KernelMessage {
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

export interface Kernels {
  type: "kernels";
  variant: number;
  rows: KernelMessage[];
  trouble: KernelTrouble | null;
}

export interface Tuned {
  type: "tuned";
  id: number;
  variant: number | null;
  error: Error | null;
}

export interface TuneRequest {
  type: "tune";
  id: number;
  variant: number;
  kernel: number;
  values: Record<string, string>;
  interpret: boolean;
}

export interface StatsRow {
  key: string;
  label: string;
  group: StatGroup;
  unit: "bytes" | "count" | "seconds";
  value: number | null;
  word: string;
  reason: string | null;
  less_is_better: boolean;
}

export interface Stats {
  type: "stats";
  variant: number;
  rows: StatsRow[];
}

export interface InstructionsRequest {
  type: "instructions";
  id: number;
  variant: number;
  column: InstructionColumn | null;
  is_descending: boolean;
  has_fused: boolean;
  profile: number;
  measured_roofs: number;
}

export interface InstructionRow {
  computation: string;
  source: SourceLine | null;
  cells: TableCell[];
}

export interface InstructionTable {
  type: "instruction_table";
  id: number;
  variant: number;
  column: InstructionColumn;
  columns: TableHead[];
  rows: InstructionRow[];
  total: number;
  error: Error | null;
}

export interface MemoryRoom {
  name: string;
  is_main: boolean;
  capacity_bytes: number | null;
  argument_bytes: number;
  output_bytes: number;
  alias_bytes: number;
  constant_bytes: number;
  temp_bytes: number;
  live_bytes: number;
  untraced_bytes: number;
  peak: number;
  curve: [number, number][];
}

export interface MemoryBuffers {
  schedule: string[];
  texts: string[];
  name: number[];
  instruction: number[];
  bytes: number[];
  start: number[];
  end: number[];
  room: number[];
  allocation: number[];
  offset: number[];
  kind: number[];
  scope: number[];
  line: number[];
  phase: number[];
  padding: number[];
  left_out: number;
}

export interface DonationRow {
  cells: TableCell[];
}

export interface MemoryTimeline {
  type: "memory";
  variant: number;
  rooms: MemoryRoom[];
  note: string;
  is_estimated: boolean;
  unused: string[];
  donation_columns: TableHead[];
  donations: DonationRow[];
}

export interface SupposedArgument {
  path: string;
  what: string;
  dtype: string;
  length: number | null;
  shape: number[] | null;
  donated: boolean;
}

export interface SharedDimension {
  length: number;
  what: string;
  paths: string[];
}

export interface EqualLength {
  length: number;
  what: string;
}

export interface Suppositions {
  type: "suppositions";
  arguments: SupposedArgument[];
  shared: SharedDimension[];
  lengths: EqualLength[];
  scopes: string[];
  checkpoints: Record<string, string>;
  note: string;
}

export interface Supposed {
  type: "supposed";
  id: number;
  variant: number | null;
  error: Error | null;
}

export interface SupposeRequest {
  type: "suppose";
  id: number;
  variant: number;
  donate: string[];
  dtype: Record<string, string>;
  batch: Record<string, number>;
  shape: Record<string, number[]>;
  rematerialize: string[];
  checkpoint: string;
}

export interface RooflineRequest {
  type: "roofline";
  id: number;
  variant: number;
  by: "kernel" | "scope" | "line" | "phase" | "opcode" | "roof";
  is_measured: boolean;
  profile: number;
}

export interface RooflinePeak {
  chip: string;
  source: string;
  name: string;
  flops_per_s: number | null;
  memory_bytes_per_s: number;
  reason: string;
}

export interface RooflinePoint {
  name: string;
  opcode: string;
  link_bytes: number;
  flops: number | null;
  measured_s: number | null;
  intensity: number | null;
  bound_by: string;
  least_s: number | null;
  exposed_s: number | null;
  filled: number | null;
  share: number | null;
  unknown: string;
}

export interface RooflineRow {
  instruction: string;
  bound_by: string;
  beside: string[];
  share: number | null;
  source: SourceLine | null;
  cells: TableCell[];
}

export interface RooflineMessage {
  type: "roofline";
  id: number;
  variant: number;
  peak: RooflinePeak | null;
  reason: string;
  can_measure: boolean;
  total: RooflinePoint | null;
  points: RooflinePoint[];
  columns: TableHead[];
  rows: RooflineRow[];
  count: number;
  error: Error | null;
}

export interface LineCostsRequest {
  type: "line_costs";
  variant: number;
  is_measured: boolean;
  profile: number;
}

export interface LineCostTotals {
  measured_s: number | null;
  least_s: number | null;
  flops: number;
  main_memory_bytes: number;
  peak_bytes: number | null;
}

export interface AmountColumns {
  measured_s: number[];
  least_s: number[];
  flops: number[];
  main_memory_bytes: number[];
  peak_bytes: number[];
}

export interface LineCostColumns {
  measured_s: number[];
  least_s: number[];
  flops: number[];
  main_memory_bytes: number[];
  peak_bytes: number[];
  line: number[];
  phase: string[];
}

export interface ScopeCostColumns {
  measured_s: number[];
  least_s: number[];
  flops: number[];
  main_memory_bytes: number[];
  peak_bytes: number[];
  scopes: string[][];
  scope: number[];
  line: number[];
}

export interface LineCostsMessage {
  type: "line_costs";
  variant: number;
  profile: number;
  total: LineCostTotals | null;
  program_s: number | null;
  reasons: Record<string, string>;
  can_measure: boolean;
  unknown: string;
  error: Error | null;
}

export interface HeadlineRequest {
  type: "headline";
  variant: number;
  is_measured: boolean;
  profile: number;
}

export interface HeadlineFact {
  subject: Subject;
  text: string;
  details: string;
  instruction: string;
  source: SourceLine | null;
}

export interface HeadlineMessage {
  type: "headline";
  variant: number;
  profile: number;
  facts: HeadlineFact[];
  can_measure: boolean;
  error: Error | null;
}

export interface MeshMessage {
  axis_names: string[];
  axis_sizes: number[];
  kind: "replica" | "partition";
  device_ids: number[] | null;
  physical_ids: number[] | null;
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

export interface SplitChange {
  had: string;
  needed: string;
  advice: string;
  arrays: string[];
  before: string;
  after: string;
  needed_by: string[];
}

export interface CollectiveMessage {
  name: string;
  opcode: string;
  computation: string;
  context: string;
  axes: string[] | null;
  axes_reason: string;
  groups: number[][];
  groups_cut: boolean;
  group_count: number;
  group_sizes: [number, number];
  is_pairs: boolean;
  group_mode: string;
  operand_shapes: string[];
  result_shapes: string[];
  executions: number | null;
  cells: TableCell[];
  phases: string[];
  source: SourceLine | null;
  source_from: string;
  inserted_by: string;
  resharding: SplitChange | null;
  members: Member[];
}

export interface ReshardingMessage {
  name: string;
  had: string;
  needed: string;
  operand_bytes: number | null;
  source: SourceLine | null;
  advice: string;
}

export interface CollectivesMessage {
  type: "collectives";
  variant: number;
  program: Stage;
  mesh: MeshMessage | null;
  note: string;
  columns: TableHead[];
  rows: CollectiveMessage[];
  exchanges: ExchangeMessage[];
  networks: string[];
}

export interface FullRematerializations {
  type: "full_rematerializations";
  variant: number;
  unheard: string;
  rows: ReshardingMessage[];
}

export interface ObserveRequest {
  type: "observe";
  variant: number;
  apart: boolean;
}

export interface ObservedDevice {
  logical_id: number | null;
  device: number | null;
  coordinates: Record<string, number>;
  before: string[];
  after: string[];
}

export interface ObservationMessage {
  hlo: string;
  optimized: string;
  unnamed: string;
  primitive: string;
  source: SourceLine | null;
  executions: number;
  rows: ObservedDevice[];
  note: string;
}

export interface ObservedMessage {
  type: "observed";
  variant: number;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  device_kind: string;
  items: ObservationMessage[];
}

export interface PriceRequest {
  type: "price";
  id: number;
  variant: number;
  program: Stage;
  name: string;
  network: string;
  algorithm: string;
}

export interface PricedChip {
  place: number[];
  devices: number[];
  logical_ids: (number | null)[];
  groups: (number | null)[];
}

export interface Priced {
  type: "priced";
  id: number;
  variant: number;
  network: string;
  algorithm: string;
  algorithm_text: string;
  algorithms: string[];
  steps: number;
  hops: number;
  latency_s: number;
  busiest_bytes: number;
  most_bytes: number;
  sent_bytes: number;
  received_bytes: number;
  bus_bytes: number | null;
  bytes_per_s: number | null;
  source: string;
  sizes: number[];
  wraps: boolean[];
  idle_links: number;
  link_count: number;
  chips: PricedChip[];
  links: [number, number, number][];
  error: Error | null;
}

export interface ShardedArray {
  kind: "argument" | "result" | "constraint" | "value";
  name: string;
  what: string;
  shape: number[];
  axes: string[][] | null;
  reason: string;
  replicated_over: string[];
  asked: string;
  differs: boolean;
  text: string;
  source: SourceLine | null;
  cells: TableCell[];
}

export interface ShardingList {
  type: "sharding_list";
  variant: number;
  axis_names: string[];
  axis_sizes: number[];
  ids: number[];
  columns: TableHead[];
  rows: ShardedArray[];
  left_out: number;
  has_values: boolean;
  note: string;
}

export interface GraphRequest {
  type: "graph";
  variant: number;
}

export interface GraphTable {
  opcodes: string[];
  operations: string[];
  shapes: string[];
  shape_bytes: number[];
  edge_bytes: number[];
  kinds: BoxKind[];
  titles: string[];
  phases: string[];
  unscheduled: string;
}

export interface GraphMessage {
  type: "graph";
  variant: number;
  instructions: number;
  error: Error | null;
}

export interface GraphCosts {
  type: "graph_costs";
  variant: number;
  error: Error | null;
}

export interface GraphTimesRequest {
  type: "graph_times";
  variant: number;
  profile: number;
}

export interface GraphTimes {
  type: "graph_times";
  variant: number;
  profile: number;
  error: Error | null;
}

export interface GraphBeforeRequest {
  type: "graph_before";
  variant: number;
  baseline: number;
}

export interface GraphBefore {
  type: "graph_before";
  variant: number;
  baseline: number;
  error: Error | null;
}

export interface ModuleCounts {
  instructions: number;
  fusions: number;
  written_bytes: number;
  collectives: number;
}

export interface PassRow {
  pipeline: string;
  name: string;
  changed: boolean;
  duration_s: number | null;
  reason: string;
  counts: ModuleCounts | null;
  is_step: boolean;
  without: string;
  until: string;
  kept: string[];
}

export interface CompileTimePart {
  name: string;
  where: string;
  duration_s: number | null;
  reason: string;
}

export interface PassList {
  type: "passes";
  variant: number;
  columns: TableHead[];
  copied: string[];
  rows: PassRow[];
  note: string;
  start: ModuleCounts | null;
  times: CompileTimePart[];
}

export interface PassRequest {
  type: "pass";
  id: number;
  variant: number;
  index: number;
  since: number | null;
  whole: boolean;
}

export interface PassEvent {
  word: string;
  before: string[];
  after: string[];
  before_count: number;
  after_count: number;
  certainty: string;
  note: string;
}

export interface PassChangeMessage {
  type: "pass_change";
  id: number;
  variant: number;
  index: number;
  since: number | null;
  whole: boolean;
  hunks: [number, number, number, number][];
  summary: string;
  events: PassEvent[];
  event_count: number;
  left_out: number;
  error: Error | null;
}

export interface FollowRequest {
  type: "follow";
  id: number;
  variant: number;
  instruction: string;
  index: number | null;
  op_name: string;
  file: string;
  line: number;
}

export interface PassTouch {
  index: number | null;
  name: string;
  word: string;
  text: string;
  before: string[];
  after: string[];
  certainty: string;
}

export interface Story {
  type: "story";
  id: number;
  variant: number;
  what: string;
  fate: string;
  certainty: string;
  note: string;
  touches: PassTouch[];
  error: Error | null;
}

export interface PassVariantRequest {
  type: "pass_variant";
  variant: number;
  index: number;
  which: "without" | "until";
}

export interface PassGraphRequest {
  type: "pass_graph";
  id: number;
  variant: number;
  index: number;
  is_before: boolean;
}

export interface PassGraph {
  type: "pass_graph";
  id: number;
  variant: number;
  index: number;
  is_before: boolean;
  instructions: number;
  words: string[];
  error: Error | null;
}

export interface CodeList {
  type: "code";
  variant: number;
  note: string;
}

export interface CodeEntry {
  stage: string;
  kernel: string;
  language: Language;
}

export interface CalledLibrary {
  callee: string;
  instructions: string[];
}

export interface CodeTable {
  entries: CodeEntry[];
  instructions: Record<string, string[]>;
  calls: Record<string, CalledLibrary>;
}

export interface KernelFact {
  label: string;
  text: string;
  reason: string;
}

export interface CodeRequest {
  type: "code";
  id: number;
  variant: number;
  index: number;
}

export interface CodeText {
  type: "code_text";
  id: number;
  variant: number;
  index: number;
  facts: KernelFact[];
  reason: string;
  remedy: string;
  error: Error | null;
}

export interface FlagRow {
  flag: string;
  value: string;
  outcome: string;
  words: string;
  warning: string;
  measured_s: number | null;
  estimated_s: number | null;
  exposed_s: number | null;
  peak_bytes: number | null;
  flops: number | null;
  bytes_accessed: number | null;
  kernels: number | null;
  collectives: number | null;
  unknown: string;
}

export interface Scan {
  type: "scan";
  variant: number;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  done: number;
  total: number;
  rows: FlagRow[];
  count: number;
  same: string[];
  unknown: string[];
  left: number;
  left_out: string;
  machine_code: boolean;
  measure: boolean;
}

export interface ScanRequest {
  type: "scan";
  variant: number;
  do: "start" | "resume" | "stop";
  time_limit_s: number;
  machine_code: boolean;
  measure: boolean;
}

export interface ScanAddRequest {
  type: "scan_add";
  variant: number;
  flag: string;
  value: string;
}

export interface BuildOption {
  name: string;
  type: string;
  usual: string;
  values: string[];
  description: string;
  said: string;
}

export interface BuildOptions {
  type: "build_options";
  id: number;
  variant: number;
  rows: BuildOption[];
  flags: string;
  error: Error | null;
}

export interface BuildOptionsRequest {
  type: "build_options";
  id: number;
  variant: number;
}

export interface Built {
  type: "built";
  id: number;
  error: Error | null;
}

export interface BuildRequest {
  type: "build";
  id: number;
  variant: number;
  values: Record<string, string>;
  flags: string;
}

export interface BisectRequest {
  type: "bisect";
  variant: number;
  do: "start" | "stop";
  search: Search;
  time_limit_s: number;
}

export interface SaveReproductionRequest {
  type: "save_reproduction";
  variant: number;
}

export interface BisectStep {
  outcome: string;
  cells: TableCell[];
}

export interface BisectRow {
  source: SourceLine | null;
  cells: TableCell[];
}

export interface BisectResult {
  is_found: boolean;
  facts: [string, string][];
  title: string;
  columns: TableHead[];
  rows: BisectRow[];
  left_out: number;
  stablehlo: string;
}

export interface BisectMessage {
  type: "bisect";
  variant: number;
  search: Search;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  columns: TableHead[];
  steps: BisectStep[];
  result: BisectResult | null;
}

export interface ReproductionSaved {
  type: "reproduction_saved";
  variant: number;
  folder: string;
  error: Error | null;
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
  first_s: number | null;
  dispatch_s: number | null;
  printed: string;
}

export interface OutputDifference {
  path: string;
  count: number;
  differing: number;
  largest: number | null;
  scaled: number | null;
  relative: number | null;
  ulps: number | null;
  first: string;
  nans: [number, number];
  infinities: [number, number];
  unknown: string;
}

export interface RunComparison {
  type: "run_comparison";
  variant: number;
  outputs: string;
  verdict: string;
  is_same: boolean | null;
  speed: string;
  is_faster: boolean | null;
  rows: OutputDifference[];
}

export interface RunRequest {
  type: "run";
  variant: number;
  repeat: number;
}

export interface RunAllRequest {
  type: "run_all";
  repeat: number;
}

export interface RunMessage {
  type: "run";
  variant: number;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  result: RunResult | null;
}

export interface Profiling {
  type: "profiling";
  variant: number;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
}

export interface AccuracyRequest {
  type: "measure_accuracy";
}

export interface AccuracyResult {
  verdict: string;
  words: string;
  departure: string;
  file: string;
  line: number;
  titles: string[];
  rows: string[][];
  notes: string[];
}

export interface AccuracyMessage {
  type: "accuracy";
  variant: number;
  state: State;
  stage: string;
  elapsed_s: number;
  error: Error | null;
  result: AccuracyResult | null;
}

export interface ProfileRequest {
  type: "profile";
  id: number;
  variant: number;
  number: number;
  by: "instruction" | "kernel" | "scope" | "line" | "phase" | "opcode";
}

export interface ProfileTableRow {
  instruction: string;
  share: number;
  source: SourceLine | null;
  cells: TableCell[];
}

export interface ProfileTable {
  type: "profile_table";
  id: number;
  variant: number;
  heading: string;
  notes: string[];
  columns: TableHead[];
  rows: ProfileTableRow[];
  count: number;
  error: Error | null;
}

export interface RetraceRow {
  function: string;
  is_explored: boolean;
  defined_at: SourceLine | null;
  called_at: SourceLine | null;
  call: string;
  count: number;
  explanation: string;
  differences: TableCell[][];
}

export interface RetracesMessage {
  type: "retraces";
  watching: boolean;
  was_watched: boolean;
  since: string;
  first_calls: number;
  columns: TableHead[];
  rows: RetraceRow[];
  left_out: number;
  note: string;
}

export interface WatchRetracesRequest {
  type: "watch_retraces";
  on: boolean;
}

export interface Ready {
  type: "ready";
  browser: string;
}

export interface AppCode {
  type: "app_code";
}

export interface PageRequest {
  type: "page";
  id: number;
  note: string;
}

export interface RecordRequest {
  type: "record";
  variant: number;
  product: Product;
}

export interface CancelRequest {
  type: "cancel";
  variant: number;
}

export interface RemoveRequest {
  type: "remove";
  variant: number;
}

export interface PinRequest {
  type: "pin";
  variant: number;
  pinned: boolean;
}

export interface PreviousRequest {
  type: "previous";
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

export type ToBrowser = Session | Document | UnavailableMessage | VariantMessage | VariantRemoved | Recording | ControlsMessage | Flags | Said | Notice | Focus | Existing | Page | PlayerMessage | PlayerRun | MeshBenchMessage | MeshRun | RaceMessage | GameMessage | Judged | DiffMessage | DiffCosts | FindingsMessage | Proving | Kernels | Tuned | Stats | InstructionTable | MemoryTimeline | Suppositions | Supposed | RooflineMessage | LineCostsMessage | HeadlineMessage | CollectivesMessage | FullRematerializations | ObservedMessage | Priced | ShardingList | GraphMessage | GraphCosts | GraphTimes | GraphBefore | PassList | PassChangeMessage | Story | PassGraph | CodeList | CodeText | Scan | BuildOptions | Built | BisectMessage | ReproductionSaved | RunMessage | RunComparison | Profiling | AccuracyMessage | ProfileTable | RetracesMessage;

export type FromBrowser = Ready | AppCode | PageRequest | RecordRequest | CancelRequest | RemoveRequest | PinRequest | PreviousRequest | FlagsRequest | AddRequest | LowerRequest | SelectionChanged | PlayerRunRequest | MeshRunRequest | JudgeRequest | DiffRequest | DiffCostsRequest | FindingsRequest | ProveRequest | AddChangedRequest | TuneRequest | InstructionsRequest | SupposeRequest | RooflineRequest | LineCostsRequest | HeadlineRequest | ObserveRequest | PriceRequest | GraphRequest | GraphTimesRequest | GraphBeforeRequest | PassRequest | FollowRequest | PassVariantRequest | PassGraphRequest | CodeRequest | ScanRequest | ScanAddRequest | BuildOptionsRequest | BuildRequest | BisectRequest | SaveReproductionRequest | RunRequest | RunAllRequest | AccuracyRequest | ProfileRequest | WatchRetracesRequest;

export type Topic = ToBrowser["type"] | "notebook_kernel";

/** A pane: its default place, and the messages at which it is redrawn. */
export interface Line {
  readonly name: Pane;
  readonly title: string;
  readonly place: Place;
  readonly topics: readonly Topic[];
}

export const PANES: readonly Line[] = [
  { name: "source", title: "Source", place: "left", topics: ["document", "variant", "session", "diff", "notebook_kernel"] },
  { name: "outline", title: "Outline", place: "left", topics: ["document", "variant", "line_costs", "notebook_kernel"] },
  { name: "jaxpr", title: "jaxpr", place: "middle", topics: ["document", "variant", "session", "diff", "notebook_kernel"] },
  { name: "stablehlo", title: "StableHLO", place: "middle", topics: ["document", "variant", "session", "diff", "notebook_kernel"] },
  { name: "hlo", title: "HLO", place: "middle", topics: ["document", "variant", "session", "diff", "notebook_kernel"] },
  { name: "optimized", title: "Optimized HLO", place: "right", topics: ["document", "variant", "session", "diff", "diff_costs", "notebook_kernel"] },
  { name: "findings", title: "Findings", place: "dock", topics: ["findings", "proving", "variant", "notebook_kernel"] },
  { name: "pallas", title: "Pallas", place: "dock", topics: ["kernels", "variant", "notebook_kernel"] },
  { name: "stats", title: "Stats", place: "dock", topics: ["stats", "variant", "diff", "notebook_kernel"] },
  { name: "instructions", title: "Instructions", place: "dock", topics: ["instruction_table", "variant", "line_costs", "notebook_kernel"] },
  { name: "memory", title: "Memory", place: "dock", topics: ["recording", "variant", "memory", "stats", "diff", "notebook_kernel"] },
  { name: "what_if", title: "What if", place: "dock", topics: ["suppositions", "supposed", "stats", "variant", "notebook_kernel"] },
  { name: "roofline", title: "Roofline", place: "dock", topics: ["roofline", "headline", "variant", "notebook_kernel"] },
  { name: "collectives", title: "Collectives", place: "dock", topics: ["collectives", "full_rematerializations", "observed", "priced", "recording", "variant", "document", "notebook_kernel"] },
  { name: "shardings", title: "Shardings", place: "dock", topics: ["sharding_list", "recording", "variant", "document", "notebook_kernel"] },
  { name: "graph", title: "Graph", place: "dock", topics: ["graph", "graph_costs", "graph_times", "graph_before", "pass_graph", "passes", "collectives", "variant", "document", "notebook_kernel"] },
  { name: "passes", title: "Passes", place: "dock", topics: ["recording", "variant", "passes", "pass_change", "story", "notebook_kernel"] },
  { name: "code", title: "Code", place: "dock", topics: ["recording", "variant", "code", "code_text", "notebook_kernel"] },
  { name: "options", title: "Options", place: "dock", topics: ["scan", "build_options", "built", "variant", "notebook_kernel"] },
  { name: "bisect", title: "Bisect", place: "dock", topics: ["bisect", "reproduction_saved", "variant", "document", "notebook_kernel"] },
  { name: "run", title: "Run", place: "dock", topics: ["run", "run_comparison", "profiling", "accuracy", "variant", "notebook_kernel"] },
  { name: "profile", title: "Profile", place: "dock", topics: ["profile_table", "profiling", "run", "variant", "notebook_kernel"] },
  { name: "retraces", title: "Retraces", place: "dock", topics: ["retraces", "document", "notebook_kernel"] },
];
