"""Sums of elementwise products of two arrays that one matrix product computes: `(x[:, :, None] * w).sum(1)` is `x @ w`.

Sums of squared differences, `((x[:, None] - y) ** 2).sum(-1)`, are a matrix product and the sums of squares of both arrays. The terms may have
further factors that belong to one array, such as the length scales of a kernel, `(((x[:, None] - y) / scale) ** 2).sum(-1)`. A factor may be a
condition: `where(mask[:, :, None], x[:, None], 0).sum(0)` is `mask.T @ x`.

XLA computes them on the vector unit, one multiplication for each element of the array that is summed. On CPUs only squared
differences are reported: YNNPACK computes other such sums as products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from inspector.analysis.cost.dot_algorithms import Algorithm, by_type
from inspector.analysis.findings.at_line import is_same_line, lines_of
from inspector.analysis.findings.before import MOVING, Before, frames_of, moved_from, uses
from inspector.analysis.findings.dataflow import Value, source
from inspector.analysis.findings.edits import ContractSums, stacks_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import ESTIMATED, Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.shape import element_bits
from inspector.hlo.source import Frame, own_frame
from inspector.support.units import counted, format_array

KIND = "product-as-sum"
_NAMES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}
_CANCELLATION = "Large numbers cancel: distances much smaller than the values lose digits and may be slightly negative. Check the results."
_NAN = "Where a value that the condition leaves out is infinite or NaN, the product is NaN: replace such values first."
_SCALED_BOTH = (
    "{left}, {right} = {left} * scale, {right} * scale  # scale: the square root of the other factors of each term\n"
)
_SCALED_ONE = "{left} = {left} * scale  # scale: the other factors of each term; multiply {right} by those that have its dimensions\n"
_FUSING = frozenset({"kLoop", "kInput"})
_LEAST_SIDE = 8  # narrower products do not use the matrix unit well


class SumOfProducts(NamedTuple):
    """A sum of elementwise products.

    Attributes:
      value: the reduction.
      name: its full name.
      sizes: sizes of the dimensions of the array that is summed.
      left, right: the dimensions that depend on each factor.
      summed: the dimensions that are summed.
      factors: the arrays that are multiplied, before they are repeated.
      is_distance: whether the squares of their differences are summed.
      is_scaled: whether the terms have further factors.
      others: other products that are added to these terms before the sum, or subtracted from them.
      is_subtracted: whether the terms are subtracted from those of another product.
    """

    value: Value
    name: str
    sizes: tuple[int, ...]
    left: frozenset[int]
    right: frozenset[int]
    summed: frozenset[int]
    factors: tuple[Value, Value]
    is_distance: bool
    is_scaled: bool
    others: tuple[SumOfProducts, ...] = ()
    is_subtracted: bool = False

    @property
    def flops(self) -> float:
        """FLOPs of the matrix products."""
        return 2.0 * math.prod(self.sizes) * (1 + len(self.others))

    @property
    def all_factors(self) -> tuple[Value, ...]:
        """The factors, and those of the other products."""
        return sum((each.factors for each in self.others), self.factors)

    @property
    def is_masked(self) -> bool:
        """True if a factor is a condition."""
        return any(each.instruction.shape.element_type == "pred" for each in self.factors)

    @property
    def operand_type(self) -> str:
        """The wider element type of the factors."""
        return max((each.instruction.shape.element_type for each in self.factors), key=element_bits)


def product_as_sum(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each line with such sums."""
    if subject.calls is None:
        return
    is_cpu = subject.compiled.program.platform == "cpu"
    groups: dict[tuple[Frame | None, bool], list[SumOfProducts]] = {}
    for each in sums_of_products(subject.calls, only_distances=is_cpu):
        groups.setdefault((own_frame(frames_of(each.value)), each.is_distance), []).append(each)
    for sums in groups.values():
        kernels = dict.fromkeys(kernel for each in sums for kernel in _kernels(subject, each))
        on_gpu = subject.compiled.program.platform == "gpu" and not any(each.is_distance for each in sums)
        listed, saved = _saved_on_gpu(subject, sums) if on_gpu else _saved_part(subject, sums, [*kernels])
        if kernels and saved > 0:
            yield _finding(subject, sums, listed, saved)


