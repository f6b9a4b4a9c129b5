"""The results of runs for the Run pane: durations, arrays, and the comparison with the baseline."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from inspector.errors import ExecutionError, Unavailable
from inspector.execution.array_difference import Difference
from inspector.execution.comparison import Comparison, compare_outcomes, relative_speed
from inspector.execution.outcome import Outcome
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    from inspector.execution import run as measurement

_PREVIEW_VALUES = 6
_PREVIEW_REPLICAS = 16
_SHOWN_ARRAYS = 40
_MOST_BYTES = 256 << 20  # limit for the stored outputs of all variants
_NOT_KEPT = Unavailable(
    f"the outputs of all variants exceed the storage limit of {format_bytes(_MOST_BYTES)}",
    "Compare two runs with inspector.compare_runs(run, other)",
)


class RunArray(TypedDict):
    """An input or output of a run.

    Attributes:
      path: the expression in Python, such as `params['w']`.
      shape: shape as text without the type, such as `128,64` for `f32[128,64]`.
      generated: whether inspector generated the values, because only a shape was passed.
      per_replica: whether every replica has different values.
      preview: one line of values per replica; a single line if all replicas have the same values.
    """

    path: str
    shape: str
    dtype: str
    generated: bool
    per_replica: bool
    preview: list[str]


class RunResult(TypedDict):
    """The measurements of a run: seconds from the call until the outputs are ready, one duration per execution.

    Attributes:
      first_s: seconds of the execution before the measured ones; None without any.
      dispatch_s: median of the seconds until the call returned; None if unknown.
      printed: the beginning of what host callbacks printed.
    """

    device_kind: str
    durations_s: list[float]
    median_s: float
    min_s: float
    iqr_s: float
    inputs: list[RunArray]
    outputs: list[RunArray]
    note: str
    first_s: float | None
    dispatch_s: float | None
    printed: str


class OutputDifference(TypedDict):
    """The difference between an output and the baseline's output; numbers are None where `unknown` has the reason.

    Attributes:
      scaled: the largest difference divided by the baseline's largest value.
      ulps: the largest distance between two elements, in floating-point numbers between them.
      first: index of the first element that differs, with its value in both outputs; "" if all are equal.
      nans, infinities: number of such elements in this output and in the baseline's.
    """

    path: str
    count: int
    differing: int
    largest: float | None
    scaled: float | None
    relative: float | None
    ulps: int | None
    first: str
    nans: tuple[int, int]
    infinities: tuple[int, int]
    unknown: str


class RunComparison(TypedDict):
    """The comparison of a variant's run with the baseline's run, updated whenever one of them runs.

    Attributes:
      outputs: description of how closely the outputs agree, or the reason why they cannot be compared.
      verdict: the same in a few words.
      is_same: whether all outputs are equal; None if they cannot be compared.
      speed: description of which run is faster, or the reason why this is unknown.
      is_faster: True, False (slower), or None if the difference is within the noise.
    """

    type: Literal["run_comparison"]
    variant: int
    outputs: str
    verdict: str
    is_same: bool | None
    speed: str
    is_faster: bool | None
    rows: list[OutputDifference]


def run_result(run: measurement.Run) -> RunResult:
    """Returns a measurement as the pane shows it; long lists of arrays are truncated, with a note."""
    notes = []
    if any(array.made for array in run.inputs):
        notes.append(
            "Generated inputs were created from their shapes: small normal random numbers, zeros for integers."
        )
    for name, arrays in (("inputs", run.inputs), ("outputs", run.outputs)):
        if len(arrays) > _SHOWN_ARRAYS:
            notes.append(f"Showing the first {_SHOWN_ARRAYS} of {len(arrays)} {name}.")
    if (size := sum(array.nbytes for array in run.outputs)) > _MOST_BYTES:
        notes.append(
            f"Outputs of {format_bytes(size)} are too large to store. Compare two runs with inspector.compare_runs(run, other)."
        )
    return RunResult(
        device_kind=run.device_kind,
        durations_s=list(run.durations_s),
        median_s=run.median_s,
        min_s=run.min_s,
        iqr_s=run.iqr_s,
        inputs=[_input(array, run.num_replicas) for array in run.inputs[:_SHOWN_ARRAYS]],
        outputs=[
            _array(f"result{about.path}", about, value, run.num_replicas > 1, run.num_replicas)
            for about, value in zip(run.program.results[:_SHOWN_ARRAYS], run.outputs, strict=False)
        ],
        note=" ".join(notes),
        first_s=run.first_s,
        dispatch_s=statistics.median(run.dispatch_s) if run.dispatch_s else None,
        printed=run.printed,
    )


def within_limit(latest: Mapping[int, Outcome], first: int) -> dict[int, Outcome]:
    """Limits the stored outputs of runs to `_MOST_BYTES`: the baseline's outputs first, then the latest.

    Args:
      latest: outcomes by variant, the latest last.
      first: number of the baseline.
    """
    left, limited = _MOST_BYTES, dict(latest)
    for number in (first, *(each for each in reversed([*latest]) if each != first)):
        if number in latest and latest[number].byte_size <= left:
            left -= latest[number].byte_size
        elif number in latest:
            limited[number] = dataclasses.replace(latest[number], outputs=_NOT_KEPT)
    return limited


def run_comparison(variant: int, run: Outcome, baseline: Outcome) -> RunComparison:
    """Returns the comparison of a variant's run with the baseline's, for the pane."""
    faster = relative_speed(run, baseline)
    message = RunComparison(
        type="run_comparison", variant=variant, outputs="", verdict="not comparable", is_same=None, rows=[],
        speed=faster.reason if isinstance(faster, Unavailable) else faster.words,
        is_faster=None if isinstance(faster, Unavailable) or not faster.is_known else faster.ratio > 1,
    )  # fmt: skip
    try:
        comparison = compare_outcomes(run, baseline)
    except ExecutionError as error:
        message["outputs"] = str(error)
        return message
    message["outputs"], message["is_same"], message["verdict"] = comparison.words, comparison.same, _verdict(comparison)
    unlike = sorted(comparison.differences, key=lambda each: not each.differing)
    message["rows"] = [_difference(each) for each in unlike[:_SHOWN_ARRAYS]]
    return message


def _verdict(comparison: Comparison) -> str:
    if comparison.same:
        return "equal"
    return "differ" if isinstance(comparison.bound, Unavailable) else f"differ by {comparison.bound}"


def _difference(each: Difference) -> OutputDifference:
    numbers = {name: getattr(each, name) for name in ("largest", "scaled", "relative", "ulps")}
    reasons = dict.fromkeys(value.reason for value in numbers.values() if isinstance(value, Unavailable))
    at = f"[{', '.join(map(str, each.first))}]" if each.first else ""
    known = {name: None if isinstance(value, Unavailable) else value for name, value in numbers.items()}
    return OutputDifference(
        path=f"result{each.path}",
        count=each.count,
        differing=each.differing,
        largest=known["largest"],
        scaled=known["scaled"],
        relative=known["relative"],
        ulps=known["ulps"],
        first="" if each.first is None else f"{at} {each.value} for {each.other_value}".strip(),
        nans=(each.nans, each.other_nans),
        infinities=(each.infinities, each.other_infinities),
        unknown="; ".join(reasons),
    )


def _input(source: Any, num_replicas: int) -> RunArray:
    array = _array(source.argument.path, source.argument, source.value, source.per_replica, num_replicas)
    return RunArray(**{**array, "generated": source.made})


def _array(path: str, about: Any, value: np.ndarray, per_replica: bool, num_replicas: int) -> RunArray:
    rows = list(value) if per_replica else [value]
    preview = [_preview(row) for row in rows[:_PREVIEW_REPLICAS]]
    if len(rows) > _PREVIEW_REPLICAS:
        preview.append(f"… {len(rows) - _PREVIEW_REPLICAS:,} more replicas")
    return RunArray(
        path=path,
        shape=",".join(map(str, about.shape)),
        dtype=about.dtype,
        generated=False,
        per_replica=per_replica and num_replicas > 1,
        preview=preview,
    )


def _preview(value: np.ndarray) -> str:
    """Formats the first values on one line."""
    flat = np.asarray(value).reshape(-1)
    words = [_word(v) for v in flat[:_PREVIEW_VALUES]]
    if flat.size > _PREVIEW_VALUES:
        words.append("…")
    return words[0] if value.ndim == 0 else f"[{', '.join(words)}]"


def _word(value: Any) -> str:
    if np.issubdtype(type(value), np.integer) or isinstance(value, np.bool_):
        return str(value)
    number = complex(value) if np.issubdtype(type(value), np.complexfloating) else float(value)
    return f"{number:.5g}"
