"""Equal blocks of operations that a Python loop repeats: a program that `scan` makes shorter, and faster to compile.

Blocks are recognized by their matrix products: products with the same call stack and shapes, of which each depends on the one
before. A Python loop over layers traces one such product for each layer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from inspector.analysis.findings.at_line import at_line
from inspector.analysis.findings.before import Before, uses
from inspector.analysis.findings.dataflow import Value, results, updated_parameters
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.products import PRODUCTS, product_word, shapes_text
from inspector.analysis.findings.subject import Subject
from inspector.hlo.source import Frame, phases

KIND = "unrolled-blocks"
_FEWEST = 6
_LEAST_SECONDS = 1.0  # shorter compiles are no reason to change a program
_LEAST_PART = 0.5  # of all instructions are in blocks
_MOST = 0.7
_FURTHER, _SEVERAL = 0.15, 0.25  # of all numbers: those that only a divisor explains, and those that are the divisor
_MOST_VALUES = 2000
_MOST_SAVED = 0.75
"""The part of the compile of all blocks but one that a loop saves; compiles of 6 to 24 blocks saved 0 to 0.79 of it."""

_CAUTION = (
    "The program itself can take longer: XLA does not optimize across the iterations of a loop, and a training step stacks the values and"
    " gradients of all layers. In the cost model, training steps with a loop take 2 to 3 times as long on an H100 and a TPU v5e."
    " Compare compiled.roofline() of both programs. jax.lax.scan(..., unroll=2) is in between."
)
_REMEDY = """layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)  # once, where they are made
x, _ = jax.lax.scan(lambda x, layer: (block(layer, x), None), x, layers)"""

_Key: TypeAlias = tuple[str, tuple[Frame, ...], tuple[int, ...]]
"""Opcode, lines, and the numbers of its shapes in the module."""


def unrolled_blocks(subject: Subject) -> Iterator[Finding]:
    """Yields a finding if most of a program that takes long to compile consists of equal blocks."""
    seconds = subject.compiled.timings.get("compile_s", 0.0)
    if subject.calls is None or seconds < _LEAST_SECONDS:
        return
    alike = count_alike(subject.calls)
    count, products = equal_blocks(subject.calls, alike)
    part = _part_in_blocks(alike, count) if products else 0.0
    if part < _LEAST_PART or _has_own_state(subject.calls, count):
        return
    first = products[0]
    if first.instruction.opcode == "convolution":
        return  # a loop over such blocks took longer to run, and saved little of the compile
    where = at_line(_stack(first))
    yield subject.finding(
        KIND,
        f"About {count} equal blocks of operations, with the {product_word(first.instruction)} {shapes_text(first.instruction)}{where}, follow one another, and XLA"
        " compiles each of them. A scan over stacked parameters compiles one.",
        _REMEDY, instructions=[each.name for each in subject.kernels.named(_names(subject.calls, products))], frames=_stack(first),
        compile_s=_MOST_SAVED * seconds * part * (count - 1) / count, gain_source="the compile time, and the share of instructions in the blocks",
        caution=_CAUTION, is_upper_bound=True,  # the fixed part of a compile, and what the loop adds, are unknown
    )  # fmt: skip


def _has_own_state(calls: Before, count: int) -> bool:
    """Reports whether each block returns a new version of an argument of its own, such as its cache, and none has a backward pass.

    A loop that takes and stacks these versions took longer to compile, and to run, for a TPU.
    """
    own = Counter(
        value.instruction.shape.without_layout()
        for value in results(calls.module)
        if any(between for _, between in updated_parameters(value))
    )
    has_backward = any("backward" in phases(name) for _, name in calls.values(PRODUCTS))
    return not has_backward and any(number >= count for number in own.values())


def equal_blocks(calls: Before, alike: Counter[tuple[int, ...]]) -> tuple[int, list[Value]]:
    """Returns the number of equal blocks, and products that are in all of them; (0, []) if there are fewer than six.

    Args:
      calls: the HLO before optimization.
      alike: how often its operations occur (`count_alike`).
    """
    count = _common_number([number for number in alike.values() if number > 1])
    if count < _FEWEST:
        return 0, []
    groups: dict[_Key, list[Value]] = {}
    for value, _ in calls.values(PRODUCTS):
        if not any(call.opcode == "while" for call in value.calls):
            groups.setdefault(_key(value), []).append(value)
    for products in groups.values():
        chain = _chain(products) if len(products) >= count else []
        if len(chain) >= count:
            return count, chain
    return 0, []


def _common_number(numbers: Sequence[int]) -> int:
    """Returns the largest number of which most given numbers are multiples, or multiples less one; 0 for none.

    Each number weighs as much as it says. A backward pass leaves out an operation of the first or the last layer. If each block has
    several equal operations, such as two products in one line, a divisor of their number explains others too.
    """
    counts = Counter(numbers)

    def explained(number: int) -> int:
        return sum(each * n for each, n in counts.items() if each >= number - 1 and -each % number <= 1)

    whole = sum(numbers)
    found = max((each for each in counts if explained(each) >= _MOST * whole), default=0)
    divisors = (each for each in sorted(counts) if found % each == 0 and counts[each] >= _SEVERAL * len(numbers))
    return next((each for each in divisors if explained(each) - explained(found) > _FURTHER * whole), found)


def _names(calls: Before, blocks: Sequence[Value]) -> list[str]:
    wanted = {_identity(value) for value in blocks}
    return [name for value, name in calls.values(PRODUCTS) if _identity(value) in wanted]


def _identity(value: Value) -> tuple[int, ...]:
    """Returns a sort key, the rows of a value's calls and its own row; operands have smaller keys."""
    return (*(call.row for call in value.calls), value.instruction.row)


