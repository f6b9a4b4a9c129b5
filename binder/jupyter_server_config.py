"""The Jupyter server on Binder: opening a notebook ends the kernels of the notebooks before the last one.

A kernel that has imported JAX takes some 250 MiB, and students open the lessons one after another. A kernel that runs a cell
is not ended. A notebook whose kernel has ended keeps its outputs, and Jupyter starts a kernel when a cell runs again.
`postBuild` copies this file to where Jupyter reads it.
"""

import datetime as dt
from typing import Any

from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

MOST_KERNELS = 2
"""The open notebook's, and the one before, to which the reader may return."""


class LimitedKernels(AsyncMappingKernelManager):
    """Starts kernels, and ends the idle ones that were used longest ago."""

    async def _async_start_kernel(self, **kwargs: Any) -> str:
        idle = [number for number in self.list_kernel_ids() if self._state(number) != "busy"]
        idle.sort(key=self._last_use, reverse=True)
        for number in idle[MOST_KERNELS - 1 :]:
            self.log.info("Ending kernel %s: at most %d stay open.", number, MOST_KERNELS)
            await self.shutdown_kernel(number)
        return str(await super()._async_start_kernel(**kwargs))

    start_kernel = _async_start_kernel  # type: ignore[assignment]  # as the class of Jupyter defines it

    def _state(self, number: str) -> str:
        return getattr(self.get_kernel(number), "execution_state", "") or ""

    def _last_use(self, number: str) -> dt.datetime:
        used: dt.datetime = self.get_kernel(number).last_activity
        return used


c.ServerApp.kernel_manager_class = LimitedKernels  # type: ignore[name-defined]  # noqa: F821 - Jupyter's
