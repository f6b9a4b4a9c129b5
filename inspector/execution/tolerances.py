"""Tolerances of results by type, and the comparison of arrays within them, as NumPy's `allclose`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inspector.execution.array_difference import Array

TOLERANCES: Mapping[str, float] = {
    "float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4, "float16": 5e-3, "bfloat16": 3e-2,
}  # fmt: skip
"""Largest error of a correct result by NumPy's name of the type, relative to its size or scale. Integers and booleans have none."""


@np.errstate(invalid="ignore", over="ignore")
def departures(ours: Array, theirs: Array, rtol: float | None = None, atol: float | None = None) -> Array:
    """Returns where two arrays differ by more than a tolerance: `|ours - theirs| > atol + rtol * |theirs|`.

    NaN equals NaN, and an infinity equals the same infinity; each differs from every other value.

    Args:
      ours: an array of numbers.
      theirs: the reference, of the same shape and type.
      rtol: relative tolerance; None for that of the type (`TOLERANCES`), 0 for types without one.
      atol: absolute tolerance; None for `rtol` times the largest finite value of the reference.

    Returns:
      A boolean array of the same shape.
    """
    name = theirs.dtype.name
    allowed = TOLERANCES.get(name, 0.0) if rtol is None else rtol
    unequal = ~np.asarray(ours == theirs)
    if not name.startswith(("float", "bfloat", "complex")):
        return unequal
    wide = np.complex128 if name.startswith("complex") else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    sizes = np.abs(b)
    most = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
    apart = np.abs(a - b) > (allowed * most if atol is None else atol) + allowed * sizes
    finite = np.isfinite(a) & np.isfinite(b)
    both = np.isnan(a) & np.isnan(b)
    return np.asarray(unequal & ~both & (apart | ~finite))