def _key(value: Value) -> _Key:
    instruction = value.instruction
    return instruction.opcode, _stack(value), tuple(each.shape_number for each in (instruction, *instruction.operands))


def _stack(value: Value) -> tuple[Frame, ...]:
    """Returns the lines of a value: its own, then those of the calls that lead to it."""
    return (*value.instruction.frames, *(frame for call in reversed(value.calls) for frame in call.frames))


def _depends(value: Value, on: Value) -> bool:
    """Reports whether a value is computed from another one, as far as a limited search goes."""
    goal, waiting, seen = _identity(value), deque([on]), set[tuple[int, ...]]()
    while waiting and len(seen) < _MOST_VALUES:
        for use in uses(waiting.popleft()):
            if use.user is None or (identity := _identity(use.user)) in seen or identity > goal:
                continue
            if identity == goal:
                return True
            seen.add(identity)
            waiting.append(use.user)
    return False


def _chain(products: Sequence[Value]) -> list[Value]:
    """Returns products of which each is computed from the one before, or the other way round. A block may have several."""
    chain = [*products[:1]]
    for product in products[1:]:
        if _are_in_line(chain[-1], product):
            chain.append(product)
    return chain


def _are_in_line(one: Value, other: Value) -> bool:
    """Reports whether one of two values is computed from the other. JAX may write a backward pass in the other order."""
    return _depends(other, one) or _depends(one, other)


def _part_in_blocks(alike: Counter[tuple[int, ...]], count: int) -> float:
    """Returns the part of the instructions that occur at least once in each block, from 0 to 1."""
    return sum(number for number in alike.values() if number >= count) / max(1, alike.total())


def count_alike(calls: Before) -> Counter[tuple[int, ...]]:
    """Returns how often an operation occurs with the same opcode, shape and lines, all of them as numbers."""
    module = calls.module
    columns = module.columns
    opcodes = {*columns.opcode_texts} - {"parameter", "constant", "call", "tuple", "get-tuple-element"}
    codes, shapes, kinds = (
        columns.metadata.codes.tolist(),
        columns.shapes.codes.tolist(),
        columns.opcodes.codes.tolist(),
    )
    numbers: dict[tuple[Frame, ...], int] = {}
    lines = [numbers.setdefault(origin.frames, len(numbers)) for origin in module.known_origins]

    def lines_of(row: int) -> int:
        return lines[codes[row]] if codes[row] >= 0 else -1

    return Counter(
        (kinds[row], shapes[row], lines_of(row), *(lines_of(call.row) for call in reversed(each.calls)))
        for row, called in calls.rows(opcodes)
        for each in called
    )
