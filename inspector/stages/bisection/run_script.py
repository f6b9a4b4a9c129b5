"""The script in the folder of a reproduction: shows the difference with JAX alone, without inspector."""

from __future__ import annotations

from collections.abc import Mapping


def run_script(facts: Mapping[str, object]) -> str:
    """Returns the script with the facts of a reproduction as its constants."""
    return _SCRIPT.replace("#FACTS#", "\n".join(f"{name} = {value!r}" for name, value in facts.items()))


_SCRIPT = '''\
"""Compiles and runs module.mlirbc on inputs.npz with two sets of XLA flags, and compares.

Needs JAX and NumPy only. Exits with status 0 if the difference shows, 1 if it does not, 2 if it cannot be run here.
"""

import dataclasses
import os
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

CANNOT_RUN, FAILED = 2, 3
FOLDER = Path(__file__).resolve().parent

#FACTS#


def inputs():
    import ml_dtypes

    with np.load(FOLDER / "inputs.npz") as file:
        values = [file[f"input{n}"] for n in range(len(INPUT_TYPES))]
    return [v if v.dtype.name == name else v.view(getattr(ml_dtypes, name)) for v, name in zip(values, INPUT_TYPES)]


def compile_side(side, arrays):
    import jax
    import jax.numpy as jnp
    from jax import export

    jax.config.update("jax_enable_x64", True)
    stand_in = jax.jit(lambda *_: [jnp.zeros(shape, dtype) for dtype, shape in OUTPUT_TYPES])
    exported = dataclasses.replace(
        export.export(stand_in)(*arrays),
        mlir_module_serialized=(FOLDER / "module.mlirbc").read_bytes(),
        module_kept_var_idx=tuple(range(len(arrays))),
    )
    lowered = jax.jit(exported.call).lower(*arrays)
    flags = [flag.lstrip("-").split("=", 1) for flag in shlex.split(SIDES[side]["xla_flags"]) if "=" in flag]
    flags = {name: {"true": True, "false": False}.get(value, value) for name, value in flags}
    options = SIDES[side]["compiler_options"]
    try:  # some values of XLA_FLAGS are replaced when JAX compiles, such as that of xla_cpu_enable_fast_min_max
        return timed_compile(lowered, {**flags, **options})
    except Exception:  # and some flags are not options of a compile
        return timed_compile(lowered, options)


def timed_compile(lowered, options):
    began = time.perf_counter()
    compiled = lowered.compile(compiler_options=options or None)
    return compiled, time.perf_counter() - began


def run_side(side, path):
    import jax

    if jax.__version__ != VERSIONS[side]:
        print(f"{side}: this Python has JAX {jax.__version__}, not {VERSIONS[side]}")
        if ARE_VERSIONS_COMPARED:
            print(f"Pass a Python that has JAX {VERSIONS[side]}: run.py {side}=/path/to/python")
            return CANNOT_RUN
    try:
        write_side(side, path)
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


def write_side(side, path):
    arrays = inputs()
    compiled, seconds = compile_side(side, arrays)
    found = {"compile_time": np.float64(seconds)}
    memory = compiled.memory_analysis()
    if memory is not None:
        found["memory"] = np.int64(memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes)
    if BY not in ("memory", "compile_time"):
        outputs = compiled(*arrays)
        for n, value in enumerate(outputs):
            value = np.asarray(value)
            is_plain = value.dtype.kind in "biufc"
            found[f"output{n}"] = value if is_plain else value.astype(np.float32)
            found[f"tolerance{n}"] = np.float64(TOLERANCES[n] if RTOL is None else RTOL)
    np.savez(path, **found)


def child(side, path, python):
    environment = dict(os.environ, JAX_PLATFORMS=os.environ.get("JAX_PLATFORMS") or PLATFORMS[side])
    environment["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") + " " + SIDES[side]["xla_flags"]).strip()
    try:
        return subprocess.run([python, __file__, side, path], env=environment).returncode
    except OSError as e:
        print(f"{python} cannot be started: {e}")
        return CANNOT_RUN


def differing(good, bad):
    """Prints the differences and returns whether there are any."""
    if BY in ("memory", "compile_time"):
        print(f"{BY}: good {good[BY]:,}, bad {bad[BY]:,}")
        return bool(good[BY] * 1.3 < bad[BY] if BY == "compile_time" else good[BY] != bad[BY])
    shown = False
    for name in [name for name in good.files if name.startswith("output")]:
        ours, theirs = bad[name], good[name]
        rtol = float(good[name.replace("output", "tolerance")])
        sizes = np.abs(theirs[np.isfinite(theirs)]).astype(np.float64)
        atol = rtol * float(sizes.max(initial=0.0)) if ATOL is None else ATOL
        apart = ~np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
        if apart.any():
            place = tuple(int(i) for i in np.argwhere(apart)[0])
            print(f"{name}: {apart.sum():,} of {apart.size:,} values differ; at {place}: good {theirs[place]}, bad {ours[place]}")
            shown = True
    return shown


def main():
    if len(sys.argv) == 3 and sys.argv[1] in SIDES:
        return run_side(*sys.argv[1:])
    print(f"good: {TARGETS['good']} {SIDES['good']}, with JAX {VERSIONS['good']}", flush=True)
    print(f"bad:  {TARGETS['bad']} {SIDES['bad']}, with JAX {VERSIONS['bad']}", flush=True)
    if None in PLATFORMS.values():
        print(f"The difference is between {TARGETS}, which JAX on this machine cannot run. Compile module.mlir for them.")
        return CANNOT_RUN
    pythons = dict.fromkeys(SIDES, sys.executable)
    for argument in sys.argv[1:]:
        side, _, python = argument.partition("=")
        if side not in SIDES or not python:
            print(f"{argument!r}: expected good=/path/to/python or bad=/path/to/python")
            return CANNOT_RUN
        pythons[side] = python
    with tempfile.TemporaryDirectory() as folder:
        paths = {side: os.path.join(folder, f"{side}.npz") for side in SIDES}
        status = {side: child(side, path, pythons[side]) for side, path in paths.items()}
        failed = {side: code == FAILED or code < 0 for side, code in status.items()}  # a signal is a crash
        if any(code and not failed[side] for side, code in status.items()):
            return CANNOT_RUN
        if any(failed.values()):
            print(f"failed: {', '.join(side for side in SIDES if failed[side])}")
            if BY != "failure":
                return CANNOT_RUN
            shown = failed["bad"] and not failed["good"]
        elif BY == "failure":
            shown = False
        else:
            with np.load(paths["good"]) as good, np.load(paths["bad"]) as bad:
                shown = differing(good, bad)
    print("The difference shows." if shown else "No difference.")
    return int(not shown)


if __name__ == "__main__":
    sys.exit(main())
'''
