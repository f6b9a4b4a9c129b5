"""Messages between the notebook kernel and a worker, as headers and blobs for `wire.py`.

    notebook kernel -> worker                    worker -> notebook kernel
    compile  module, build options, config       taken    the request has been read, work begins
    run      module, executable, inputs          stage    the current stage
                                                 preview  the optimized HLO, before code generation
                                                 counted  the cost, after the preview
                                                 compiled all but the executable
                                                 executable | ran | counted | error, the last, with "recycle"

Both sides import this module, so each message is written and read in one place. A worker's first compile waits for this
import, so functions import what only one side needs.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector import errors
from inspector._jax.compiling.slices import Slice
from inspector.engines.workers.wire import Blob, WireError
from inspector.errors import CompilationError, InspectorError, Unavailable
from inspector.support import deferred

if TYPE_CHECKING:
    from inspector._jax.compiling.execution import Execution
    from inspector._jax.compiling.report import EarlyReport, Report
    from inspector.compilation.request import CompileRequest, RunRequest

Header = dict[str, Any]
Message = tuple[Header, list[Blob]]


@dataclasses.dataclass(frozen=True, slots=True)
class PlainCompile:
    """A compile request as bytes, text and numbers, for `wire.py` and for `_jax/`.

    Attributes:
      key: name of the executable in the worker's memory.
      slice: the devices of an ahead-of-time compile, or None.
      products: requested products beyond the ordinary results, sorted.
    """

    key: str
    module: bytes
    build_options: Mapping[str, Any]
    platform: str
    config: Mapping[str, Any]
    slice: Slice | None = None
    products: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class PlainRun:
    """A run request in plain form. `executable` is None when XLA returned no bytes."""

    compile: PlainCompile
    executable: bytes | None
    versions: Mapping[str, str]
    inputs: tuple[np.ndarray, ...]
    per_replica: tuple[bool, ...]
    names: tuple[str, ...]
    repeat: int
    warmup: int
    profiled: bool = False
    with_outputs: bool = True


def plain_compile(request: CompileRequest, config: Mapping[str, Any], devices: Slice | None = None) -> PlainCompile:
    """Converts a compile request to its plain form.

    Args:
      request: the request.
      config: the result of `_jax.configuration.read_config`.
      devices: the devices of an ahead-of-time compile; None for the client's own.

    Raises:
      ModuleError: the program has no StableHLO.
    """
    from inspector.compilation.options import options_proto

    request.program.check_compilable()
    build_options = request.build_options
    options = json.loads(build_options.to_json())
    options["flags"] = options_proto.overrides(build_options.flags)
    options["additions"] = base64.b64encode(
        options_proto.additions(build_options.flags, build_options.extra_proto)
    ).decode()
    options["said"] = {**request.program.options.flags, **request.options.as_dict()}
    options["mesh_shape"] = request.program.mesh.axis_sizes if request.program.mesh else None
    options["device_ids"] = request.program.device_ids
    # The executable does not depend on the products that a compile records.
    key = dataclasses.replace(request, products=frozenset()).digest
    return PlainCompile(
        key,
        request.program.module,
        options,
        request.program.platform,
        config,
        devices,
        tuple(sorted(request.products)),
    )


def plain_run(request: RunRequest, config: Mapping[str, Any]) -> PlainRun:
    """Converts a run request to its plain form."""
    from inspector.compilation.compiled import executable_of
    from inspector.compilation.request import CompileRequest

    compiled = request.compiled
    compile_request = CompileRequest(compiled.program, compiled.options, compiled.target)
    parameters = [a for a in compiled.program.arguments if a.parameter is not None]
    parameters.sort(key=lambda a: a.parameter or 0)
    executable = executable_of(compiled)
    return PlainRun(
        compile=plain_compile(compile_request, config),
        executable=executable if isinstance(executable, bytes) else None,
        versions=dict(compiled.versions),
        inputs=request.inputs,
        per_replica=request.per_replica,
        names=tuple(a.path for a in parameters),
        repeat=request.repeat,
        warmup=request.warmup,
        profiled=request.profiled,
        with_outputs=request.with_outputs,
    )


def write_compile(request: PlainCompile) -> Message:
    """Converts a `PlainCompile` to a message."""
    header = {
        f.name: getattr(request, f.name) for f in dataclasses.fields(request) if f.name not in ("module", "slice")
    }
    return {"do": "compile", **header, "slice": request.slice and dataclasses.asdict(request.slice)}, [request.module]


def read_compile(header: Header, blobs: Sequence[bytes]) -> PlainCompile:
    """Converts a message to a `PlainCompile`."""
    fields = {f.name: header[f.name] for f in dataclasses.fields(PlainCompile) if f.name not in ("module", "slice")}
    devices = header["slice"]
    slice_ = devices and Slice(**{**devices, "topology": tuple(devices["topology"])})
    return PlainCompile(module=blobs[0], slice=slice_, **fields)


def write_run(request: PlainRun) -> Message:
    """Converts a `PlainRun` to a message."""
    compile_header, compile_blobs = write_compile(request.compile)
    arrays, array_blobs = _write_arrays(request.inputs)
    header = {
        "do": "run",
        "compile": compile_header,
        "has_executable": request.executable is not None,
        "versions": dict(request.versions),
        "inputs": arrays,
        "per_replica": list(request.per_replica),
        "names": list(request.names),
        "repeat": request.repeat,
        "warmup": request.warmup,
        "profiled": request.profiled,
        "with_outputs": request.with_outputs,
    }
    return header, [*compile_blobs, request.executable or b"", *array_blobs]


def read_run(header: Header, blobs: Sequence[bytes]) -> PlainRun:
    """Converts a message to a `PlainRun`."""
    return PlainRun(
        compile=read_compile(header["compile"], blobs[:1]),
        executable=blobs[1] if header["has_executable"] else None,
        versions=header["versions"],
        inputs=_read_arrays(header["inputs"], blobs[2:]),
        per_replica=tuple(header["per_replica"]),
        names=tuple(header["names"]),
        repeat=header["repeat"],
        warmup=header["warmup"],
        profiled=header["profiled"],
        with_outputs=header["with_outputs"],
    )


def write_early(early: EarlyReport) -> Message:
    """Converts an `EarlyReport` to a message."""
    return {"preview": True, "devices": list(early.devices)}, [
        early.hlo.encode(),
        early.hlo_proto,
        early.buffer_assignment,
    ]


def read_early(header: Header, blobs: Sequence[bytes]) -> EarlyReport:
    """Converts a message to an `EarlyReport`; also accepts the header of a report."""
    from inspector._jax.compiling.report import EarlyReport

    return EarlyReport(blobs[0].decode(errors="replace"), blobs[1], blobs[2], tuple(header["devices"]))


def write_counted(cost: Mapping[str, Any] | Unavailable) -> Message:
    """Converts the cost of an `EarlyReport` to a message."""
    return {"counted": _write_value(cost)}, []


def read_counted(header: Header) -> Mapping[str, Any] | Unavailable:
    """Converts a message to a cost."""
    cost: Mapping[str, Any] | Unavailable = _read_value(header["counted"])
    return cost


def write_report(report: Report, preview: EarlyReport | None = None) -> Message:
    """Converts a `Report` to a message without its executable, which follows. The parts in `preview` are not sent again."""
    from inspector._jax.compiling.report import EarlyReport

    names, recorded = _write_recorded(report.recorded)
    early = EarlyReport(report.hlo, report.hlo_proto, report.buffer_assignment, report.devices)
    as_told = early == preview
    header = {
        "reply": "compiled",
        "as_told": as_told,
        "recorded": names,
        "memory": _write_value(report.memory),
        "cost": _write_value(report.cost),
        "timings": dict(report.timings),
        "versions": dict(report.versions),
        "devices": list(report.devices),
    }
    return header, [*([] if as_told else write_early(early)[1]), *recorded]


def read_report(
    header: Header,
    blobs: Sequence[bytes],
    executable: Callable[[], bytes | Unavailable],
    preview: EarlyReport | None = None,
) -> Report:
    """Converts a message to a `Report`.

    Args:
        header: header of the message.
        blobs: blobs of the message.
        executable: waits for the executable, which follows.
        preview: the preview that came before the report, if any.

    Raises:
        WireError: the message refers to a preview, and there was none.
    """
    from inspector._jax.compiling.report import Report

    rest = list(blobs)
    if header["as_told"]:
        if preview is None:
            raise WireError("The report refers to a preview that was not sent.")
        early = preview
    else:
        early, rest = read_early(header, rest), rest[3:]
    return deferred.defer(
        Report,
        {"executable": lambda _: executable()},
        hlo=early.hlo,
        hlo_proto=early.hlo_proto,
        memory=_read_value(header["memory"]),
        cost=_read_value(header["cost"]),
        timings=header["timings"],
        versions=header["versions"],
        devices=tuple(header["devices"]),
        buffer_assignment=early.buffer_assignment,
        recorded=_read_recorded(header["recorded"], rest),
    )


def write_executable(executable: bytes | Unavailable) -> Message:
    """Converts `Report.executable` to a message."""
    if isinstance(executable, Unavailable):
        return {"reply": "executable", "missing": _write_value(executable)}, []
    return {"reply": "executable", "missing": None}, [executable]


def read_executable(header: Header, blobs: Sequence[bytes]) -> bytes | Unavailable:
    """Converts a message to a serialized executable.

    Raises:
      WireError: it is another message.
    """
    if header["reply"] != "executable":
        raise WireError(f"Expected a serialized executable, got a message of type {header['reply']!r}.")
    missing: Unavailable | None = None if header["missing"] is None else _read_value(header["missing"])
    return blobs[0] if missing is None else missing


def write_execution(execution: Execution) -> Message:
    """Converts an `Execution` to a message."""
    arrays, blobs = _write_arrays(execution.outputs)
    header = {
        "reply": "ran",
        "outputs": arrays,
        "durations_s": list(execution.durations_s),
        "device_kind": execution.device_kind,
        "plain_durations_s": list(execution.plain_durations_s),
        "first_s": execution.first_s,
        "dispatch_s": list(execution.dispatch_s),
    }
    return header, [*blobs, execution.xspace]


def read_execution(header: Header, blobs: Sequence[bytes]) -> Execution:
    """Converts a message to an `Execution`."""
    from inspector._jax.compiling.execution import Execution

    outputs = _read_arrays(header["outputs"], blobs[:-1])
    durations_s, plain_durations_s = tuple(header["durations_s"]), tuple(header["plain_durations_s"])
    first_s, dispatch_s = header["first_s"], tuple(header["dispatch_s"])
    return Execution(outputs, durations_s, header["device_kind"], blobs[-1], plain_durations_s, first_s, dispatch_s)


def write_error(error: BaseException) -> Message:
    """Converts an error to a message. `read_error` adds the context to errors that are not inspector's."""
    if isinstance(error, InspectorError):
        return {"reply": "error", "type": type(error).__name__, "text": str(error)}, []
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return {"reply": "error", "type": "", "text": text}, []


