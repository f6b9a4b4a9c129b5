"""Kernels and libraries that instructions run, from the thunks in an executable.

A thunk is one step of XLA's runtime: it launches a kernel, or calls a library or a function of the runtime, whose code XLA does
not generate. Nothing is executed. The messages are those of jaxlib 0.10.2 and 0.12.0 (`xla/backends/cpu/runtime/thunk.proto`,
`xla/backends/gpu/runtime/thunk.proto`); the libraries of their thunks are named after the sources next to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from inspector.compilation.records.elf import cubins
from inspector.compilation.records.riegeli import SIGNATURE, everything_in
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.executable import compilation_result, gpu_executable


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a program.

    Attributes:
      instruction: name of the HLO instruction.
      kernel: the kernel that it launches; "" if none is known.
      callee: the library or function that it calls, such as "YNNPACK"; "" for a kernel.
    """

    instruction: str
    kernel: str = ""
    callee: str = ""


def steps(executable: bytes | Unavailable) -> tuple[Step, ...] | Unavailable:
    """Returns the steps of a CPU or GPU program, with those inside of loops and branches.

    Args:
      executable: as in `executable_of`.
    """
    if isinstance(executable, Unavailable):
        return executable
    result = compilation_result(executable)
    if result is not None:
        return tuple(_cpu_steps(result.thunk_sequence.thunks))
    try:
        for record in everything_in(executable) if SIGNATURE in executable else ():
            proto = gpu_executable(record)
            if proto is not None:
                return tuple(_gpu_steps(proto.thunks, is_cuda=proto.gpu_compute_capability.HasField(_CUDA)))
    except ModuleError as e:
        return Unavailable(str(e).removesuffix("."))
    return Unavailable("the executable has no thunks of a CPU or GPU")


_CUDA = "cuda_compute_capability"

_CPU_LIBRARIES: Mapping[str, str] = {
    "ynn-fusion": "YNNPACK",
    "xnn-fusion": "XNNPACK",
    "onednn-fusion": "oneDNN",
    "dot": "Eigen (matrix multiplication)",
    "convolution": "Eigen (convolution)",
    "fft": "DUCC (FFT)",
}

_CUDA_LIBRARIES: Mapping[str, str] = {
    "gemm_thunk": "cuBLAS",
    "cublas_lt_matmul_thunk": "cuBLASLt",
    "triangular_solve_thunk": "cuBLAS (triangular solve)",
    "cudnn_thunk": "cuDNN",
    "norm_thunk": "cuDNN (norm)",
    "convolution_thunk": "cuDNN (convolution)",
    "convolution_reorder_thunk": "cuDNN (filter reordering)",
    "fft_thunk": "cuFFT",
    "select_k_thunk": "RAFT (select k)",
    "copy_thunk": "CUDA (copy)",
    "device_to_device_copy_thunk": "CUDA (copy)",
    "device_to_host_copy_thunk": "CUDA (copy)",
    "host_to_device_copy_thunk": "CUDA (copy)",
    "memzero_thunk": "CUDA (memset)",
    "memset32bit_value_thunk": "CUDA (memset)",
} | dict.fromkeys(
    (
        "all_gather_thunk", "all_reduce_thunk", "reduce_scatter_thunk", "all_to_all_thunk", "ragged_all_to_all_thunk",
        "collective_permute_thunk", "collective_broadcast_thunk", "send_thunk", "recv_thunk",
    ),
    "NCCL",
)  # fmt: skip

# Thunks that only contain others, or wait for them.
_CONTROL = frozenset({
    "call_thunk", "conditional_thunk", "while_thunk", "sequential_thunk", "dynamic_slice_thunk", "dynamic_slice_fusion_thunk",
    "collective_group_thunk", "async_start_thunk", "async_done_thunk",
})  # fmt: skip
_THUNKS = ("xla.cpu.ThunkProto", "xla.gpu.ThunkProto")


def _cpu_steps(thunks: Iterable[Any]) -> Iterator[Step]:
    for thunk in thunks:
        name, kind = thunk.info.op_name, thunk.WhichOneof("impl") or ""
        work: Any = getattr(thunk, kind, None)
        if kind in _CONTROL:
            yield from _cpu_steps(_inner(work))
        elif kind == "kernel_thunk":
            yield Step(name, kernel=work.kernel_name)
        elif kind == "sort_thunk" and work.comparator_name:
            yield Step(name, kernel=work.comparator_name)
        elif kind == "custom_call_thunk":
            yield Step(name, callee=work.target_name)
        else:
            yield Step(name, callee=_CPU_LIBRARIES.get(thunk.kind) or f"XLA's runtime ({thunk.kind})")


def _gpu_steps(thunks: Iterable[Any], *, is_cuda: bool) -> Iterator[Step]:
    for thunk in thunks:
        name, kind = thunk.thunk_info.profile_annotation, thunk.WhichOneof("impl") or ""
        work: Any = getattr(thunk, kind, None)
        if kind in _CONTROL:
            yield from _gpu_steps(_inner(work), is_cuda=is_cuda)
        elif kind in ("kernel_thunk", "collective_kernel_thunk"):
            yield Step(name, kernel=work.kernel_name)
        elif kind == "custom_kernel_thunk":
            yield Step(name, kernel=work.custom_kernel.name)
        elif kind == "custom_call_thunk":
            compiled = [function.name for _, cubin in cubins(_state(work)) for function in cubin.functions()]
            yield from [Step(name, kernel=kernel) for kernel in compiled] or [Step(name, callee=work.target_name)]
        else:
            library = _CUDA_LIBRARIES.get(kind) if is_cuda else None
            owner = "XLA's runtime" if is_cuda else "a library or XLA's runtime"
            words = kind.removesuffix("_thunk").replace("_", "-")
            yield Step(name, callee=library or f"{owner} ({words})")


def _state(call: Any) -> bytes:
    """Returns the state of a call with the code that it was compiled to, such as a Mosaic GPU kernel."""
    return bytes(call.execution_state.SerializeToString()) if call.HasField("execution_state") else b""


def _inner(message: Any) -> Iterator[Any]:
    """Yields the thunks in a message, in order."""
    for field, value in message.ListFields():
        if field.message_type is None or hasattr(value, "values"):
            continue
        for each in value if hasattr(value, "__len__") else (value,):
            if each.DESCRIPTOR.full_name in _THUNKS:
                yield each
            else:
                yield from _inner(each)
