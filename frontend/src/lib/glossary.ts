// What operations do, in a line each, by StableHLO's names; HLO and jaxprs have others for some of them.

/** Words, and where the specification says more. */
export interface Entry {
  readonly words: string;
  readonly url: string;
}

const XLA = "https://openxla.org/xla/operation_semantics";
const STABLEHLO = "https://openxla.org/stablehlo/spec";
const JAX = "https://docs.jax.dev/en/latest/jax.lax.html";

const WORDS: Readonly<Record<string, string>> = {
  abs: "The size of each element, without its sign.",
  add: "The sum of two arrays, element by element; of booleans, or.",
  add_dependency: "Its first operand, but not before the second is done.",
  after_all: "A token that waits for others: it orders what has side effects.",
  all_gather: "Every device of a group gets the parts of all, one after another along a dimension.",
  all_reduce: "Every device of a group gets the sum (or another reduction) of all their values.",
  all_to_all: "Every device of a group cuts its value into parts and gives one to each: a transposition among devices.",
  and: "And of booleans, or of the bits of integers.",
  async_start: "Begins what it calls and goes on; its -done waits for the result.",
  async_update: "A step of something asynchronous that is under way.",
  async_done: "Waits for what its -start began, and is its result.",
  atan2: "The angle of each pair of elements in the plane.",
  batch_norm_grad: "The gradients of batch normalization.",
  batch_norm_inference: "Normalizes by a mean and a variance that are given.",
  batch_norm_training: "Normalizes by mean and variance of the batch, and gives these too.",
  bitcast: "The same bytes seen as another shape or layout: nothing runs.",
  bitcast_convert: "The same bits seen as another type.",
  broadcast: "Repeats its operand along new dimensions.",
  broadcast_in_dim: "Repeats its operand along dimensions that it lacks, or in which its size is 1.",
  call: "Runs another computation, once.",
  case: "Runs one of several computations, by an index.",
  cbrt: "The cube root of each element.",
  ceil: "Rounds each element up.",
  cholesky: "The triangular factor of a symmetric positive definite matrix.",
  clamp: "Limits each element to lie between two bounds.",
  collective_broadcast: "One device of each group gives its value to the others.",
  collective_permute:
    "Each device sends its value to another one, by pairs of source and target; who gets none has zeros.",
  compare: "Compares two arrays element by element; the result is boolean.",
  complex: "Complex numbers of real and imaginary parts.",
  concatenate: "Puts arrays one after another along a dimension.",
  conditional: "Runs one of several computations, by a boolean or an index that is known at run time.",
  constant: "A value that is part of the program.",
  convert: "The same values in another type.",
  convolution: "Slides a window of weights over an array: products summed in every place.",
  copy: "A copy in other memory, or in another layout.",
  copy_start: "Begins a copy, mostly between memories, and goes on.",
  copy_done: "Waits for the copy that its -start began.",
  cosine: "The cosine of each element.",
  count_leading_zeros: "How many bits from the top are 0.",
  custom_call: "A call to code that XLA does not know: a library's, or a kernel of the user's own.",
  divide: "The quotient of two arrays, element by element.",
  domain: "Marks a border over which attributes such as shardings do not spread.",
  dot: "A product of matrices: elements multiplied along contracted dimensions and summed.",
  dot_general: "A product of matrices with batch and contracting dimensions of any place.",
  dynamic_slice: "A part of an array, of fixed size, that begins where indices say at run time.",
  dynamic_update_slice:
    "The array with a part of it replaced, from where indices say at run time; in place where XLA can.",
  dynamic_reshape: "Another shape for the same elements, with sizes known at run time.",
  erf: "The error function of each element.",
  exponential: "e to the power of each element.",
  exponential_minus_one: "e to the power of each element, less 1, exact near 0.",
  fft: "The discrete Fourier transform along the last dimensions.",
  floor: "Rounds each element down.",
  fusion:
    "Several operations as one kernel: what lies between them is not written to memory. The computation that it calls says which.",
  gather: "Parts of an array, each from where an index says; indexing with arrays becomes this.",
  get_dimension_size: "The size of a dimension, which may be known at run time only.",
  get_tuple_element: "One element of a tuple: nothing runs.",
  if: "Runs one of two computations, by a boolean.",
  imag: "The imaginary parts.",
  infeed: "Takes data that the host feeds.",
  iota: "Counts 0, 1, 2, ... along a dimension.",
  is_finite: "Whether each element is neither infinite nor NaN.",
  log: "The natural logarithm of each element.",
  log_plus_one: "The logarithm of 1 plus each element, exact near 0.",
  logistic: "The sigmoid of each element, 1 / (1 + exp(-x)).",
  map: "Applies a computation to each element.",
  maximum: "The larger of two, element by element.",
  minimum: "The smaller of two, element by element.",
  multiply: "The product of two arrays, element by element.",
  negate: "The negative of each element.",
  not: "The opposite of booleans, or of the bits of integers.",
  opt_barrier: "Its operands, over which XLA moves nothing: `jax.checkpoint` keeps recomputation with it.",
  optimization_barrier: "Its operands, over which XLA moves nothing: `jax.checkpoint` keeps recomputation with it.",
  or: "Or of booleans, or of the bits of integers.",
  outfeed: "Gives data to the host.",
  pad: "Puts values around an array, and between its elements; negative padding cuts.",
  parameter: "An argument of the computation.",
  partition_id: "The number of this device among the partitions.",
  popcnt: "How many bits of each element are 1.",
  power: "Each element to the power of the other array's.",
  ragged_all_to_all: "An all-to-all of parts whose sizes differ and are known at run time.",
  ragged_dot: "Products of groups of rows with a matrix each, groups of sizes known at run time.",
  real: "The real parts.",
  recv: "Begins to receive what another device sends on its channel.",
  recv_done: "Waits for what is received.",
  reduce: "Folds dimensions away with a computation, such as a sum.",
  reduce_precision: "Rounds each element to fewer bits of exponent and mantissa.",
  reduce_scatter: "The sum over the devices of a group, of which each keeps one part.",
  reduce_window: "Folds each place of a sliding window, as pooling does.",
  remainder: "The rest of the division, with the sign of the dividend.",
  replica_id: "The number of this device among the replicas.",
  reshape: "The same elements in another shape, in the same order.",
  reverse: "The elements of some dimensions in the opposite order.",
  rng: "Random numbers by the device's own generator.",
  rng_bit_generator: "Random bits of a counter-based generator, and its next state.",
  rng_get_and_update_state: "The generator's state, which it advances.",
  round_nearest_afz: "Rounds each element to the nearest integer, halves away from 0.",
  round_nearest_even: "Rounds each element to the nearest integer, halves to even ones.",
  rsqrt: "1 over the square root of each element.",
  scan: "A loop over the first dimension that carries a value along and stacks results.",
  scatter: "An array with updates put, or added, where indices say; the transpose of gather.",
  select: "Elements of one array where a predicate is true, of the other elsewhere.",
  select_and_scatter: "Puts values where a window's chosen element was: the gradient of pooling.",
  send: "Begins to send a value to another device on its channel.",
  send_done: "Waits until it is sent.",
  set_dimension_size: "The array with a dimension whose size is known at run time.",
  shift_left: "The bits of each element moved up.",
  shift_right_arithmetic: "The bits of each element moved down, the sign kept.",
  shift_right_logical: "The bits of each element moved down, zeros from the top.",
  sign: "-1, 0 or 1 for each element.",
  sine: "The sine of each element.",
  slice: "A part of an array with fixed bounds and strides.",
  sort: "Arrays in the order of a comparison along a dimension.",
  sqrt: "The square root of each element.",
  stochastic_convert: "Converts with random rounding.",
  subtract: "The difference of two arrays, element by element.",
  tan: "The tangent of each element.",
  tanh: "The hyperbolic tangent of each element.",
  topk: "The largest elements along the last dimension, and where they were.",
  transpose: "The same elements with dimensions in another order.",
  triangular_solve: "Solves a system with a triangular matrix.",
  tuple: "Several values as one: nothing runs.",
  while: "Runs its body as long as its condition holds, and carries a tuple along.",
  xor: "Exclusive or of booleans, or of the bits of integers.",
};

