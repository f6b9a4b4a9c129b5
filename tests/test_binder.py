"""The packages that Binder installs: the locked versions, of all that the notebooks need."""

from __future__ import annotations

import asyncio
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def _lines(name: str) -> list[str]:
    lines = (ROOT / "binder" / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_binder_installs_the_locked_versions() -> None:
    locked = {(p["name"], p.get("version", "")): p for p in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    pinned = {tuple(line.partition(";")[0].strip().split("==")) for line in _lines("constraints.txt")}
    assert pinned <= locked.keys(), "see the first line of binder/constraints.txt for how to write it anew"
    # Nothing that is needed may be left to the day of the build.
    needed, waiting = set[str](), ["jax-inspector"]
    while waiting:
        name = waiting.pop()
        for (own, _), package in locked.items():
            if own == name:
                extras = package.get("optional-dependencies", {}).get("lab", []) if name == "jax-inspector" else []
                waiting += [d["name"] for d in (*package.get("dependencies", []), *extras) if d["name"] not in needed]
                needed |= {d["name"] for d in (*package.get("dependencies", []), *extras)}
    assert needed - {"jax-inspector"} <= {name for name, *_ in pinned}


def test_the_binder_requirements_pin_the_package() -> None:
    assert _lines("requirements.txt") == ["-c constraints.txt", "-e .[lab]"]


@pytest.mark.slow
def test_the_server_keeps_two_kernels(tmp_path: Path) -> None:
    """Starts four kernels one after another; the first ones end, and a busy one stays."""
    names: dict[str, Any] = {"c": types.SimpleNamespace(ServerApp=types.SimpleNamespace())}
    exec((ROOT / "binder" / "jupyter_server_config.py").read_text(), names)

    async def started() -> tuple[list[str], list[str]]:
        kernels = names["c"].ServerApp.kernel_manager_class(root_dir=str(tmp_path))
        ids = [await kernels.start_kernel() for _ in range(2)]
        for number in ids:
            kernels.get_kernel(number).execution_state = "idle"
        kernels.get_kernel(ids[0]).execution_state = "busy"
        for _ in range(2):
            ids.append(await kernels.start_kernel())
            kernels.get_kernel(ids[-1]).execution_state = "idle"
        left = kernels.list_kernel_ids()
        await kernels.shutdown_all(now=True)
        return ids, left

    ids, left = asyncio.run(started())
    assert left == [ids[0], *ids[2:]]
