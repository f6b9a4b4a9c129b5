"""Options: which flags matter for a variant's program, and a variant with other build options and flags."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from inspector.compilation.options import options_text
from inspector.errors import CancelledError, ExecutionError, OptionError, Unavailable
from inspector.toolchain import flags
from inspector.toolchain.flags import catalog
from inspector.widgets import messages
from inspector.widgets.panes.framework.pane import Context, Pane
from inspector.widgets.typed_options import read_fields
from inspector.widgets.variants import Variant
from inspector.widgets.work import FlagEffect, ScanJob, ScanLimits

_EVERY_S = 0.4  # rows are told so often while a scan goes on
_SHOWN = 300


class FlagRow(TypedDict):
    """A flag with a value that was tried; differences are None where `unknown` says why.

    Attributes:
      outcome: one of `inspector.api.flag_effects.OUTCOMES`.
      words: what changed, or how it failed.
      warning: what its request was warned of, "" for nothing.
    """

    flag: str
    value: str
    outcome: str
    words: str
    warning: str
    peak_bytes: float | None
    flops: float | None
    bytes_accessed: float | None
    kernels: float | None
    collectives: float | None
    unknown: str


class Scan(TypedDict):
    """How far a scan of a variant's flags is: `done` of `total` values.

    Attributes:
      rows: that changed something or failed, those that matter first.
      count: how many such there are.
      same: flags with their values that changed nothing.
      unknown: those that changed nothing but the machine code, if that: it was not compared.
      left: how many were not tried, once it ended.
      left_out: why other flags are not tried, in words.
      machine_code: whether it compiles to that.
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


class ScanRequest(TypedDict):
    """Try the flags that may matter for a variant's program, go on with that for as long again, or stop it."""

    type: Literal["scan"]
    variant: int
    do: Literal["start", "resume", "stop"]
    time_limit_s: float
    machine_code: bool


class ScanAddRequest(TypedDict):
    """Add a variant like the one that was scanned, with one of the flags that were tried."""

    type: Literal["scan_add"]
    variant: int
    flag: str
    value: str


