"""Compiles whose dump does not fit: into the temporary folder where that has room, else no product, and nothing is cached."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspector.engines.workers import scratch
from inspector.engines.workers.process_output import NOT_WRITTEN, warnings_in

SCRIPT = """
import json, sys
import jax, jax.numpy as jnp, inspector
from inspector.compilation.compiled import is_from_cache
from inspector.errors import Unavailable
inspector.settings.update(cache_directory=sys.argv[1])
def f(x):
    for i in range(6):
        x = jnp.sort(jnp.sin(x @ x) + i, axis=0)
    return x.sum()
products = ("passes", "assembly", "buffers")
compiled = inspector.lower(f, jax.ShapeDtypeStruct((64, 64), jnp.float32)).compile(target="cpu", products=products)
found = {name: getattr(compiled, name) for name in products}
said = {name: v.reason if isinstance(v, Unavailable) else v.byte_size for name, v in found.items()}
count = None if isinstance(compiled.passes, Unavailable) else len(compiled.passes.table())
print(json.dumps({"said": said, "count": count, "cached": is_from_cache(compiled), "peak": compiled.memory.peak_bytes}))
"""


def mounts() -> bool:
    """Reports whether a process can have separate file systems."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not mounts(), reason="needs root and unshare")


def compile_with(cache: Path, memory: str = "", temporary: str = "", folder: Path | None = None) -> dict[str, Any]:
    """Returns the output of a process whose file systems have such sizes, for example "300k"."""
    said = [f"mount -t tmpfs -o size={memory} tmpfs /dev/shm"] if memory else []
    if temporary:
        said += [f"mount -t tmpfs -o size={temporary} tmpfs {folder}", f"export TMPDIR={folder}"]
    command = " && ".join([*said, 'exec "$@"'])
    ended = subprocess.run(
        ["unshare", "-m", "bash", "-c", command, "-", sys.executable, "-c", SCRIPT, str(cache)],
        check=True, capture_output=True, text=True, timeout=300, env={**os.environ, "JAX_PLATFORMS": "cpu", "INSPECTOR_CACHE": "on"},
    )  # fmt: skip
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.slow  # a minute
@needs_mounts
def test_a_full_memory_file_system_does_not_change_results(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    cache = tmp_path / "cache"
    neither = compile_with(cache, "300k", "300k", folder)
    assert all("dump is not complete" in said for said in neither["said"].values())
    right = compile_with(cache)
    assert not right["cached"], "what was cut off was cached"
    assert right["count"] > 100
    assert compile_with(cache)["cached"]
    elsewhere = compile_with(tmp_path / "other", "300k")
    assert not elsewhere["cached"]
    assert (elsewhere["count"], elsewhere["peak"]) == (right["count"], right["peak"])
    assert neither["peak"] == right["peak"]


def test_the_place_with_room_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, temporary = tmp_path / "memory", tmp_path / "temporary"
    for place in (memory, temporary):
        place.mkdir()
    monkeypatch.setattr(scratch, "_MEMORY", memory)
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(temporary))
    free: dict[str, int] = {}
    monkeypatch.setattr(scratch, "free_bytes", lambda path: free[str(path)])
    for in_memory, on_disk, room, expected in (
        (100, 1000, 100, memory),
        (99, 1000, 100, temporary),
        (99, 98, 100, memory),
    ):
        free |= {str(memory): in_memory, str(temporary): on_disk}
        made = scratch.Scratch(1, room)
        assert Path(made.path).parent == expected
        made.delete()


def test_a_warning_for_each_file_becomes_one() -> None:
    said = [f"E1125 10:00:00.0 1 dump.cc:1] {NOT_WRITTEN} to /x/{n}: RESOURCE_EXHAUSTED" for n in range(60)]
    (warning,) = warnings_in("\n".join(said))
    assert warning.startswith(f"{NOT_WRITTEN} to /x/0: RESOURCE_EXHAUSTED")
    assert "and 59 more files. Free disk space there" in warning
