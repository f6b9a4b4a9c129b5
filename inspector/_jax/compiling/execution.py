"""Runs a live executable on NumPy arrays, over replicas and partitions, and measures it.

Every input is split into one shard per device by the executable's own shardings, and every output is joined
in the same way. Each device's shard is placed as is, as part of a JAX array whose sharding is declared
"replicated" although its buffers differ: this works for scalars and for any mix of replicas and
partitions. XLA does not check its arguments (too few arguments are a segmentation fault), so
this module checks them first.

A program with ordered effects takes and returns a token for each kind of effect, which JAX passes from call to
call. Executions in this module run one after another, so each gets new tokens.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inspector._jax.compiling.profiling import Recording
from inspector._jax.lowering.callbacks import HostCallbacks, raw_callbacks
from inspector._jax.lowering.signature import ArrayType, Signature
from inspector.errors import ExecutionError
from inspector.support.units import counted

Index = tuple["slice[Any, Any, Any]", ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """Result of a measurement.

    Attributes:
      outputs: one array per result; with a leading replica axis if there are several replicas.
      durations_s: one wall-clock duration per measured execution, in seconds.
      device_kind: as JAX names it.
      xspace: the profile of these executions as a serialized `XSpace`; b"" if none was requested.
      plain_durations_s: durations of executions without the profiler, if a profile was requested.
      first_s: duration of the first execution in seconds, before the measured ones; None without any before.
      dispatch_s: the part of each duration until the call returned, in seconds; the device may still work then.
    """

    outputs: tuple[np.ndarray, ...]
    durations_s: tuple[float, ...]
    device_kind: str
    xspace: bytes = b""
    plain_durations_s: tuple[float, ...] = ()
    first_s: float | None = None
    dispatch_s: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Runnable:
    """A loaded executable and everything needed to call it. Cannot leave its process."""

    _raw: Any
    _signature: Signature
    _tokens: int
    _assignment: np.ndarray
    _callbacks: HostCallbacks | None
    _replicated: NamedSharding

    def run(
        self,
        inputs: Sequence[np.ndarray],
        per_replica: Sequence[bool],
        *,
        repeat: int,
        warmup: int,
        names: Sequence[str] = (),
        profiled: bool = False,
        with_outputs: bool = True,
    ) -> Execution:
        """Runs the program `warmup + repeat` times.

        Args:
          inputs: one array per parameter, in parameter order, without tokens; global under partitions, with a
            leading axis of `num_replicas` where `per_replica` is set.
          per_replica: one boolean per input.
          repeat: number of measured executions, at least 1.
          warmup: number of executions before them.
          names: the user's names of the parameters, for messages.
          profiled: whether the measured executions run under JAX's profiler, and as many others without it.
          with_outputs: whether to copy the outputs from the devices.

        Raises:
          ExecutionError: the program does not accept the arguments, or XLA reports an error.
        """
        self._check_runnable(repeat, warmup)
        self._check_inputs(inputs, per_replica, names)
        try:
            # Without 64-bit types enabled, placing an int64 array would narrow it to int32.
            with jax.enable_x64(True):
                return self._measure(inputs, per_replica, repeat, warmup, profiled=profiled, with_outputs=with_outputs)
        except ExecutionError:
            raise
        except Exception as e:
            raise ExecutionError(f"The program failed at run time: {e}") from e

    def _measure(
        self,
        inputs: Sequence[np.ndarray],
        per_replica: Sequence[bool],
        repeat: int,
        warmup: int,
        *,
        profiled: bool,
        with_outputs: bool,
    ) -> Execution:
        shards = self._cut(inputs, per_replica)
        placed: list[Any] = [None] * len(shards)
        tokens = self._fresh_tokens()
        outputs: Any = []
        dispatches: list[float] = []

        def execute(count: int) -> list[float]:
            nonlocal outputs
            durations = []
            dispatches.clear()
            for _ in range(count):
                outputs = []  # frees the previous outputs first, so that two executions are never in memory together
                self._place(shards, placed)
                dispatch_s, duration_s, outputs = self._execute([*tokens, *placed])
                durations.append(duration_s)
                dispatches.append(dispatch_s)
            return durations

        first_s = next(iter(execute(warmup)), None)
        xspace, plain = b"", list[float]()
        if profiled:
            # Before and after the profiled executions, so that a machine that becomes slower or faster does not count.
            before = (repeat + 1) // 2
            plain = execute(before)
            with Recording() as recording:
                durations = execute(repeat)
            xspace, dispatch_s = recording.xspace, tuple(dispatches)
            plain += execute(repeat - before)
        else:
            durations = execute(repeat)
            dispatch_s = tuple(dispatches)
        kind = self._assignment.flat[0].device_kind
        joined = self._join(outputs) if with_outputs else ()
        return Execution(joined, tuple(durations), kind, xspace, tuple(plain), first_s, dispatch_s)

    def _execute(self, placed: list[Any]) -> tuple[float, float, Any]:
        """Returns the seconds until the call returned and until the outputs were ready, and the outputs."""
        with_tokens = not self._signature.results or bool(raw_callbacks(self._callbacks))
        started = time.perf_counter()
        results = self._raw.execute_sharded(placed, with_tokens=with_tokens)
        dispatch_s = time.perf_counter() - started
        if with_tokens:
            token = results.consume_token()
        outputs = results.disassemble_into_single_device_arrays()[self._tokens :]
        jax.block_until_ready(outputs)
        if with_tokens:
            token.block_until_ready()
        return dispatch_s, time.perf_counter() - started, outputs

    def _fresh_tokens(self) -> list[Any]:
        """Returns the initial tokens of ordered effects, as JAX makes them: an empty array on each device."""
        empty = np.zeros(0, np.bool_)
        arrays = [jax.device_put(empty, device) for device in self._assignment.flat]
        token = jax.make_array_from_single_device_arrays(empty.shape, self._replicated, arrays)
        return [token] * self._tokens

    def _place(self, shards: list[list[np.ndarray]], placed: list[Any]) -> None:
        """Places inputs on their devices: all inputs the first time, later only those that were donated."""
        devices = list(self._assignment.flat)
        for i, parts in enumerate(shards):
            if placed[i] is not None and not placed[i].is_deleted():
                continue
            # may_alias=False: a donated buffer is overwritten, and NumPy's own memory must not be.
            arrays = [
                jax.device_put(part, device, may_alias=False) for part, device in zip(parts, devices, strict=True)
            ]
            placed[i] = jax.make_array_from_single_device_arrays(parts[0].shape, self._replicated, arrays)
        jax.block_until_ready(placed)

    def _cut(self, inputs: Sequence[np.ndarray], per_replica: Sequence[bool]) -> list[list[np.ndarray]]:
        """Returns one list of shards per input, in device order (replicas outer, partitions inner)."""
        num_replicas, num_partitions = self._assignment.shape
        indices = self._indices(self._raw.get_parameter_shardings(), self._signature.parameters)
        cut = []
        for value, stacked, index in zip(inputs, per_replica, indices, strict=True):
            replicas = value if stacked and num_replicas > 1 else [value] * num_replicas
            cut.append([np.asarray(replicas[r])[index[p]] for r in range(num_replicas) for p in range(num_partitions)])
        return cut

    def _join(self, outputs: Sequence[Sequence[Any]]) -> tuple[np.ndarray, ...]:
        num_replicas, num_partitions = self._assignment.shape
        indices = self._indices(self._raw.get_output_shardings(), self._signature.results)
        joined = []
        for parts, index, type_ in zip(outputs, indices, self._signature.results, strict=True):
            whole = np.empty((num_replicas, *type_.shape), type_.numpy())
            for r in range(num_replicas):
                for p in range(num_partitions):
                    position: tuple[Any, ...] = (r, *index[p])
                    whole[position] = np.asarray(parts[r * num_partitions + p])
            joined.append(whole if num_replicas > 1 else whole.reshape(type_.shape))
        return tuple(joined)

    def _indices(self, shardings: Sequence[Any] | None, types: Sequence[ArrayType]) -> list[list[Index]]:
        """Returns, for each array, the index of the part that each partition holds."""
        devices = list(self._assignment[0])
        shardings = None if shardings is None else shardings[self._tokens :]
        if shardings is None or len(devices) == 1:
            return [[(slice(None),) * len(t.shape)] * len(devices) for t in types]
        if len(shardings) != len(types):
            raise ExecutionError(
                f"XLA reports {len(shardings)} shardings for {len(types)} arrays of the program, so inputs and"
                " outputs cannot be split over the devices. This version cannot run such a program."
            )
        indices = []
        for sharding, type_ in zip(shardings, types, strict=True):
            try:
                by_device = GSPMDSharding(devices, sharding).devices_indices_map(type_.shape)
                indices.append([by_device[device] for device in devices])
            except Exception as e:
                raise ExecutionError(f"An array {type_} cannot be split by XLA's sharding {sharding}: {e}") from e
        return indices

    def _check_runnable(self, repeat: int, warmup: int) -> None:
        if repeat < 1 or warmup < 0:
            raise ExecutionError(f"repeat must be at least 1 and warmup at least 0, got {repeat} and {warmup}.")
        types = (*self._signature.parameters, *self._signature.results)
        odd = [str(t) for t in types if not t.is_array]
        if odd:
            raise ExecutionError(
                f"The program takes or returns {', '.join(odd)}; this version can only run programs on arrays."
            )

    def _check_inputs(self, inputs: Sequence[np.ndarray], per_replica: Sequence[bool], names: Sequence[str]) -> None:
        parameters = self._signature.parameters
        labels = [names[i] if i < len(names) and names[i] else f"parameter {i}" for i in range(len(parameters))]
        if len(inputs) != len(parameters):
            listed = ", ".join(f"{label}: {t}" for label, t in zip(labels, parameters, strict=True)) or "none"
            raise ExecutionError(
                f"The program takes {counted(len(parameters), 'array')} ({listed}), got {len(inputs)}."
            )
        if len(per_replica) != len(inputs):
            raise ExecutionError(f"per_replica needs one boolean per input: {len(inputs)}, got {len(per_replica)}.")
        for value, stacked, label, type_ in zip(inputs, per_replica, labels, parameters, strict=True):
            self._check_input(value, stacked, label, type_)

    def _check_input(self, value: np.ndarray, stacked: bool, label: str, type_: ArrayType) -> None:
        num_replicas = self._assignment.shape[0]
        stacked = stacked and num_replicas > 1
        shape = (num_replicas, *type_.shape) if stacked else type_.shape
        if not isinstance(value, np.ndarray):
            raise ExecutionError(f"{label} must be a NumPy array, got {type(value).__name__}.")
        if value.shape == shape and value.dtype == type_.numpy():
            return
        wanted = ArrayType(shape, type_.dtype)
        got = f"{value.dtype.name}[{','.join(map(str, value.shape))}]"
        why = f" (one row per replica, {num_replicas} replicas)" if stacked else ""
        raise ExecutionError(f"{label} must be {wanted}{why}, got {got}.")


def make_runnable(
    raw: Any, signature: Signature, assignment: np.ndarray, callbacks: HostCallbacks | None = None
) -> Runnable:
    """Returns a `Runnable`.

    Args:
      raw: jaxlib's loaded executable.
      signature: the module's parameters and results.
      assignment: devices, [num_replicas, num_partitions].
      callbacks: host callbacks of the program; kept alive by the `Runnable`.
    """
    replicated = NamedSharding(Mesh(assignment.reshape(-1), ("device",)), PartitionSpec())
    return Runnable(raw, signature.without_tokens(), signature.tokens, assignment, callbacks, replicated)
