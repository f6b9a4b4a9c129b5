"""The packages that Binder installs: the locked versions, of all that the notebooks need."""

from __future__ import annotations

import tomllib
from pathlib import Path

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
