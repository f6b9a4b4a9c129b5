// One-line descriptions of operations by their StableHLO names, and the other names of some of them in HLO and jaxprs.

/** A description, and a link to the specification. */
export interface Entry {
  readonly words: string;
  readonly url: string;
}

const XLA = "https://openxla.org/xla/operation_semantics";
const STABLEHLO = "https://openxla.org/stablehlo/spec";
const JAX = "https://docs.jax.dev/en/latest/jax.lax.html";

const WORDS: Readonly<Record<string, string>> = {
  abs: "The absolute value of each element.",
  add: "The elementwise sum of two arrays; logical or for booleans.",
  add_dependency: "Its first operand, available only after the second is done.",
  after_all: "A token that waits for other tokens. It orders operations with side effects.",
  all_gather: "Concatenates the parts of all devices of a group along a dimension, on every device.",
  all_reduce: "Computes the sum (or another reduction) of the values of a group, on every device.",
  all_to_all: "Every device of a group splits its value and sends one part to each device: a transpose across devices.",
  and: "Logical and of booleans, bitwise and of integers.",
  async_start: "Starts a computation asynchronously. Its -done operation waits for the result.",
  async_update: "A step of a running asynchronous operation.",
  async_done: "Waits for the asynchronous operation and returns its result.",
  atan2: "The angle of each point (x, y) in the plane, element by element.",
  batch_norm_grad: "The gradients of batch normalization.",
  batch_norm_inference: "Normalizes with a given mean and variance.",
  batch_norm_training: "Normalizes with the mean and variance of the batch, and returns them.",
  bitcast: "The same bytes with another shape or layout. No code runs.",
  bitcast_convert: "The same bits with another type.",
  broadcast: "Repeats its operand along new dimensions.",
  broadcast_in_dim: "Repeats its operand along new dimensions or dimensions of size 1.",
  call: "Runs another computation.",
  case: "Runs one of several computations, selected by an index.",
  cbrt: "The cube root of each element.",
  ceil: "Rounds each element up.",
  cholesky: "The Cholesky factor of a symmetric positive-definite matrix.",
  clamp: "Limits each element to a range.",
  collective_broadcast: "One device of each group sends its value to the others.",
  collective_permute:
    "Sends values between pairs of source and target devices. Devices that receive nothing get zeros.",
  compare: "Compares two arrays element by element. The result is boolean.",
  complex: "Complex numbers from real and imaginary parts.",
  concatenate: "Joins arrays along a dimension.",
  conditional: "Runs one of several computations, selected by a boolean or an index at run time.",
  constant: "A value that is part of the program.",
  convert: "The same values in another type.",
  convolution: "Convolves an array with a kernel of weights.",
  copy: "A copy in another memory or layout.",
  copy_start: "Starts an asynchronous copy, mostly between memories.",
  copy_done: "Waits for an asynchronous copy.",
  cosine: "The cosine of each element.",
  count_leading_zeros: "The number of leading zero bits of each element.",
  custom_call: "A call to code outside XLA, such as a library or a custom kernel.",
  divide: "The elementwise quotient of two arrays.",
  domain: "Marks a boundary that attributes such as shardings do not cross.",
  dot: "A matrix product: multiplies elements and sums over the contracting dimensions.",
  dot_general: "A matrix product with any batch and contracting dimensions.",
  dynamic_slice: "A slice of fixed size, with start indices known at run time.",
  dynamic_update_slice: "The array with a slice replaced, with start indices known at run time. In place if possible.",
  dynamic_reshape: "The same elements in another shape, with sizes known at run time.",
  erf: "The error function of each element.",
  exponential: "e to the power of each element.",
  exponential_minus_one: "e to the power of each element, minus 1, accurate near 0.",
  fft: "The discrete Fourier transform along the last dimensions.",
  floor: "Rounds each element down.",
  fusion:
    "Several operations as one kernel. Intermediate values are not written to memory. The called computation lists the operations.",
  gather: "Slices of an array at given indices. Indexing with arrays compiles to this.",
  get_dimension_size: "The size of a dimension, which may be dynamic.",
  get_tuple_element: "One element of a tuple. No code runs.",
  if: "Runs one of two computations, selected by a boolean.",
  imag: "The imaginary parts.",
  infeed: "Receives data from the host.",
  iota: "Counts 0, 1, 2, ... along a dimension.",
  is_finite: "True for each element that is neither infinite nor NaN.",
  log: "The natural logarithm of each element.",
  log_plus_one: "The natural logarithm of 1 plus each element, accurate near 0.",
  logistic: "The sigmoid of each element, 1 / (1 + exp(-x)).",
  map: "Applies a computation to each element.",
  maximum: "The elementwise maximum of two arrays.",
  minimum: "The elementwise minimum of two arrays.",
  multiply: "The elementwise product of two arrays.",
  negate: "The negative of each element.",
  not: "Logical not of booleans, bitwise not of integers.",
  opt_barrier: "Its operands. XLA moves no operations across it; `jax.checkpoint` uses it to keep recomputation.",
  optimization_barrier:
    "Its operands. XLA moves no operations across it; `jax.checkpoint` uses it to keep recomputation.",
  or: "Logical or of booleans, bitwise or of integers.",
  outfeed: "Sends data to the host.",
  pad: "Pads an array at its edges and between its elements. Negative padding crops.",
  parameter: "An argument of the computation.",
  partition_id: "The partition number of this device.",
  popcnt: "The number of 1 bits of each element.",
  power: "The elementwise power of two arrays.",
  ragged_all_to_all: "An all-to-all of parts with different sizes, known at run time.",
  ragged_dot: "Matrix products of groups of rows, each with its own matrix. Group sizes are known at run time.",
  real: "The real parts.",
  recv: "Starts receiving a value from another device on its channel.",
  recv_done: "Waits until the value is received.",
  reduce: "Reduces dimensions with a computation, such as a sum.",
  reduce_precision: "Rounds each element to fewer bits of exponent and mantissa.",
  reduce_scatter: "Computes the sum over the devices of a group. Each device keeps one part.",
  reduce_window: "Reduces each position of a sliding window, as in pooling.",
  remainder: "The remainder of the division, with the sign of the dividend.",
  replica_id: "The replica number of this device.",
  reshape: "The same elements in another shape, in the same order.",
  reverse: "Reverses the order of elements in some dimensions.",
  rng: "Random numbers from the device's generator.",
  rng_bit_generator: "Random bits from a counter-based generator, and its next state.",
  rng_get_and_update_state: "The state of the generator, which is advanced.",
  round_nearest_afz: "Rounds each element to the nearest integer, ties away from 0.",
  round_nearest_even: "Rounds each element to the nearest integer, ties to even.",
  rsqrt: "The reciprocal of the square root of each element.",
  scan: "A loop over the first dimension that carries a value and stacks its results.",
  scatter: "An array with updates written or added at given indices. The transpose of gather.",
  select: "Elements of one array where a predicate is true, and of another one elsewhere.",
  select_and_scatter: "Writes values to the selected position of each window: the gradient of pooling.",
  send: "Starts sending a value to another device on its channel.",
  send_done: "Waits until the value is sent.",
  set_dimension_size: "The array with a dynamic size of a dimension.",
  shift_left: "Shifts the bits of each element left.",
  shift_right_arithmetic: "Shifts the bits of each element right and keeps the sign.",
  shift_right_logical: "Shifts the bits of each element right and fills with zeros.",
  sign: "The sign of each element: -1, 0 or 1.",
  sine: "The sine of each element.",
  slice: "A slice of an array with fixed bounds and strides.",
  sort: "Sorts arrays along a dimension with a comparison.",
  sqrt: "The square root of each element.",
  stochastic_convert: "Converts to another type with stochastic rounding.",
  subtract: "The elementwise difference of two arrays.",
  tan: "The tangent of each element.",
  tanh: "The hyperbolic tangent of each element.",
  topk: "The largest elements along the last dimension, and their indices.",
  transpose: "Reorders the dimensions of an array.",
  triangular_solve: "Solves a linear system with a triangular matrix.",
  tuple: "Several values as one. No code runs.",
  while: "Runs its body while its condition is true, and carries a tuple.",
  xor: "Exclusive or of booleans or of the bits of integers.",
};

/** StableHLO names of JAX primitives. */
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

/** Returns the entry of an HLO opcode such as `all-gather`; null if unknown. */
export function ofHlo(opcode: string): Entry | null {
  const base = opcode.replace(/-/g, "_");
  const halves = /^(all_reduce|all_gather|collective_permute)_(start|done)$/.exec(base);
  const words = halves
    ? `${halves[2] === "start" ? "Starts asynchronously" : "Waits for completion"}: ${lowered(WORDS[halves[1]!]!)}`
    : WORDS[base];
  return words ? { words, url: `${XLA}#${(halves?.[1] ?? base).replace(/_/g, "")}` } : null;
}

/** Returns the entry of a StableHLO operation, named without its dialect. */
export function ofStablehlo(operation: string): Entry | null {
  const words = WORDS[operation];
  return words ? { words, url: `${STABLEHLO}#${operation}` } : null;
}

/** Returns the entry of a JAX primitive. */
export function ofJaxpr(primitive: string): Entry | null {
  const words = WORDS[OF_JAXPRS[primitive] ?? primitive];
  return words ? { words, url: JAX } : null;
}

function lowered(words: string): string {
  return words[0]!.toLowerCase() + words.slice(1);
}
