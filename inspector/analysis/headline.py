"""What sets two modules apart in a few words: which kinds of kernels came, went, became more or fewer."""

from __future__ import annotations

import collections

from inspector.analysis.kernels import kernels
from inspector.analysis.operations import OPCODES, operations
from inspector.hlo.module import Module

_MOST = 4
_NEXT = ("while", "conditional", "custom-call", "dot", "convolution", "fusion")


def headline(before: Module, after: Module) -> str:
    """A phrase such as "1 all-gather appeared, 3 fusions fewer (41, before 44)"; "" where the numbers are the same.

    Collectives are counted however they are written; of the rest what the device executes, each once however often
    it runs. The kinds that say most come first, four at most.
    """
    ours, theirs = _counts(after), _counts(before)
    unlike = sorted((opcode for opcode in ours | theirs if ours[opcode] != theirs[opcode]), key=_rank)
    said = [_words(opcode, theirs[opcode], ours[opcode]) for opcode in unlike[:_MOST]]
    rest = len(unlike) - len(said)
    return ", ".join(
        [*said, f"{rest} other kind{'s' if rest > 1 else ''} of kernels changed in number"] if rest else said
    )


def _counts(module: Module) -> collections.Counter[str]:
    found = collections.Counter(operation.opcode for operation in operations(module))
    written = {*OPCODES, *(f"{opcode}-start" for opcode in OPCODES), "async-start", "send", "recv"}
    found.update(k.instruction.opcode for k in kernels(module) if k.instruction.opcode not in written)
    for opcode in ("while", "conditional"):  # no kernels themselves
        found[opcode] = int(module.columns.opcode_is(opcode.__eq__).sum())
    return found


def _rank(opcode: str) -> tuple[int, str]:
    if opcode in OPCODES:
        return 0, opcode
    return (1 + _NEXT.index(opcode) if opcode in _NEXT else len(_NEXT) + 1), opcode


def _words(opcode: str, before: int, after: int) -> str:
    change = abs(after - before)
    name = opcode if change == 1 else _plural(opcode)
    if not before:
        return f"{change} {name} appeared"
    if not after:
        return f"{change} {name} gone"
    return f"{change} {name} {'more' if after > before else 'fewer'} ({after}, before {before})"


def _plural(opcode: str) -> str:
    return (
        f"{opcode}es"
        if opcode.endswith(("s", "x", "sh", "ch"))
        else f"{opcode[:-1]}ies"
        if opcode.endswith("copy")
        else f"{opcode}s"
    )