class BuildOption(TypedDict):
    """An option besides flags; texts as they are typed.

    Attributes:
      usual: what holds where nothing is said: of the program, or XLA's default.
      values: what can be chosen, [] where anything of the type can be typed.
      said: the variant's own.
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
    """Which options there are besides flags, and what a variant says of them."""

    type: Literal["build_options"]
    id: int
    variant: int


class Built(TypedDict):
    """The reply to `BuildRequest`: what is wrong, None where the variant is on its way."""

    type: Literal["built"]
    id: int
    error: messages.Error | None


class BuildRequest(TypedDict):
    """Add a variant for the target of another one; texts as they are typed, empty ones unsaid."""

    type: Literal["build"]
    id: int
    variant: int
    values: dict[str, str]
    flags: str


class OptionsPane(Pane):
    """One scan a variant. Its own thread starts scans and variants, and reads the catalog."""

    def __init__(self, name: str, context: Context) -> None:
        """Nothing is tried yet."""
        super().__init__(name, context)
        self._scans: dict[int, _Followed] = {}
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="inspector-options")

    def answer(self, request: Any) -> None:
        """Starts it, and returns."""
        act: Mapping[str, Callable[[Any], object]] = {
            "scan": self._scan, "scan_add": self._add, "build_options": self._tell, "build": self._build,
        }  # fmt: skip
        if request["type"] == "scan" and request["do"] == "stop":
            return self.cancel(self.context.variant(request["variant"]))
        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(self._guarded, act[request["type"]], request)
        return None

    def cancel(self, variant: Variant) -> None:
        """Stops its scan, and keeps what was found."""
        followed = self._scans.get(variant.number)
        if followed is not None:
            followed.job.cancel()

    def forget(self, variant: Variant) -> Callable[[], object]:
        """Drops its scan."""
        followed = self._scans.pop(variant.number, None)
        return (lambda: None) if followed is None else followed.job.cancel

    def close(self) -> None:
        """Stops all scans."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self.context.lock:
            scans = tuple(self._scans.values())
            self._scans.clear()
        for followed in scans:
            followed.job.cancel()

    def _guarded(self, act: Callable[[Any], object], request: Any) -> None:
        try:
            act(request)
        except Exception as error:
            self.context.publish(messages.notice_of(error))

    def _scan(self, request: ScanRequest) -> None:
        variant = self.context.variant(request["variant"])
        limits = ScanLimits(request["time_limit_s"], request["machine_code"])
        known = self._scans.get(variant.number)
        try:
            if known is not None and not known.job.done():
                return
            if known is not None and request["do"] == "resume":
                job, limits = known.job.resume(), known.limits
            else:
                job = self._started(variant, limits)
        except Exception as error:  # whatever it is, it belongs in the pane
            self.context.publish(_failed(variant.number, error, limits))
            return
        followed = _Followed(variant.number, job, limits, self.context.publish)
        with self.context.lock:
            held = self.context.holds(variant)
            if held:
                self._scans[variant.number] = followed
        if held:
            followed.begin()
        else:
            job.cancel()

    def _started(self, variant: Variant, limits: ScanLimits) -> ScanJob:
        scan = self.context.work().scan
        if scan is None or variant.lowered is None:
            raise ExecutionError(f"{variant.label} cannot be compiled, so no flags can be tried. Scan another variant.")
        return scan(variant.lowered, variant.target, variant.options, limits)

    def _add(self, request: ScanAddRequest) -> None:
        """Only what was tried: a page may ask for nothing else here."""
        variant = self.context.variant(request["variant"])
        followed = self._scans.get(variant.number)
        tried = followed.job.ranked if followed is not None else ()
        for effect in tried:
            if (effect.flag, options_text.value_text(effect.value)) == (request["flag"], request["value"]):
                self.context.tune(variant.options.merge({effect.flag: effect.value}), variant.target, variant.tuning)
                return
        raise OptionError(f"{request['flag']}={request['value']} was not tried on {variant.label}. Add it above.")

    def _tell(self, request: BuildOptionsRequest) -> None:
        reply = BuildOptions(
            type="build_options", id=request["id"], variant=request["variant"], rows=[], flags="", error=None
        )
        try:
            reply["rows"], reply["flags"] = build_options(self.context.variant(request["variant"]))
        except Exception as error:  # whatever it is, it belongs in the pane
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)

    def _build(self, request: BuildRequest) -> None:
        reply = Built(type="built", id=request["id"], error=None)
        try:
            variant = self.context.variant(request["variant"])
            names = {row["name"] for row in build_options(variant)[0]}
            if strangers := sorted(request["values"].keys() - names):
                raise OptionError(
                    f"{', '.join(strangers)} is none of the fields. There are {', '.join(sorted(names))}."
                )
            asked = read_fields(request["values"], request["flags"])
            asked.check()
            self.context.tune(asked, variant.target, variant.tuning)
        except Exception as error:  # it belongs beside what was typed
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)