/** Names of jaxprs for the same. */
const OF_JAXPRS: Readonly<Record<string, string>> = {
  add_any: "add",
  broadcast: "broadcast_in_dim",
  ceil: "ceil",
  checkpoint: "call",
  closed_call: "call",
  cond: "conditional",
  conv_general_dilated: "convolution",
  convert_element_type: "convert",
  copy_p: "copy",
  core_call: "call",
  cos: "cosine",
  custom_jvp_call: "call",
  custom_vjp_call: "call",
  div: "divide",
  eq: "compare",
  exp: "exponential",
  exp2: "exponential",
  expm1: "exponential_minus_one",
  ge: "compare",
  gt: "compare",
  integer_pow: "power",
  jit: "call",
  le: "compare",
  log1p: "log_plus_one",
  lt: "compare",
  max: "maximum",
  min: "minimum",
  mul: "multiply",
  ne: "compare",
  neg: "negate",
  pjit: "call",
  pow: "power",
  ppermute: "collective_permute",
  psum: "all_reduce",
  psum2: "all_reduce",
  psum_invariant: "all_reduce",
  psum_scatter: "reduce_scatter",
  reduce_max: "reduce",
  reduce_min: "reduce",
  reduce_sum: "reduce",
  rem: "remainder",
  remat2: "call",
  select_n: "select",
  sin: "sine",
  squeeze: "reshape",
  sub: "subtract",
  top_k: "topk",
};

/** What an opcode of HLO means, such as `all-gather`; null for none that is known. */
export function ofHlo(opcode: string): Entry | null {
  const base = opcode.replace(/-/g, "_");
  const halves = /^(all_reduce|all_gather|collective_permute)_(start|done)$/.exec(base);
  const words = halves
    ? `${halves[2] === "start" ? "Begins, and goes on" : "Waits for what its -start began"}: ${lowered(WORDS[halves[1]!]!)}`
    : WORDS[base];
  return words ? { words, url: `${XLA}#${(halves?.[1] ?? base).replace(/_/g, "")}` } : null;
}

/** What an operation of StableHLO means, without its dialect. */
export function ofStablehlo(operation: string): Entry | null {
  const words = WORDS[operation];
  return words ? { words, url: `${STABLEHLO}#${operation}` } : null;
}

/** What a primitive of a jaxpr means. */
export function ofJaxpr(primitive: string): Entry | null {
  const words = WORDS[OF_JAXPRS[primitive] ?? primitive];
  return words ? { words, url: JAX } : null;
}

function lowered(words: string): string {
  return words[0]!.toLowerCase() + words.slice(1);
}
