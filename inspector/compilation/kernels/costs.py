"""Costs of Pallas kernels for TPUs: the work counted in the body, or else the cost that the author declares.

A worker counts (`kernel_counts`) and returns numbers by name, like XLA's own counts; `body_of` and `doubts_of` read them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping

from inspector.compilation.kernels.walk import KernelWalk, Window, walk
from inspector.errors import About, AtLeast, Missing
from inspector.hlo.backend_config import declared_costs, kernel_body
from inspector.hlo.module import Instruction, Module

KERNEL = "tpu_custom_call"
"""Target of the calls of Pallas kernels for TPUs."""

_BYTES = "bytes accessed"
_PREFIX = "kernel "
_STEPS, _UNWALKED, _VMEM = f"{_PREFIX}steps", f"{_PREFIX}unwalked steps", f"{_PREFIX}vmem bytes"
_DIMENSIONS, _CONDITIONS, _LOOPS = f"{_PREFIX}dimensions", f"{_PREFIX}conditions", f"{_PREFIX}loops"
_OWN_COPIES, _BLOCKS, _PRODUCT = f"{_PREFIX}own copies", f"{_PREFIX}blocks ", f"{_PREFIX}product "
_GRID, _WINDOW = f"{_PREFIX}grid ", f"{_PREFIX}window "
_ONE_STEP, _FIRST_PART = "counted with one step of each dynamic grid dimension", "counted by the first part of its grid"


@dataclasses.dataclass(frozen=True, slots=True)
class KernelBody:
    """Details of the work in a kernel's body, in one execution of the kernel.

    Attributes:
      products: FLOPs in matrix products by element type and precision of the operands (0 default, 2 highest).
      vmem_bytes: bytes that registers load from and store to VMEM.
      grid: number of steps along each grid dimension, with 1 for each dimension known only at run time.
      operands: the blocks of each operand of the call, by its number.
      results: the blocks of each array that the call returns, by its number.
    """

    products: tuple[tuple[str, int, float], ...]
    vmem_bytes: float
    grid: tuple[int, ...] = ()
    operands: Mapping[int, Window] = dataclasses.field(default_factory=dict)
    results: Mapping[int, Window] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class KernelDoubts:
    """The unknown parts of a kernel's numbers.

    Attributes:
      operations: of the operations.
      copies: of the bytes.
      is_estimate: whether a part of the grid counts like another one, so that the numbers are not lower bounds.
    """

    operations: tuple[Missing, ...]
    copies: tuple[Missing, ...]
    is_estimate: bool


def kernel_counts(module: bytes, read: Callable[[bytes], str]) -> dict[str, float] | None:
    """Returns the counts of a module that calls a kernel and nothing else; None for any other module or an unknown form.

    Args:
      module: a serialized `xla.HloModuleProto` of a single instruction.
      read: returns a kernel's body as JSON (`_jax/modules/mosaic.py`); raises ValueError if it cannot be read.
    """
    if KERNEL.encode() not in module:
        return None
    call = Module.from_proto(module).entry.root
    body = kernel_body(call) if call.custom_call_target == KERNEL else None
    if body is None:
        return None
    try:
        return _as_counts(walk(json.loads(read(body))), len(call.operands), len(call.shape.leaves))
    except (ValueError, LookupError, TypeError, ArithmeticError):  # the form of another version of JAX
        return None


def _as_counts(walked: KernelWalk, operands: int, results: int) -> dict[str, float]:
    """Returns counts under XLA's names, with the details of a kernel under other names.

    Args:
      walked: the counted work.
      operands: number of operands of the call, which begin with the sizes of dynamic grid dimensions.
      results: number of arrays that the call returns.

    Raises:
      ValueError: the kernel has other operands.
    """
    inputs = operands - walked.unknown_dimensions
    if inputs + results != walked.arguments:
        raise ValueError(
            f"the kernel has {walked.arguments} arguments, and its call {inputs} operands and {results} results"
        )
    work = walked.work
    counts = {name: work.get(name, 0.0) for name in ("flops", "transcendentals")}
    written = 0.0
    for name, amount in work.items():
        kind, _, rest = name.partition(" ")
        if kind == "product":
            counts[_PRODUCT + rest] = amount
        elif kind == "copied":
            counts[_BYTES] = counts.get(_BYTES, 0.0) + amount
            if rest and int(rest) < inputs:
                counts[f"{_BYTES}{int(rest) + walked.unknown_dimensions}{{}}"] = amount
            else:
                written += amount
                if rest and results > 1:
                    counts[f"{_BYTES}out{{{int(rest) - inputs}}}"] = amount
    details = {
        _VMEM: work.get("vmem", 0.0), _STEPS: walked.steps, _UNWALKED: walked.unwalked_steps,
        _DIMENSIONS: walked.unknown_dimensions, _CONDITIONS: walked.unknown_conditions, _LOOPS: walked.unknown_loops,
        _OWN_COPIES: walked.copies_itself,
        **{f"{_BLOCKS}{number}": most for number, most in walked.unknown_blocks.items()},
        f"{_GRID}{_joined(walked.grid)}": 1,
    }  # fmt: skip
    for number, window in walked.windows.items():
        place = f"in {number + walked.unknown_dimensions}" if number < inputs else f"out {number - inputs}"
        about = f"{_joined(window.shape)} {window.bits} {_joined(window.repeated)}"
        details[f"{_WINDOW}{place} {about}"] = window.copies
    counts |= {f"{_BYTES}out{{}}": written, _STEPS: float(walked.steps)}
    return counts | {name: float(number) for name, number in details.items() if number}


def body_of(counts: Mapping[str, float]) -> KernelBody | None:
    """Returns the details of a kernel; None for the counts of anything else."""
    if _STEPS not in counts:
        return None
    products, grid, operands, results = [], tuple[int, ...](), dict[int, Window](), dict[int, Window]()
    for name, number in counts.items():
        if name.startswith(_PRODUCT):
            kind, precision = name.removeprefix(_PRODUCT).split(" ")
            products.append((kind, int(precision), number))
        elif name.startswith(_GRID):
            grid = _numbers(name.removeprefix(_GRID))
        elif name.startswith(_WINDOW):
            side, place, shape, bits, repeated = name.removeprefix(_WINDOW).split(" ")
            windows = operands if side == "in" else results
            windows[int(place)] = Window(_numbers(shape), int(bits), number, _numbers(repeated))
    return KernelBody(tuple(sorted(products)), counts.get(_VMEM, 0.0), grid, operands, results)


def _joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "-"


def _numbers(text: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(map(int, text.split(",")))


def doubts_of(call: str, counts: Mapping[str, float]) -> KernelDoubts:
    """Returns the unknown parts of a kernel's counts.

    Args:
      call: name of the calling instruction.
      counts: the result of `kernel_counts`.
    """
    own, both = list[str](), list[str]()
    if counts.get(_CONDITIONS):
        own.append("counted with the cheaper branch of each data-dependent condition")
    if counts.get(_LOOPS):
        own.append("counted without loops of data-dependent length")
    if counts.get(_DIMENSIONS):
        both.append(_ONE_STEP)
    if counts.get(_UNWALKED):
        both.append(_FIRST_PART)
    blocks = [
        f"counted with the fewest block copies of operand {name.removeprefix(_BLOCKS)} (at most {most:,.0f})"
        for name, most in counts.items()
        if name.startswith(_BLOCKS)
    ]
    copies = [*both, *(own if counts.get(_OWN_COPIES) else ()), *blocks]
    operations, moved = (
        tuple(Missing(call, "Pallas kernel", text) for text in part) for part in ([*both, *own], copies)
    )
    return KernelDoubts(operations, moved, bool(counts.get(_UNWALKED)))


def with_doubts(counted: float, doubts: tuple[Missing, ...], *, is_estimate: bool, declared: float = 0.0) -> float:
    """Returns a number with its unknown parts.

    Args:
      counted: the counted part.
      doubts: the unknown parts.
      is_estimate: as in `KernelDoubts`.
      declared: the number that the kernel declares, which applies if the counted part is only a smaller lower bound.
    """
    if not counted:  # a step without such work, however many there are
        doubts = tuple(each for each in doubts if each.counted not in (_ONE_STEP, _FIRST_PART))
    if not doubts:
        return counted
    if declared > counted and not is_estimate:
        name = doubts[0].name
        return About(declared, [Missing(name, "Pallas kernel", "counted as its cost_estimate declares")])
    return (About if is_estimate else AtLeast)(counted, doubts)


def declared_numbers(call: Instruction) -> tuple[float, float, float] | None:
    """Returns the declared FLOPs, transcendentals and bytes of a kernel; None if it declares none."""
    declared = declared_costs(call)
    return None if declared is None else (declared["flops"], declared["transcendentals"], declared["bytes_accessed"])
