"""The order in which flags are tried: those that may affect a program before those that cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inspector.analysis.collectives.operations import OPCODES, operations
from inspector.api.flag_effects.trials import Trial
from inspector.hlo.module import Module
from inspector.toolchain.flags.readers import flag_targets
from inspector.toolchain.flags.types import is_flag_of_libtpu, libtpu_flags

_COLLECTIVES = frozenset(OPCODES)
_PRODUCTS = frozenset({"dot", "convolution", "custom-call"})

_SUBJECTS: Mapping[str, frozenset[str]] = {
    **{opcode.replace("-", "_"): frozenset({opcode}) for opcode in OPCODES},
    **dict.fromkeys(
        (
            "async", "barrier", "collective", "collectives", "comm", "comms", "cross_replica", "cross_replica_sum", "dcn",
            "einsum", "ici", "latency_hiding", "megascale", "nccl", "nvshmem", "permute", "ring", "sdy", "shard", "sharding",
            "shardings", "shardy", "spmd",
        ),
        _COLLECTIVES,
    ),
    **dict.fromkeys(("dot", "gemm", "matmul", "mxu", "cublas", "cublaslt"), _PRODUCTS),
    **dict.fromkeys(("conv", "convolution", "cudnn"), frozenset({"convolution", "custom-call"})),
    **dict.fromkeys(("loop", "while", "trip"), frozenset({"while"})),
    **dict.fromkeys(("branch", "conditional"), frozenset({"conditional"})),
    **dict.fromkeys(("custom_call", "mosaic", "onednn", "xnnpack"), frozenset({"custom-call"})),
    **dict.fromkeys(("reduction", "reduce"), frozenset({"reduce", "reduce-window"})),
    "cholesky": frozenset({"cholesky", "custom-call"}),
    "fft": frozenset({"fft"}),
    "fusion": frozenset({"fusion"}),
    "gather": frozenset({"gather"}),
    "infeed": frozenset({"infeed"}),
    "reduce_window": frozenset({"reduce-window"}),
    "rng": frozenset({"rng", "rng-bit-generator"}),
    "scatter": frozenset({"scatter"}),
    "select_and_scatter": frozenset({"select-and-scatter"}),
    "sort": frozenset({"sort"}),
    "sparse_core": frozenset({"all-to-all", "gather", "scatter"}),
    "transpose": frozenset({"transpose"}),
    "triangular_solve": frozenset({"triangular-solve", "custom-call"}),
}  # fmt: skip
"""Words of flags' names, and the opcodes of which a program has one if such a flag can concern it."""

_TOPICS: Mapping[str, frozenset[str]] = {
    "collectives": _COLLECTIVES,
    "latency hiding scheduler": _COLLECTIVES,
    "sparse core": _SUBJECTS["sparse_core"],
    "mosaic": _SUBJECTS["mosaic"],
}
"""The same for the topics that libtpu gives its flags."""

_ABOUT_ITSELF = ("crash", "debug", "detect", "graph", "log", "logging", "print", "profile", "test", "trace", "verify")
"""Words of flags that have a compiler watch itself, and change no program."""


def in_order(trials: Iterable[Trial], kind: str, module: Module) -> tuple[Trial, ...]:
    """Sorts trials: flags about the program's collectives, target and operations first.

    Args:
      trials: the trials.
      kind: kind of compiler: "cpu", "gpu" or "tpu".
      module: the program's optimized HLO.
    """
    opcodes = {*module.columns.opcodes.values, *(operation.opcode for operation in operations(module))}
    return tuple(sorted(trials, key=lambda trial: _rank(trial[0], kind, opcodes)))


def subjects(flag: str) -> frozenset[str]:
    """Returns the opcodes that a flag's name or compiler refers to; none if neither does.

    The longest match wins: `all_gather` refers to that collective, not to `gather`.
    """
    opcodes: set[str] = set()
    rest = f"_{flag}_"
    for word in sorted(_SUBJECTS, key=len, reverse=True):
        if f"_{word}_" in rest:
            rest = rest.replace(f"_{word}_", "__")
            opcodes |= _SUBJECTS[word]
    for topic in libtpu_flags()[flag].topics if is_flag_of_libtpu(flag) else ():
        opcodes |= _TOPICS.get(topic, frozenset())
    return frozenset(opcodes)


def _rank(flag: str, kind: str, opcodes: set[str]) -> tuple[bool | str, ...]:
    """Returns a sort key that puts flags that may matter first."""
    targets, about = flag_targets(flag), subjects(flag)
    present = about & opcodes
    return (
        kind not in targets,
        bool(about) and not present,
        is_about_itself(flag),
        not present & _COLLECTIVES,
        targets != (kind,),
        not present,
        flag,
    )


def is_about_itself(flag: str) -> bool:
    """Reports whether a flag's name refers to the compiler's own monitoring."""
    words = flag.split("_")
    topics = libtpu_flags()[flag].topics if is_flag_of_libtpu(flag) else ()
    return any(word in words for word in _ABOUT_ITSELF) or "debugging" in topics