class _Followed:
    """A scan, told as it goes on: one message at a time, so that none overtakes the last."""

    def __init__(self, variant: int, job: ScanJob, limits: ScanLimits, publish: Callable[[Any], None]) -> None:
        self.job, self.limits = job, limits
        self._variant, self._publish = variant, publish
        self._told_s = 0.0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Tells where it is, now and whenever that changes."""
        self._tell()
        self.job.add_progress_callback(lambda _: self._tell_now_and_then())
        self.job.add_done_callback(lambda _: self._tell())

    def _tell(self) -> None:
        with self._lock:
            self._told_s = time.monotonic()
            self._publish(scan_message(self._variant, self.job, self.limits))

    def _tell_now_and_then(self) -> None:
        if time.monotonic() - self._told_s >= _EVERY_S:
            self._tell()


def scan_message(variant: int, job: ScanJob, limits: ScanLimits) -> Scan:
    """How far a scan is, for the pane."""
    ranked, state = job.ranked, _state(job)
    telling = [effect for effect in ranked if effect.outcome not in ("nothing", "unknown")]
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
        rows=[_row(effect) for effect in telling[:_SHOWN]],
        count=len(telling),
        same=_named(ranked, "nothing"),
        unknown=_named(ranked, "unknown"),
        left=len(job.not_tried) if job.done() else 0,
        left_out=", ".join(others),
        machine_code=limits.machine_code,
    )


def _named(effects: Iterable[FlagEffect], outcome: str) -> list[str]:
    """The flags with their values that came to an outcome."""
    return [f"{e.flag}={options_text.value_text(e.value)}" for e in effects if e.outcome == outcome]


def _state(job: ScanJob) -> messages.State:
    if not job.done():
        return "running"
    error = job.exception()
    return "done" if error is None else "cancelled" if isinstance(error, CancelledError) else "failed"


def _failed(variant: int, error: Exception, limits: ScanLimits) -> Scan:
    return Scan(
        type="scan", variant=variant, state="failed", stage="failed", elapsed_s=0.0, error=messages.error_of(error),
        done=0, total=0, rows=[], count=0, same=[], unknown=[], left=0, left_out="", machine_code=limits.machine_code,
    )  # fmt: skip


_CHANGED: Mapping[str, str] = {
    "hlo": "the HLO is configured or ordered otherwise",
    "memory": "the memory only",
    "cost": "the cost only",
    "code": "the machine code only",
}


def _row(effect: FlagEffect) -> FlagRow:
    deltas = {name: effect.deltas.get(name, Unavailable("it could not be compiled")) for name in _DELTAS}
    known = {name: None if isinstance(delta, Unavailable) else float(delta) for name, delta in deltas.items()}
    reasons = dict.fromkeys(delta.reason for delta in deltas.values() if isinstance(delta, Unavailable))
    return FlagRow(
        flag=effect.flag,
        value=options_text.value_text(effect.value),
        outcome=effect.outcome,
        words=effect.error or effect.headline or _CHANGED.get(effect.outcome, ""),
        warning=" ".join(effect.warnings),
        peak_bytes=known["peak_bytes"],
        flops=known["flops"],
        bytes_accessed=known["bytes_accessed"],
        kernels=known["kernels"],
        collectives=known["collectives"],
        unknown="; ".join(reasons),
    )


_DELTAS = ("peak_bytes", "flops", "bytes_accessed", "kernels", "collectives")

_MEANINGS: Mapping[str, str] = {
    "num_replicas": "Copies of the program that run together",
    "num_partitions": "Devices that one copy is split over",
    "device_assignment": "Device ids: a comma within a replica, a semicolon between replicas, such as 0,1;2,3",
    "use_spmd_partitioning": "Partition one program over the devices",
    "use_shardy_partitioner": "Partition with Shardy; must be the partitioner of the lowering",
    "allow_spmd_sharding_propagation_to_parameters": "One boolean a parameter, or one for all",
    "allow_spmd_sharding_propagation_to_output": "One boolean an output, or one for all",
    "parameter_is_tupled_arguments": "The program takes one tuple",
    "optimization_level": "How much XLA does for a fast program",
    "memory_fitting_level": "How much XLA does for one that fits into memory",
}


def build_options(variant: Variant) -> tuple[list[BuildOption], str]:
    """The options besides flags with what a variant says of them, those of the replicas first; and its flags as a text.

    Raises:
      ExecutionError: there is no program.
    """
    if variant.lowered is None:
        raise ExecutionError(f"{variant.label} was not lowered, so nothing holds for it. Choose another variant.")
    usual, said = variant.lowered.program.options.as_dict(), variant.options.as_dict()
    rows = [
        _build_option(option, usual, said)
        for option in catalog.options()
        if option.group in ("build", "compile") and (option.name in flags.OPTION_FIELDS or _is_plain(option))
    ]
    order = {name: number for number, name in enumerate(_MEANINGS)}
    rows.sort(key=lambda row: (order.get(row["name"], len(order)), row["name"]))
    names = {row["name"] for row in rows}
    return rows, options_text.write({name: value for name, value in said.items() if name not in names})


def _is_plain(option: catalog.Option) -> bool:
    return not flags.flag_type(option.name).is_opaque and not option.type.endswith("message")


def _build_option(option: catalog.Option, usual: Mapping[str, Any], said: Mapping[str, Any]) -> BuildOption:
    name, text = option.name, options_text.value_text
    default = "" if isinstance(option.default, Unavailable) else text(option.default)
    return BuildOption(
        name=name,
        type="device ids" if name == "device_assignment" else option.type,
        usual=text(usual[name]) if name in usual else default,
        values=["true", "false"] if option.type == "bool" else list(option.choices),
        description=_MEANINGS.get(name, "A field of XLA's build options, which XLA does not describe"),
        said=text(said[name]) if name in said else "",
    )