def _is_mean(value: Value, terms: int) -> bool:
    """Reports whether a sum is only used divided by the number of its terms."""
    users = [use.user for use in uses(value)]
    divided = [user for user in users if user is not None and user.instruction.opcode == "divide"]
    return bool(users) and len(divided) == len(users) and all(_is_number(user.operand(1), terms) for user in divided)


def _is_number(value: Value, number: int) -> bool:
    constant = moved_from(value).instruction
    literal = constant.proto.literal
    return constant.opcode == "constant" and [*literal.f32s, *literal.f64s] == [number]


def sums_of_products(calls: Before, only_distances: bool = False) -> Iterator[SumOfProducts]:
    """Yields the sums of elementwise products, or of squared differences, of two arrays that one matrix product computes."""
    for value, name in calls.values(("reduce",)):
        found = _sum(value, name, only_distances)
        if found is not None:
            yield found


def _finding(subject: Subject, sums: Sequence[SumOfProducts], kernels: list[str], saved: float) -> Finding:
    first = sums[0]
    element_type = first.value.instruction.shape.element_type
    names = [subject.argument(source(each)) for each in first.factors]
    what = " and ".join(f"`{name}`" if name else _array(each) for name, each in zip(names, first.factors, strict=True))
    count = sum(1 + len(each.others) for each in sums)
    more = f" and {counted(count - 1, 'other sum')}" if count > 1 else ""
    title = (
        f"The sum of {'squared differences' if first.is_distance else 'elementwise products'} of {what}{more} is computed by the vector unit,"
        f" over {format_array(element_type, first.sizes)}."
        f" {'A matrix product and sums of squares have the same result' if first.is_distance else 'A matrix product has the same terms'}."
    )
    products = (first, *first.others)
    cautions = [_CANCELLATION] * any(each.is_distance for each in products)
    cautions += [_NAN] * any(each.is_masked for each in products)
    if any(each.operand_type == "f32" for each in products):
        cautions.append(
            "At the default precision, matrix products of float32 round their operands. precision='highest' does not, and takes longer."
        )
    terms = math.prod(first.sizes[d] for d in first.summed)
    mean = f" / {terms}" * _is_mean(first.value, terms)
    mapped = "  # of all calls together, outside of jax.vmap" * ("vmap(" in first.name)
    codes = [_code(subject, each, number, element_type) for number, each in enumerate(products)]
    product = codes[0][1] + "".join(
        f" {'-' if each.is_subtracted else '+'} {code}" for each, (_, code) in zip(first.others, codes[1:], strict=True)
    )
    product = f"({product})" if first.others and mean else product
    return subject.finding(
        KIND, title, f"{''.join(scales for scales, _ in codes)}{product}{mean}{mapped}", instructions=kernels, frames=frames_of(first.value), saved_part=saved,
        caution=" ".join(cautions), gain_source=f"{ESTIMATED}, and the peaks for the product",
        edits=(ContractSums(tuple(dict.fromkeys(each.name for each in sums)), stacks_of(each.value.instruction.frames for each in sums)),),
    )  # fmt: skip


def _code(subject: Subject, each: SumOfProducts, number: int, element_type: str) -> tuple[str, str]:
    """Returns the code that scales the arrays of a sum, and that of its product."""
    defaults = ascii_lowercase[2 * number : 2 * number + 2]
    names = [
        subject.argument(source(factor)) or default for default, factor in zip(defaults, each.factors, strict=True)
    ]
    left, right = (
        f"{name}{_conversion(factor, element_type)}" for name, factor in zip(names, each.factors, strict=True)
    )
    scaled = _SCALED_BOTH if each.is_distance else _SCALED_ONE
    wide = f", preferred_element_type=jnp.{_NAMES[element_type]}" * (each.operand_type != element_type)
    product = f'jnp.einsum("{_subscripts(each)}", {left}, {right}{wide})'
    if each.is_distance:
        product = (
            f"({_squares(each, each.left, left, wide)} + {_squares(each, each.right, right, wide)} - 2 * {product})"
        )
    return scaled.format(left=names[0], right=names[1]) * each.is_scaled, product