def read_error(header: Header, doing: str = "serving the request") -> InspectorError:
    """Converts a message to an error. An error that is not inspector's becomes a `CompilationError` with its name.

    Args:
      header: header of the message.
      doing: the worker's task, such as "compiling 'jit_f' for cpu".
    """
    if not header["type"]:
        return CompilationError(f"The worker failed while {doing}: {header['text']}")
    kind = getattr(errors, header["type"], CompilationError)
    ours = isinstance(kind, type) and issubclass(kind, InspectorError)
    return (kind if ours else CompilationError)(header["text"])


def _write_arrays(arrays: Sequence[np.ndarray]) -> tuple[list[Any], list[Blob]]:
    specs = [[a.dtype.name, list(a.shape)] for a in arrays]
    # As bytes, not as a buffer: NumPy exports no buffer for bfloat16 and similar dtypes.
    return specs, [np.ascontiguousarray(a).reshape(-1).view(np.uint8).data for a in arrays]


def _read_arrays(specs: Sequence[Any], blobs: Sequence[bytes]) -> tuple[np.ndarray, ...]:
    from inspector._jax.lowering.signature import dtype_of

    arrays = []
    for (name, shape), blob in zip(specs, blobs, strict=True):
        # bytearray: the user may write to the result.
        arrays.append(np.frombuffer(bytearray(blob), dtype_of(name)).reshape(shape))
    return tuple(arrays)


def _write_recorded(recorded: Mapping[str, bytes | Unavailable]) -> tuple[dict[str, Any], list[Blob]]:
    """Returns None by name where a blob follows, otherwise the reason; and the blobs in order."""
    names = {name: None if isinstance(value, bytes) else _write_value(value) for name, value in recorded.items()}
    return names, [value for value in recorded.values() if isinstance(value, bytes)]


def _read_recorded(names: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, bytes | Unavailable]:
    left = iter(blobs)
    return {name: next(left) if value is None else _read_value(value) for name, value in names.items()}


def _write_value(value: Any) -> Any:
    if isinstance(value, Unavailable):
        return {"unavailable": value.reason, "remedy": value.remedy}
    return dict(value)


def _read_value(value: Any) -> Any:
    if "unavailable" in value:
        return Unavailable(value["unavailable"], value["remedy"])
    return value
