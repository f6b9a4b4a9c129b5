"""The backend code of a TPU compile: LLO by HLO instruction, and the Mosaic stages of each Pallas kernel.

libtpu compiles a Pallas kernel with Mosaic, then its LLO. It names the files of Mosaic after the kernel's
function, which several instructions may call (libtpu 0.0.42 writes no name), and those of LLO after the instruction. All
files of one kernel have the same time, so the order of times shows which Mosaic files belong to which instruction.
"""

from __future__ import annotations

import collections
import zlib
from collections.abc import Iterator, Sequence

from inspector.compilation.records.assembly import PROGRAM, Code, Language
from inspector.compilation.records.tpu_names import FIRST_LLO, FIRST_MOSAIC, PROGRAM_NAME, TpuFile

_LEVEL = 1


class TpuCodes:
    """Collects the files of one compile, in any order."""

    def __init__(self) -> None:
        self._llo: dict[tuple[int, str], tuple[int, Code]] = {}
        self._starts: list[tuple[int, str]] = []  # start times of the LLO of instructions
        self._mosaic: dict[int, dict[int, tuple[str, bytes]]] = collections.defaultdict(dict)

    def take(self, file: TpuFile, data: bytes) -> None:
        """Adds a file: the parts of its name, and its contents."""
        if file.is_mosaic:
            self._mosaic[file.time][file.order] = (file.stage, data)
            return
        kernel = PROGRAM if file.kernel == PROGRAM_NAME else file.kernel
        if file.order == FIRST_LLO:
            self._starts.append((file.time, kernel))
        before = self._llo.get((file.order, kernel))
        if before is None or before[0] <= file.time:  # a kernel that is compiled twice has two; the later one counts
            self._llo[file.order, kernel] = (file.time, _code(file.stage, kernel, "llo", data))

    def codes(self) -> list[Code]:
        """Returns all code by stage and kernel, with that of Mosaic first."""
        mosaic = {(order, code.kernel): code for order, code in self._mosaic_codes()}
        llo = {key: code for key, (_, code) in self._llo.items()}
        return [code for _, code in sorted({**mosaic, **llo}.items())]

    def _mosaic_codes(self) -> Iterator[tuple[int, Code]]:
        runs: dict[str, list[int]] = collections.defaultdict(list)
        for time, stages in sorted(self._mosaic.items()):
            if FIRST_MOSAIC in stages:
                runs[_function(stages[FIRST_MOSAIC][1])].append(time)
        for function, times in runs.items():
            for time, kernel in zip(times, self._kernels(function, times), strict=True):
                for order, (stage, data) in self._mosaic[time].items():
                    yield order, _code(stage, kernel, "mlir", data)

    def _kernels(self, function: str, times: Sequence[int]) -> list[str]:
        """Returns the instruction of each Mosaic run; if it is ambiguous, the function's name with a number."""
        own = sorted((time, kernel) for time, kernel in self._starts if _stem(kernel) == function)
        ends = [*times[1:], float("inf")]
        if len(own) == len(times) and all(
            start < (time_and_kernel[0]) < end for start, time_and_kernel, end in zip(times, own, ends, strict=True)
        ):
            return [kernel for _, kernel in own]
        return [function if number == 1 else f"{function} #{number}" for number in range(1, len(times) + 1)]


def _code(stage: str, kernel: str, language: Language, data: bytes) -> Code:
    return Code(stage, kernel, (), language, "text", zlib.compress(data, _LEVEL))


def _function(module: bytes) -> str:
    """Returns the name of the first function of an MLIR module: `  func.func @matmul(%arg0: ...` -> `matmul`."""
    name = module.decode("utf-8", "replace").partition("func.func @")[2].partition("(")[0]
    return name.strip('"')


def _stem(instruction: str) -> str:
    """`matmul.1` -> `matmul`."""
    stem, dot, number = instruction.rpartition(".")
    return stem if dot and number.isdigit() else instruction