def _sum(value: Value, name: str, only_distances: bool) -> SumOfProducts | None:
    """Returns a reduction as a sum of products of two arrays, neither of which has all dimensions; None for others."""
    reduction = value.instruction
    shape = reduction.shape
    if shape.is_tuple or shape.element_type not in _NAMES:
        return None
    adds = reduction.to_apply
    if adds is None or adds.root.opcode != "add":
        return None
    addends = _addends(value.operand(0))
    products = list[SumOfProducts]()
    for terms, is_subtracted in addends:
        product = _of_terms(value, name, terms, only_distances)
        if product is None:
            return None
        products.append(product._replace(is_subtracted=is_subtracted))
    return products[0]._replace(others=tuple(products[1:])) if _is_number(value.operand(1), 0) else None


def _addends(terms: Value) -> list[tuple[Value, bool]]:
    """Returns the arrays that terms add up or subtract, each with whether it is subtracted."""
    terms = _past_conversions(terms)
    opcode = terms.instruction.opcode
    if opcode not in ("add", "subtract") or terms.instruction.shape.element_type not in _NAMES:
        return [(terms, False)]
    left, right = map(_addends, terms.operands)
    return left + [(each, is_subtracted ^ (opcode == "subtract")) for each, is_subtracted in right]


def _of_terms(value: Value, name: str, product: Value, only_distances: bool) -> SumOfProducts | None:
    """Returns a reduction of terms that are products; None for others.

    Args:
      value: the reduction.
      name: its full name.
      product: the terms, or an addend of them.
      only_distances: whether only squares of differences are wanted.
    """
    if product.instruction.shape.element_type not in _NAMES:
        return None
    if product.instruction.opcode not in ("multiply", "divide") and not _is_masked(product):
        return None
    sizes = product.instruction.shape.dimensions
    summed = frozenset(value.instruction.dimensions)
    factors, divisors = _factors(product)
    pair = _difference(factors, divisors, summed) or (None if only_distances else _pair(factors, divisors))
    if pair is None:
        return None
    (left, a), (right, b) = map(_varying, pair)
    contracted = summed & left & right
    if not (contracted and left - right - summed and right - left - summed) or (summed - contracted):
        return None
    if any(size > 1 and d not in left | right for d, size in enumerate(sizes)):
        return None  # each sum is there several times
    sides = [math.prod(sizes[d] for d in group) for group in (contracted, left - right, right - left)]
    if min(sides) < _LEAST_SIDE:
        return None
    is_distance, is_scaled = pair[0] not in factors, len(factors) + len(divisors) > 2
    return SumOfProducts(value, name, sizes, left, right, summed, (a, b), is_distance, is_scaled)


def _factors(value: Value) -> tuple[list[Value], list[Value]]:
    """Returns the factors of a product, and its divisors."""
    value = _past_conversions(value)
    opcode = value.instruction.opcode
    if value.instruction.shape.element_type not in _NAMES:
        return [value], []
    if _is_masked(value):
        factors, divisors = _factors(value.operand(1))
        return [value.operand(0), *factors], divisors
    if opcode not in ("multiply", "divide"):
        return [value], []
    (factors, divisors), (others, of_others) = map(_factors, value.operands)
    if opcode == "divide":
        others, of_others = of_others, others
    return factors + others, divisors + of_others


def _past_conversions(value: Value) -> Value:
    """Follows a value through conversions between floats."""
    while value.instruction.opcode == "convert":
        before = value.operand(0)
        if any(each.instruction.shape.element_type not in _NAMES for each in (before, value)):
            break
        value = before
    return value


def _is_masked(value: Value) -> bool:
    """Reports whether a value is another one where a condition holds, and 0 elsewhere: the product with the condition."""
    return value.instruction.opcode == "select" and _is_number(value.operand(2), 0)


def _difference(
    factors: Sequence[Value], divisors: Sequence[Value], summed: frozenset[int]
) -> tuple[Value, Value] | None:
    """Returns the arrays whose squared difference is a factor, if all other factors vary in summed dimensions only."""
    differences = [each for each in factors if each.instruction.opcode == "subtract"]
    others = [*(each for each in factors if each not in differences), *divisors]
    if len(differences) != 2 or differences[0] != differences[1] or any(_varying(each)[0] - summed for each in others):
        return None
    left, right = differences[0].operands
    return left, right


