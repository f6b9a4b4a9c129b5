"""Products of a compiler -> the values of the contract. Used by every engine."""

from __future__ import annotations

from collections.abc import Mapping

from inspector._jax.client import EarlyProducts, Products
from inspector._jax.execution import Execution
from inspector.compilation.compiled import Compiled, Cost, Memory
from inspector.compilation.engine import Job
from inspector.compilation.passes import pass_warnings
from inspector.compilation.preview import Preview, assigned_memory
from inspector.compilation.request import CompileRequest, RunReply
from inspector.errors import OptionError, Unavailable


def check_request(request: CompileRequest) -> None:
    """Refuses what would hang or abort XLA, or be ignored by it, and can be known beforehand.

    Raises:
      OptionError: a flag or its value, or a partitioner that the program was not lowered for.
    """
    request.options.check()
    lowered, asked = request.program.options.use_shardy_partitioner, request.options.use_shardy_partitioner
    if asked is not None and lowered is not None and asked != lowered:
        names = {True: "Shardy", False: "GSPMD"}
        raise OptionError(
            f"use_shardy_partitioner={asked} asks for {names[asked]}, but the program was lowered for"
            f" {names[lowered]}, and XLA hangs or aborts on a mix. Set jax_use_shardy_partitioner to {asked}"
            " and lower the function again."
        )


def request_warnings(request: CompileRequest) -> tuple[str, ...]:
    """What XLA will not say of the request, and silently do otherwise."""
    # jaxlib's library holds the CPU's passes; other platforms bring a library of their own.
    return pass_warnings(request.build_options) if request.program.platform == "cpu" else ()


def make_compiled(
    request: CompileRequest,
    engine: str,
    products: Products,
    *,
    queue_s: float,
    total_s: float,
    warnings: tuple[str, ...],
) -> Compiled:
    """A `Compiled` from what was read of the executable.

    Args:
      request: what was asked.
      engine: the engine's name.
      products: what was read.
      queue_s: seconds from submission until work began.
      total_s: seconds from submission until now.
      warnings: of the request, and what the compiler said.
    """
    return Compiled(
        program=request.program,
        options=request.options,
        target=request.target,
        engine=engine,
        hlo=products.hlo,
        hlo_proto=products.hlo_proto,
        memory=_memory(products),
        cost=_cost(products.cost),
        timings={**products.timings, "queue_s": queue_s, "total_s": total_s},
        executable=products.executable,
        versions=products.versions,
        warnings=warnings,
    )


class Shower:
    """Shows a compile's preview on its job, early or with the result."""

    def __init__(self, job: Job[Compiled], request: CompileRequest, engine: str) -> None:
        """For one compile by the engine of that name."""
        self._job = job
        self._request = request
        self._engine = engine

    def early(self, early: EarlyProducts) -> None:
        """XLA's passes are through."""
        request = self._request
        preview = Preview(
            program=request.program,
            options=request.options,
            target=request.target,
            engine=self._engine,
            hlo=early.hlo,
            hlo_proto=early.hlo_proto,
            memory=assigned_memory(early.buffer_assignment),
            cost=_cost(early.cost),
            elapsed_s=self._job.elapsed_s,
        )
        self._job.show(preview)

    def result(self, compiled: Compiled) -> None:
        """There is a result, and no preview before it unless `early` came."""
        self._job.show(Preview.of(compiled, self._job.elapsed_s))


def make_reply(execution: Execution, warnings: tuple[str, ...] = ()) -> RunReply:
    """A `RunReply` from a measurement."""
    return RunReply(execution.outputs, execution.durations_s, execution.device_kind, warnings)


def _memory(products: Products) -> Memory | Unavailable:
    return products.memory if isinstance(products.memory, Unavailable) else Memory(**products.memory)


def _cost(cost: Mapping[str, float] | Unavailable) -> Cost | Unavailable:
    if isinstance(cost, Unavailable):
        return cost

    def value(name: str) -> float | Unavailable:
        # XLA leaves out what it counted none of; without any flops property it did not count at all.
        if name in cost:
            return cost[name]
        return (
            0.0 if "bytes accessed" in cost or "flops" in cost else Unavailable(f"XLA's cost analysis has no {name!r}")
        )

    return Cost(value("flops"), value("transcendentals"), value("bytes accessed"))
