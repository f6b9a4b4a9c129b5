"""A folder as a stranger may have packed it: whatever is imported or started from it leaves a mark."""

from __future__ import annotations

import sys
from pathlib import Path

MARK = ".executed-"
# Not of namespaces (google, nvidia, jax_plugins): these hide them wherever on the path they stand.
PACKAGES = (
    "inspector", "jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "libtpu", "pygraphviz",
    "graphviz", "capstone", "sitecustomize", "usercustomize", "opt_einsum", "distributed", "etils", "rich", "coverage",
    "python", "main", "conftest",
)  # fmt: skip
PROGRAMS = (
    "python", "python3", "dot", "ptxas", "nvlink", "nvdisasm", "fatbinary", "cuobjdump", "uname", "sh", "gcc", "cc",
    "ld", "ldconfig", "lscpu", "which", "git",
)  # fmt: skip
PLACES = (".", "bin", "cuda_sdk_lib/bin", "nvidia/cuda_nvcc/bin", "nvidia/cu13/bin")


def poison(folder: Path) -> Path:
    """Fills a folder with modules of every name that a process of Python or JAX imports, and programs of others."""
    for name in {*sys.stdlib_module_names, *PACKAGES}:
        mark = f"open({str(folder)!r} + '/{MARK}' + {name!r}, 'w')\n"
        (folder / f"{name}.py").write_text(f"{mark}raise ImportError('the current folder was searched for {name}')\n")
    for place in PLACES:
        (folder / place).mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            program = folder / place / name
            program.write_text(f"#!/bin/sh\n: > '{folder}/{MARK}{place.replace('/', '-')}-{name}'\nexit 1\n")
            program.chmod(0o755)
    _pretend(folder, "nvidia-cuda-nvdisasm", "nvdisasm")
    _pretend(folder, "libtpu", "libtpu.so")
    plugin = folder / "jax_plugins" / "xla_cuda12"
    plugin.mkdir(parents=True)
    (plugin / "xla_cuda_plugin.so").write_bytes(b"\x7fELF")
    return folder


def executed(folder: Path) -> list[str]:
    """Lists the imported modules and started programs."""
    return sorted(path.name.removeprefix(MARK) for path in folder.glob(f"{MARK}*"))


def _pretend(folder: Path, distribution: str, file: str) -> None:
    """Metadata of an installed distribution that brings a file."""
    info = folder / f"{distribution.replace('-', '_')}-99.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 99\n")
    (info / "RECORD").write_text(f"{file},,\n")