def _pair(factors: Sequence[Value], divisors: Sequence[Value]) -> tuple[Value, Value] | None:
    """Returns the two arrays with the most dimensions, if all other factors belong to one of them: they vary in its dimensions only."""
    dimensions = {number: _varying(each)[0] for number, each in enumerate(factors)}
    if not dimensions:
        return None
    first = max(dimensions, key=lambda number: len(dimensions[number]))
    further = [number for number in dimensions if dimensions[number] - dimensions[first]]
    if not further:
        return None
    second = max(further, key=lambda number: len(dimensions[number]))
    scales = [*dimensions.values(), *(_varying(each)[0] for each in divisors)]
    if not all(each <= dimensions[first] or each <= dimensions[second] for each in scales):
        return None
    left, right = sorted((first, second))
    return factors[left], factors[right]


def _varying(value: Value) -> tuple[frozenset[int], Value]:
    """Returns the dimensions in which a value varies, and the array that is repeated in the others."""
    instruction = value.instruction
    sizes = instruction.shape.dimensions
    everywhere = [d for d, size in enumerate(sizes) if size > 1]
    if instruction.opcode == "broadcast":
        inner, array = _varying(value.operand(0))
        order = [*instruction.dimensions]
        return frozenset(order[d] for d in inner if sizes[order[d]] > 1), array
    if instruction.opcode == "convert" and instruction.shape.element_type in _NAMES:
        return _varying(value.operand(0))
    if instruction.opcode == "reshape":
        before = [size for size in instruction.operands[0].shape.dimensions if size > 1]
        if before == [sizes[d] for d in everywhere]:
            inner, array = _varying(value.operand(0))
            kept = [d for d, size in enumerate(instruction.operands[0].shape.dimensions) if size > 1]
            return frozenset(everywhere[kept.index(d)] for d in inner), array
    return frozenset(everywhere), value


def _kernels(subject: Subject, found: SumOfProducts) -> list[str]:
    """Returns the kernels that compute a sum; none if the compiler made a product of it.

    Other sums may have the same name: those of other lines in a backward pass, and of the same line, such as that of a `logsumexp`, which
    have fewer terms or other results.
    """
    lines = lines_of(found.value.instruction.frames)
    results = math.prod(found.value.instruction.shape.dimensions)
    terms, devices = math.prod(found.sizes), subject.compiled.program.device_count
    kernels = [
        subject.kernels.kernel(each)
        for each in subject.kernels.named([found.name])
        if each.opcode == "reduce"
        and math.prod(each.operands[0].shape.dimensions) * devices >= terms
        and not math.prod(each.shape.dimensions) * devices % results  # parts of the sums have more elements
        and is_same_line(lines_of(each.frames), lines)
    ]
    return [each for each in kernels if each is not None]


def _saved_on_gpu(subject: Subject, sums: Sequence[SumOfProducts]) -> tuple[list[str], float]:
    """Returns the kernels that products replace on a GPU, and the part of their time that is saved.

    A product's kernel also computes the elementwise operations on its result, and reads transposed operands. XLA splits the terms of a
    product with few results over the multiprocessors, which write sums that a second kernel adds up.
    """
    peak = subject.roofline.peak
    if isinstance(peak, Unavailable):
        return [], 0.0
    listed, needed = dict[str, None](), 0.0
    for each in sums:
        algorithm = by_type(each.operand_type, 0, peak)
        if not isinstance(algorithm, Algorithm):
            return [], 0.0
        for kernel in (name for name in _kernels(subject, each) if name not in listed):
            instruction = subject.module.instruction(kernel)
            after, before = _elementwise_user(instruction), _read_by_product(each, instruction)
            listed |= dict.fromkeys([kernel, *before, *([after.name] if after else [])])
            elements = max(math.prod(leaf.dimensions) for leaf in instruction.shape.leaves)
            whole = math.prod(each.sizes[d] for d in range(len(each.sizes)) if d not in each.summed)
            result = sum(leaf.byte_size for leaf in (after or instruction).shape.leaves)
            result += sum(o.shape.byte_size for o in after.operands if o is not instruction) if after else 0
            moved = sum(
                _moved_bytes(one, array) * part
                for one in (each, *each.others)
                for array, part in _device_parts(subject, one, kernel)
            )
            if not each.is_masked:  # a product's kernel computes factors from smaller arrays, such as differences
                moved = min(moved, sum(operand.shape.byte_size for operand in instruction.operands))
            parts = _split(each, elements)
            partial = 4 * elements * parts if parts > 1 else 0
            seconds = max(
                each.flops * elements / whole * algorithm.passes / peak.flops_per_s[algorithm.peak_name],
                (moved + (partial or result)) / peak.memory_bytes_per_s,
            )
            seconds += (partial + result) / peak.memory_bytes_per_s if partial else 0.0
            if each.others:  # every product is written, and a kernel reads and combines them
                seconds += 2 * (1 + len(each.others)) * result / peak.memory_bytes_per_s
            needed += seconds * _executions(subject, [kernel])
    spent = subject.seconds(listed)
    return [*listed], 0.0 if isinstance(spent, Unavailable) or not spent else max(0.0, 1 - needed / spent)


