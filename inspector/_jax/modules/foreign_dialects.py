"""Names the dialect that MLIR does not know, and the project that it belongs to."""

from __future__ import annotations

import re

_HOMES = {
    "ttir": "tt-mlir", "ttnn": "tt-mlir", "ttcore": "tt-mlir", "tt": "tt-mlir or Triton", "ttmetal": "tt-mlir", "ttkernel": "tt-mlir",
    "d2m": "tt-mlir", "emitc": "MLIR", "emitpy": "tt-mlir", "sfpi": "tt-mlir",
    "enzyme": "Enzyme", "enzymexla": "Enzyme-JAX", "triton": "Triton", "ttg": "Triton", "triton_xla": "XLA", "xtile": "XLA",
    "xla": "XLA", "xla_gpu": "XLA", "xla_cpu": "XLA", "lmhlo": "XLA", "tf": "TensorFlow", "tfl": "TensorFlow Lite",
    "tf_executor": "TensorFlow", "torch": "torch-mlir", "torch_c": "torch-mlir", "onnx": "onnx-mlir", "iree": "IREE",
    "util": "IREE", "flow": "IREE", "hal": "IREE", "stream": "IREE", "check": "StableHLO's tests", "interpreter": "StableHLO's interpreter",
    "hlo_test_infer": "StableHLO's tests", "hlo_test_speculatability": "StableHLO's tests", "linalg": "MLIR", "tosa": "MLIR",
    "bufferization": "MLIR", "quant": "MLIR", "ml_program": "MLIR", "shard": "MLIR", "mesh": "MLIR", "spirv": "MLIR", "async": "MLIR",
    "omp": "MLIR", "transform": "MLIR", "sparse_tensor": "MLIR", "tpu": "JAX's Pallas kernels for TPUs",
    "mosaic_gpu": "JAX's Pallas kernels for GPUs", "ifrt": "XLA's IFRT", "vifrt": "XLA's IFRT", "perfexpr": "Enzyme-JAX",
    "tessera": "Enzyme-JAX", "distributed": "Enzyme-JAX", "kernel": "Enzyme-JAX", "comm": "Enzyme-JAX", "impulse": "Enzyme-JAX",
    "enzymexla_tt_ext": "Enzyme-JAX", "dlti": "MLIR", "test": "MLIR's tests", "llvm": "MLIR",
}  # fmt: skip
_NAMED = re.compile(
    r"Dialect `([\w.]+)'|dialect '(\w+)' is unknown|[!#]\"([\w.]+)\"<|[!#]([\w]+)[.<]\S* (?:type|attribute) created with unregistered"
)
_AT = re.compile(r"\"-\":(\d+):(\d+): operation being parsed with an unregistered dialect")
_OPERATION = re.compile(r'"(\w+)\.[\w.]+"')


def explanation(module: bytes | str, error: str) -> str:
    """Returns a sentence on the unregistered dialect that MLIR's error is about; "" for another error.

    Args:
      module: the module that MLIR could not read.
      error: MLIR's error.
    """
    if "unregistered" not in error and "Dialect `" not in error:
        return ""
    name = _named(error) or _at_place(module, error)
    if not name:
        return "The module has a dialect that is not registered."
    home = f" of {_HOMES[name]}" if name in _HOMES else ""
    return (
        f"The module has the dialect {name!r}{home}, which JAX does not include. Lower it to StableHLO with the tools of its project"
        " first."
    )


def conversion_error(error: str) -> str:
    """Returns XLA's error of a conversion to HLO; names the dialect if XLA does not include one that JAX includes."""
    name = _named(error) if "unregistered" in error else ""
    return f"XLA's conversion to HLO does not include the dialect {name!r} of the module." if name else error


def _named(error: str) -> str:
    match = _NAMED.search(error)
    return next(filter(None, match.groups()), "") if match else ""


def _at_place(module: bytes | str, error: str) -> str:
    place = _AT.search(error)
    if place is None or not isinstance(module, str):
        return ""
    lines, number, column = module.split("\n"), int(place[1]), int(place[2])
    matches = _OPERATION.finditer(lines[number - 1]) if number <= len(lines) else ()
    nearest = min(matches, key=lambda match: abs(match.start() + 1 - column), default=None)
    return nearest[1] if nearest else ""
