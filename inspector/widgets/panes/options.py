"""The Options pane: scans which flags matter for a variant's program, and adds variants with other build options and flags."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from inspector.compilation.options import options_text
from inspector.errors import ExecutionError, OptionError, Unavailable
from inspector.toolchain import flags
from inspector.toolchain.flags import catalog
from inspector.widgets import messages
from inspector.widgets.panes.framework.followed import Followed, state_of_job
from inspector.widgets.panes.framework.pane import Context, Pane
from inspector.widgets.panes.framework.running_jobs import RunningJobs
from inspector.widgets.typed_options import read_fields
from inspector.widgets.variants import Variant
from inspector.widgets.work import FlagEffect, ScanJob, ScanLimits

_SHOWN = 300


class FlagRow(TypedDict):
    """A flag with a value that was tried; differences are None where `unknown` has the reason.

    Attributes:
      outcome: one of `inspector.api.flag_effects.OUTCOMES`.
      words: description of the change or the failure.
      warning: warnings of the compile request, "" for none.
    """

    flag: str
    value: str
    outcome: str
    words: str
    warning: str
    measured_s: float | None
    estimated_s: float | None
    exposed_s: float | None
    peak_bytes: float | None
    flops: float | None
    bytes_accessed: float | None
    kernels: float | None
    collectives: float | None
    unknown: str


class Scan(TypedDict):
    """The progress of a scan of a variant's flags: `done` of `total` values.

    Attributes:
      rows: flags that changed something or failed, the most relevant first.
      count: number of such flags.
      same: flags with their values that changed nothing.
      unknown: flags that changed nothing except possibly the machine code, which was not compared.
      left: number of values that were not tried, once the scan has ended.
      left_out: the reasons why other flags are not tried.
      machine_code: whether the scan compiles to machine code.
      measure: whether the scan also runs the programs that differ, so that rows have a `measured_s`.
    """

    type: Literal["scan"]
    variant: int
    state: messages.State
    stage: str
    elapsed_s: float
    error: messages.Error | None
    done: int
    total: int
    rows: list[FlagRow]
    count: int
    same: list[str]
    unknown: list[str]
    left: int
    left_out: str
    machine_code: bool
    measure: bool


class ScanRequest(TypedDict):
    """Starts, resumes or stops trying the flags that may matter for a variant's program. Resuming grants the same time limit again."""

    type: Literal["scan"]
    variant: int
    do: Literal["start", "resume", "stop"]
    time_limit_s: float
    machine_code: bool
    measure: bool


class ScanAddRequest(TypedDict):
    """Adds a variant like the scanned one, with one of the flags that were tried."""

    type: Literal["scan_add"]
    variant: int
    flag: str
    value: str


class BuildOption(TypedDict):
    """An option that is not a flag. Values are text, in the form that the user types.

    Attributes:
      usual: the value if the option is not set: the program's, or XLA's default.
      values: available values; [] if any value of the type can be typed.
      said: the variant's own value, "" if it sets none.
    """

    name: str
    type: str
    usual: str
    values: list[str]
    description: str
    said: str


class BuildOptions(TypedDict):
    """The reply to `BuildOptionsRequest`."""

    type: Literal["build_options"]
    id: int
    variant: int
    rows: list[BuildOption]
    flags: str
    error: messages.Error | None


class BuildOptionsRequest(TypedDict):
    """Requests the options that are not flags, with a variant's values."""

    type: Literal["build_options"]
    id: int
    variant: int


class Built(TypedDict):
    """The reply to `BuildRequest`: an error, or None if the variant was started."""

    type: Literal["built"]
    id: int
    error: messages.Error | None


class BuildRequest(TypedDict):
    """Adds a variant for the target of another one. Values are text, in the form that the user types; empty values are not set."""

    type: Literal["build"]
    id: int
    variant: int
    values: dict[str, str]
    flags: str