def _device_parts(subject: Subject, each: SumOfProducts, kernel: str) -> Iterator[tuple[Value, float]]:
    """Yields the factors of a sum, each with the part of it that one device has, from 0 to 1.

    If the kernel has the dimensions in another form, the larger factor is taken to be split as the terms are, and the other to be whole.
    """
    local = _reduced(subject, each, kernel)
    terms, own = math.prod(each.sizes), math.prod(local)
    larger = max(each.factors, key=lambda factor: factor.instruction.shape.byte_size)
    has_order = len(local) == len(each.sizes) and all(a % b == 0 for a, b in zip(each.sizes, local, strict=True))
    for factor, own_dimensions in zip(each.factors, (each.left, each.right), strict=True):
        if has_order:
            dimensions = own_dimensions | each.summed
            yield factor, math.prod(local[d] / each.sizes[d] for d in dimensions)
        else:
            yield factor, own / terms if factor == larger else 1.0


def _reduced(subject: Subject, each: SumOfProducts, kernel: str) -> tuple[int, ...]:
    """Returns the dimensions of a device's part of the terms, which a kernel adds up."""
    inside = subject.module.instruction(kernel)
    instructions = inside.called_computations[0].instructions if inside.opcode == "fusion" else (inside,)
    found = [i.operands[0].shape.dimensions for i in instructions if i.opcode == "reduce" and i.op_name == each.name]
    return max(found, key=math.prod, default=each.sizes)


_TILE, _TILES_AT_ONCE, _FEWEST_PARTS = 128 * 128, 128, 4
"""The elements of a tile, the most tiles that XLA computes at once, and the fewest parts into which it splits the terms, from compiles of 108 products for an H100."""


def _split(each: SumOfProducts, elements: int) -> int:
    """Returns the number of parts into which XLA for GPUs splits the terms of a product, a power of two."""
    terms = math.prod(each.sizes[d] for d in each.summed)
    tiles = max(1.0, elements / _TILE)
    parts = math.sqrt(terms / (2 * tiles))
    return 1 << int(math.log2(max(1.0, min(parts, _TILES_AT_ONCE / tiles)))) if parts >= _FEWEST_PARTS else 1


def _moved_bytes(each: SumOfProducts, factor: Value) -> float:
    """Returns the bytes of a factor that a GPU's product reads; the numbers of a condition are written first."""
    shape = factor.instruction.shape
    if shape.element_type != "pred":
        return shape.byte_size
    return 2 * math.prod(shape.dimensions) * element_bits(each.operand_type) / 8


def _elementwise_user(kernel: Instruction) -> Instruction | None:
    """Returns the kernel that combines the result of a kernel element by element, if it is the only one that reads it; otherwise None."""
    users = kernel.users
    if len(users) != 1 or users[0].fusion_kind != "kLoop" or users[0].shape.is_tuple or kernel.shape.is_tuple:
        return None
    (computation,) = users[0].called_computations
    is_elementwise = not any(each.opcode in _REARRANGING for each in computation.instructions)
    same_size = math.prod(users[0].shape.dimensions) == math.prod(kernel.shape.dimensions)
    return users[0] if is_elementwise and same_size else None


_REARRANGING = MOVING - {"broadcast", "reshape", "bitcast", "copy"} | {
    "reduce", "reduce-window", "gather", "scatter", "concatenate", "pad", "dynamic-update-slice", "dot", "convolution",
}  # fmt: skip


