"""A measurement, for the Run pane. Reads a `Run` through its attributes, so that it needs no room that runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from inspector.widgets import messages
from inspector.widgets.work import Measured, RunJob

_PREVIEW_VALUES = 6
_PREVIEW_REPLICAS = 16
_SHOWN_ARRAYS = 40


def run_result(run: Measured) -> messages.RunResult:
    """A measurement as the pane shows it; long lists of arrays are cut, and the note says so."""
    notes = []
    if any(given.made for given in run.inputs):
        notes.append(
            "Inputs marked as generated were made from their shapes: small normal numbers, zeros for integers."
        )
    for name, arrays in (("inputs", run.inputs), ("outputs", run.outputs)):
        if len(arrays) > _SHOWN_ARRAYS:
            notes.append(f"The first {_SHOWN_ARRAYS} of {len(arrays)} {name} are shown.")
    return messages.RunResult(
        device_kind=run.device_kind,
        durations_s=list(run.durations_s),
        median_s=run.median_s,
        min_s=run.min_s,
        iqr_s=run.iqr_s,
        inputs=[_input(given, run.num_replicas) for given in run.inputs[:_SHOWN_ARRAYS]],
        outputs=[
            _array(f"result{about.path}", about, value, run.num_replicas > 1, run.num_replicas)
            for about, value in zip(run.program.results[:_SHOWN_ARRAYS], run.outputs, strict=False)
        ],
        note=" ".join(notes),
    )


def _input(given: Any, num_replicas: int) -> messages.RunArray:
    array = _array(given.argument.path, given.argument, given.value, given.per_replica, num_replicas)
    return messages.RunArray(**{**array, "generated": given.made})


def _array(path: str, about: Any, value: np.ndarray, per_replica: bool, num_replicas: int) -> messages.RunArray:
    rows = list(value) if per_replica else [value]
    preview = [_preview(row) for row in rows[:_PREVIEW_REPLICAS]]
    if len(rows) > _PREVIEW_REPLICAS:
        preview.append(f"… {len(rows) - _PREVIEW_REPLICAS:,} more replicas")
    return messages.RunArray(
        path=path,
        shape=",".join(map(str, about.shape)),
        dtype=about.dtype,
        generated=False,
        per_replica=per_replica and num_replicas > 1,
        preview=preview,
    )


def _preview(value: np.ndarray) -> str:
    """A few values on one line."""
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


def run_message(
    variant: int,
    state: messages.State,
    run: RunJob | None = None,
    *,
    error: BaseException | None = None,
    result: messages.RunResult | None = None,
) -> messages.Run:
    """The state of a variant's run, for the pane."""
    return messages.Run(
        type="run",
        variant=variant,
        state=state,
        stage="" if run is None else run.stage,
        elapsed_s=0.0 if run is None else run.elapsed_s,
        error=None if error is None else messages.error_of(error),
        result=result,
    )
