"""`Kernel`: a Pallas kernel with its analyses as methods."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from inspector.analysis.pallas.grid_walk import operand_table, remarks
from inspector.analysis.pallas.plot import plot_blocks
from inspector.analysis.pallas.vmem import VmemBudget, used_vmem, vmem_budget
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.pallas import PallasKernel
from inspector.support.tables import Tabular

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Kernel(PallasKernel, Tabular):
    """One `pallas_call` of a program. Its fields are those of `PallasKernel`."""

    __slots__ = ()

    @classmethod
    def of(cls, kernel: PallasKernel) -> Self:
        """Returns a `PallasKernel` as a `Kernel`."""
        return cls(**{field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)})

    def table(self) -> pd.DataFrame:
        """Returns one row per operand: its blocks, the number of copies that the pipeline makes, and remarks."""
        return operand_table(self)

    def remarks(self) -> tuple[str, ...]:
        """Returns remarks on the blocks, one sentence each: races, lost writes, parts that are never written."""
        return remarks(self)

    def vmem(self, chip: str, module: Module | None = None) -> VmemBudget | Unavailable:
        """Returns the VMEM use on a TPU generation and its limit.

        Args:
          chip: the TPU generation, e.g. "v5e".
          module: the program's optimized HLO for that chip, `compiled.module()`, for the compiler's own figure; without it, the
            use is estimated.

        Raises:
          TargetError: no such generation.
        """
        return vmem_budget(self, chip, module)

    def used_vmem(self, module: Module) -> int | Unavailable:
        """Returns the bytes of VMEM that the compiler allocated for the kernel, including its own use.

        Args:
          module: the optimized HLO for a TPU, `compiled.module()`.
        """
        return used_vmem(self, module)

    def plot(self, step: int = 0) -> Figure:
        """Returns a figure of every array as a rectangle, with the blocks of one grid step.

        Raises:
          ParameterError: no such step.
        """
        return plot_blocks(self, step)