def _read_by_product(each: SumOfProducts, kernel: Instruction) -> Iterator[str]:
    """Yields the kernels whose work the product's kernel does when it reads its operands: transposes, and functions of one array.

    An array that is both factors is computed once, in a kernel of its own.
    """
    for operand in kernel.operands:
        inside = operand.called_computations[0].instructions if operand.opcode == "fusion" else (operand,)
        opcodes = {part.opcode for part in inside}
        only_moves = opcodes & {"transpose", "copy"} and opcodes <= {"transpose", "copy", "bitcast", "parameter"}
        is_function = (
            each.factors[0] != each.factors[1]
            and operand.opcode == "fusion"
            and len(operand.operands) == 1
            and not opcodes & (_REARRANGING - {"transpose"})
        )
        if (only_moves or is_function) and len(operand.users) == 1:
            yield operand.name


def _saved_part(subject: Subject, sums: Sequence[SumOfProducts], kernels: list[str]) -> tuple[list[str], float]:
    """Returns the kernels, and the part of their time that products would save, at the peaks of the chip."""
    peak, spent = subject.roofline.peak, subject.seconds(kernels)
    if isinstance(peak, Unavailable) or isinstance(spent, Unavailable):
        return kernels, 0.0
    needed = 0.0
    for each in sums:
        algorithm = by_type(each.operand_type, 0, peak)
        if not isinstance(algorithm, Algorithm):
            return kernels, 0.0
        own = math.prod(_reduced(subject, each, kernels[0])) / math.prod(each.sizes) if kernels else 1.0
        moved = sum(array.instruction.shape.byte_size for array in (*each.all_factors, each.value))
        per_product = max(
            each.flops * algorithm.passes / peak.flops_per_s[algorithm.peak_name], moved / peak.memory_bytes_per_s
        )
        if each.is_distance:
            squared = sum(array.instruction.shape.byte_size for array in each.all_factors)
            if not _is_read_by_fusions(subject, kernels):
                # The product is written, and read to add the sums of squares.
                squared += 2 * each.value.instruction.shape.byte_size
            elements = math.prod(each.value.instruction.shape.dimensions)
            parts = _split(each, int(own * elements)) if subject.compiled.program.platform == "gpu" else 1
            squared += 2 * 4 * elements * parts if parts > 1 else 0
            per_product += squared / peak.memory_bytes_per_s
        needed += own * per_product * _executions(subject, kernels)
    return kernels, max(0.0, 1 - needed / spent) if spent else 0.0


def _is_read_by_fusions(subject: Subject, kernels: Sequence[str]) -> bool:
    """Reports whether only elementwise kernels and reductions read the sums: they then add the sums of squares too."""
    users = [user for name in kernels for user in subject.module.instruction(name).users]
    return bool(users) and all(user.fusion_kind in _FUSING for user in users)


def _executions(subject: Subject, kernels: Sequence[str]) -> float:
    counts = [subject.points[kernel].executions for kernel in kernels]
    return max((float(each) for each in counts if not isinstance(each, Unavailable)), default=1.0)


def _subscripts(found: SumOfProducts) -> str:
    """Returns the subscripts of the product for `einsum`, such as "ab,bc->ac"."""
    letters = [ascii_lowercase[d] for d in range(len(found.sizes))]
    left, right = ("".join(letters[d] for d in sorted(each)) for each in (found.left, found.right))
    result = "".join(letter for d, letter in enumerate(letters) if d not in found.summed and found.sizes[d] > 1)
    return f"{left},{right}->{result}"


def _squares(found: SumOfProducts, dimensions: frozenset[int], name: str, wide: str) -> str:
    """Returns the code for the sums of squares of a factor, in the dimensions of the result, such as 'jnp.einsum("ab,ab->a", x, x)[:, None]'."""
    letters = "".join(ascii_lowercase[d] for d in sorted(dimensions))
    kept = "".join(ascii_lowercase[d] for d in sorted(dimensions - found.summed))
    result = [d for d in range(len(found.sizes)) if d not in found.summed and found.sizes[d] > 1]
    places = ", ".join(":" if d in dimensions else "None" for d in result)
    return f'jnp.einsum("{letters},{letters}->{kept}", {name}, {name}{wide})[{places}]'


def _conversion(factor: Value, element_type: str) -> str:
    """Returns the code that makes numbers of a condition."""
    return f".astype(jnp.{_NAMES[element_type]})" if factor.instruction.shape.element_type == "pred" else ""


def _array(value: Value) -> str:
    shape = value.instruction.shape
    return format_array(shape.element_type, shape.dimensions)
