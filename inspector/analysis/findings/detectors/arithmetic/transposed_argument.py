"""An argument that a kernel only writes again in another order of its dimensions, in each execution, or that is copied for a loop and back."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.findings.detectors.arithmetic.loop_layouts import loop_layouts
from inspector.analysis.findings.edits import StoreTransposed
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.forward import reached
from inspector.analysis.findings.subject import Subject
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.support.units import format_bytes

KIND = "transposed-argument"
_EXCHANGES = frozenset({"all-to-all", "collective-permute", "async"})  # a GPU's all-to-all begins with `async-start`
_TILE = 128  # the longer side of a TPU's tile; arrays with shorter dimensions are stored in another order
_LEAST_SHARE_ON_TPUS = 0.03  # less may be lost again, because libtpu chooses other layouts for other arrays then
_CONVOLUTION = "conv_general_dilated"
_PASSING = frozenset({"bitcast", "copy-start", "copy-done"})
_MOVES = frozenset({"transpose", "copy"})


def transposed_argument(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for each argument whose only use is a kernel that transposes it, and for each loop with copies of its arguments."""
    arguments = {a.parameter: a for a in subject.compiled.program.arguments if a.parameter is not None}
    for parameter in subject.module.entry.parameters:
        number = parameter.parameter_number
        view, users = parameter, parameter.users
        if len(users) == 1 and users[0].opcode == "bitcast":  # a transposition that another layout makes
            view, users = users[0], users[0].users
        if number is None or number not in arguments or len(users) != 1 or users[0].name not in subject.points:
            continue
        order = _stored_order(users[0], view, parameter)
        if order is None or order == tuple(range(len(order))):
            continue
        if arguments[number].donated or _is_returned(subject, number) or _is_exchanged(users[0]):
            continue
        if subject.compiled.program.platform == "tpu" and _is_for_convolution(users[0]):
            continue
        path = arguments[number].path
        per_device = " per device" if subject.compiled.program.device_count > 1 else ""
        title = (
            f"`{path}` ({format_bytes(parameter.shape.byte_size)}{per_device}) is transposed in each execution before it is"
            f" used; nothing uses the order in which it is stored."
        )
        axes = ", ".join(map(str, order))
        finding = subject.finding(
            KIND, title, f"{path} = {path}.transpose({axes})  # once, when it is made; use it in this order",
            saved={users[0].name: 1.0}, instead_s=_read_s(subject, users[0]), frames=users[0].frames,
            caution="Other programs that take the array need the same order.",
            edits=(StoreTransposed(number, order),),
        )  # fmt: skip
        if subject.compiled.program.platform != "tpu" or finding.share >= _LEAST_SHARE_ON_TPUS:
            yield finding
    yield from loop_layouts(subject, KIND)


def _read_s(subject: Subject, copy: Instruction) -> float:
    """Returns the seconds in which a TPU reads the argument into VMEM, which the copy does too."""
    peak = subject.roofline.peak
    is_in_vmem = any(each.layout is not None and each.layout.memory_space for each in copy.shape.leaves)
    if not is_in_vmem or isinstance(peak, Unavailable):
        return 0.0
    return copy.shape.byte_size / peak.memory_bytes_per_s


def _is_exchanged(kernel: Instruction) -> bool:
    """Reports whether devices only exchange what a kernel writes: then the argument's sharding is at fault, and not its order."""
    users = list(kernel.users)
    while len(users) == 1 and users[0].opcode == "bitcast":
        users = list(users[0].users)
    return bool(users) and all(each.opcode.removesuffix("-start") in _EXCHANGES for each in users)


def _is_for_convolution(kernel: Instruction) -> bool:
    """Reports whether only convolutions read what a kernel writes. TPUs write it in their order for any order of the argument."""
    readers = list(kernel.users)
    while len(readers) == 1 and readers[0].opcode in _PASSING:
        readers = list(readers[0].users)
    return bool(readers) and all(map(_has_convolution, readers))


def _has_convolution(kernel: Instruction) -> bool:
    """Reports whether a kernel is, or contains, a convolution of the user's, which on TPUs is not a product."""
    if kernel.opcode == "fusion":
        return any(map(_has_convolution, kernel.called_computations[0].instructions))
    return kernel.opcode == "convolution" and kernel.op_name.endswith(_CONVOLUTION)


def _is_returned(subject: Subject, number: int) -> bool:
    """Reports whether a result is an updated version of a parameter, which must have the same order."""
    return not isinstance(subject.before, Unavailable) and bool(reached(subject.before, number).results)


def _dimensions(view: Instruction, parameter: Instruction) -> dict[int, int] | None:
    """Returns the dimension of a parameter for each one of a view of the same bytes; None if the view merges or splits dimensions."""
    if view.shape.layout is None or parameter.shape.layout is None:
        return None
    pairs = list(zip(view.shape.layout.minor_to_major, parameter.shape.layout.minor_to_major, strict=False))
    is_permuted = len(pairs) == len(view.shape.dimensions) == len(parameter.shape.dimensions)
    return (
        dict(pairs)
        if is_permuted and all(view.shape.dimensions[v] == parameter.shape.dimensions[p] for v, p in pairs)
        else None
    )


def _stored_order(kernel: Instruction, view: Instruction, parameter: Instruction) -> tuple[int, ...] | None:
    """Returns the dimensions of a parameter in the order in which a kernel writes them; None if it does anything else.

    Args:
      kernel: the kernel.
      view: its operand, the parameter or a view of the same bytes.
      parameter: the parameter.
    """
    dimensions = _dimensions(view, parameter)
    if dimensions is None:
        return None
    inside = kernel
    if kernel.opcode == "fusion":
        if len(kernel.operands) != 1:
            return None
        inside = kernel.called_computations[0].root
        while inside.opcode == "bitcast":  # such as dimensions that are merged behind: the same bytes
            inside = inside.operands[0]
    shape, order = inside.shape, list(range(len(inside.shape.dimensions)))
    if shape.is_tuple or shape.layout is None or len(order) < 2:
        return None
    while inside.opcode in _MOVES:
        if inside.opcode == "transpose":
            order = [inside.dimensions[d] for d in order]
        if inside.operands[0] is view or inside.operands[0].opcode == "parameter":
            written = [dimensions[order[d]] for d in reversed(shape.layout.minor_to_major)]
            before = parameter.shape.layout
            stored = None if before is None else list(reversed(before.minor_to_major))
            if stored == written:
                return None
            is_usual = min(parameter.shape.dimensions[d] for d in written[-2:]) >= _TILE  # for the new order
            return tuple(written) if stored == sorted(order) or (stored and is_usual) else None
        inside = inside.operands[0]
    return None