class OptionsPane(Pane):
    """Runs one scan per variant. A separate thread starts scans and variants, and reads the catalog."""

    def __init__(self, name: str, context: Context) -> None:
        """Creates the pane; nothing is tried yet."""
        super().__init__(name, context)
        self._scans: RunningJobs[_Scan] = RunningJobs(context)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-options")

    def answer(self, request: Any) -> None:
        """Starts the requested action and returns."""
        act: Mapping[str, Callable[[Any], object]] = {
            "scan": self._scan, "scan_add": self._add, "build_options": self._send_options, "build": self._build,
        }  # fmt: skip
        if request["type"] == "scan" and request["do"] == "stop":
            return self.cancel(self.context.variant(request["variant"]))
        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(self._guarded, act[request["type"]], request)
        return None

    def cancel(self, variant: Variant) -> None:
        """Stops the variant's scan; the results so far remain."""
        self._scans.cancel(variant)

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops the variant's scan."""
        return self._scans.forget(variant)

    def close(self) -> None:
        """Stops all scans."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._scans.close()

    def _guarded(self, act: Callable[[Any], object], request: Any) -> None:
        try:
            act(request)
        except Exception as error:
            self.context.publish(messages.notice_of(error))

    def _scan(self, request: ScanRequest) -> None:
        variant = self.context.variant(request["variant"])
        limits = ScanLimits(request["time_limit_s"], request["machine_code"], request["measure"])
        known = self._scans.get(variant)
        try:
            if known is not None and not known.job.done():
                return
            if known is not None and request["do"] == "resume":
                job, limits = known.job.resume(), known.limits
            else:
                job = self._started(variant, limits)
        except Exception as error:  # the pane shows any error
            self.context.publish(_failed(variant.number, error, limits))
            return
        if self._scans.keep(variant, _Scan(job, limits)):
            Followed(job, lambda: scan_message(variant.number, job, limits), self.context.publish).begin()

    def _started(self, variant: Variant, limits: ScanLimits) -> ScanJob:
        if variant.lowered is None:
            raise ExecutionError(f"{variant.label} cannot be compiled, so flags cannot be tried. Scan another variant.")
        return self.context.work().scan(variant.lowered, variant.target, variant.options, limits)

    def _add(self, request: ScanAddRequest) -> None:
        """Adds a variant with a flag that was tried; a page may not request any other flag here."""
        variant = self.context.variant(request["variant"])
        scan = self._scans.get(variant)
        effects = scan.job.ranked if scan is not None else ()
        for effect in effects:
            if (effect.flag, options_text.value_text(effect.value)) == (request["flag"], request["value"]):
                self.context.tune(variant.options.merge({effect.flag: effect.value}), variant.target, variant.tuning)
                return
        raise OptionError(
            f"{request['flag']}={request['value']} was not tried on {variant.label}. Add it with the controls above."
        )

    def _send_options(self, request: BuildOptionsRequest) -> None:
        reply = BuildOptions(
            type="build_options", id=request["id"], variant=request["variant"], rows=[], flags="", error=None
        )
        try:
            reply["rows"], reply["flags"] = build_options(self.context.variant(request["variant"]))
        except Exception as error:  # the pane shows any error
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)

    def _build(self, request: BuildRequest) -> None:
        reply = Built(type="built", id=request["id"], error=None)
        try:
            variant = self.context.variant(request["variant"])
            names = {row["name"] for row in build_options(variant)[0]}
            if unknown := sorted(request["values"].keys() - names):
                raise OptionError(f"Unknown option {', '.join(unknown)}. Available: {', '.join(sorted(names))}.")
            requested = read_fields(request["values"], request["flags"])
            requested.check()
            self.context.tune(requested, variant.target, variant.tuning)
        except Exception as error:  # shown next to the input
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)


@dataclasses.dataclass(frozen=True, slots=True)
class _Scan:
    """A scan with its limits."""

    job: ScanJob
    limits: ScanLimits

    def cancel(self) -> None:
        """Stops the scan."""
        self.job.cancel()


def scan_message(variant: int, job: ScanJob, limits: ScanLimits) -> Scan:
    """Returns the progress of a scan, for the pane."""
    ranked, state = job.ranked, state_of_job(job)
    notable = [effect for effect in ranked if effect.outcome not in ("nothing", "unknown")]
    error = job.exception() if state == "failed" else None
    others = [f"{count:,} {reason}" for reason, count in job.left_out.items()]
    return Scan(
        type="scan",
        variant=variant,
        state=state,
        stage=job.stage,
        elapsed_s=job.elapsed_s,
        error=None if error is None else messages.error_of(error),
        done=len(ranked),
        total=job.total,
        rows=[_row(effect) for effect in notable[:_SHOWN]],
        count=len(notable),
        same=_named(ranked, "nothing"),
        unknown=_named(ranked, "unknown"),
        left=len(job.not_tried) if job.done() else 0,
        left_out=", ".join(others),
        machine_code=limits.machine_code,
        measure=limits.measure,
    )


def _named(effects: Iterable[FlagEffect], outcome: str) -> list[str]:
    """Returns the flags with their values that have an outcome."""
    return [f"{e.flag}={options_text.value_text(e.value)}" for e in effects if e.outcome == outcome]


def _failed(variant: int, error: Exception, limits: ScanLimits) -> Scan:
    return Scan(
        type="scan", variant=variant, state="failed", stage="failed", elapsed_s=0.0, error=messages.error_of(error),
        done=0, total=0, rows=[], count=0, same=[], unknown=[], left=0, left_out="", machine_code=limits.machine_code,
        measure=limits.measure,
    )  # fmt: skip


_CHANGED: Mapping[str, str] = {
    "hlo": "HLO configuration or order only",
    "memory": "memory only",
    "cost": "cost only",
    "code": "machine code only",
}


def _row(effect: FlagEffect) -> FlagRow:
    deltas = {name: effect.deltas.get(name, Unavailable("compilation failed")) for name in _DELTAS}
    known = {name: None if isinstance(delta, Unavailable) else float(delta) for name, delta in deltas.items()}
    measured = effect.deltas.get("measured_s")
    reasons = dict.fromkeys(delta.reason for delta in deltas.values() if isinstance(delta, Unavailable))
    return FlagRow(
        flag=effect.flag,
        value=options_text.value_text(effect.value),
        outcome=effect.outcome,
        words=effect.error or effect.headline or _CHANGED.get(effect.outcome, ""),
        warning=" ".join(effect.warnings),
        measured_s=None if measured is None or isinstance(measured, Unavailable) else float(measured),
        estimated_s=known["estimated_s"],
        exposed_s=known["exposed_s"],
        peak_bytes=known["peak_bytes"],
        flops=known["flops"],
        bytes_accessed=known["bytes_accessed"],
        kernels=known["kernels"],
        collectives=known["collectives"],
        unknown="; ".join(reasons),
    )


_DELTAS = ("estimated_s", "exposed_s", "peak_bytes", "flops", "bytes_accessed", "kernels", "collectives")

_MEANINGS: Mapping[str, str] = {
    "num_replicas": "Number of copies of the program that run together",
    "num_partitions": "Number of devices that each copy is split over",
    "device_assignment": "Device ids, with commas within a replica and semicolons between replicas, e.g. 0,1;2,3",
    "use_spmd_partitioning": "Partition one program over the devices",
    "use_shardy_partitioner": "Partition with Shardy; must match the partitioner used for lowering",
    "allow_spmd_sharding_propagation_to_parameters": "One boolean per parameter, or one for all",
    "allow_spmd_sharding_propagation_to_output": "One boolean per output, or one for all",
    "parameter_is_tupled_arguments": "The program takes a single tuple as its argument",
    "optimization_level": "How much effort XLA spends on execution speed",
    "memory_fitting_level": "How much effort XLA spends on fitting into memory",
}


def build_options(variant: Variant) -> tuple[list[BuildOption], str]:
    """Returns the options that are not flags with a variant's values, those of the replicas first, and its flags as text.

    Raises:
      ExecutionError: the variant has no program.
    """
    if variant.lowered is None:
        raise ExecutionError(f"{variant.label} was not lowered, so it has no build options. Choose another variant.")
    usual, own = variant.lowered.program.options.as_dict(), variant.options.as_dict()
    rows = [
        _build_option(option, usual, own)
        for option in catalog.options()
        if option.group in ("build", "compile") and (option.name in flags.OPTION_FIELDS or _is_plain(option))
    ]
    order = {name: number for number, name in enumerate(_MEANINGS)}
    rows.sort(key=lambda row: (order.get(row["name"], len(order)), row["name"]))
    names = {row["name"] for row in rows}
    return rows, options_text.write({name: value for name, value in own.items() if name not in names})


def _is_plain(option: catalog.Option) -> bool:
    return not flags.flag_type(option.name).is_opaque and not option.type.endswith("message")


def _build_option(option: catalog.Option, usual: Mapping[str, Any], own: Mapping[str, Any]) -> BuildOption:
    name, text = option.name, options_text.value_text
    default = "" if isinstance(option.default, Unavailable) else text(option.default)
    return BuildOption(
        name=name,
        type="device ids" if name == "device_assignment" else option.type,
        usual=text(usual[name]) if name in usual else default,
        values=["true", "false"] if option.type == "bool" else list(option.choices),
        description=_MEANINGS.get(name, "A field of XLA's build options without a description"),
        said=text(own[name]) if name in own else "",
    )
