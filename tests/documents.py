"""The Python of a page of the documentation, run as it stands there. Imports nothing that gives JAX more devices.

The blocks of a document run one after the other, in one namespace. `SCENES` gives the names that a document takes for
granted, such as the reader's own function. A comment behind a `print` is what it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import inspector
from tests.project import ROOT


def blocks(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def keeping() -> dict[str, Any]:
    def step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x).sum()

    return {"inspector": inspector, "explorer": inspector.explore(step, jnp.ones((8, 8)), target="cpu")}


SCENES: dict[str, Callable[[], dict[str, Any]]] = {"docs/keeping.md": keeping}


def run(document: str) -> dict[str, Any]:
    """Runs a document in the current folder, and gives its names."""
    names = SCENES.get(document, dict)()
    try:
        for number, block in enumerate(blocks(document)):
            _run_block(block, f"{document}, block {number}", names)
    finally:
        for value in names.values():
            if isinstance(value, inspector.ScanJob):
                value.cancel()
    return names


def _run_block(block: str, name: str, names: dict[str, Any]) -> None:
    printed: list[str] = []
    names["print"] = lambda *values: printed.append(" ".join(map(str, values)))
    exec(compile(block, name, "exec"), names)
    told = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
    for words, text in zip(told, printed, strict=False):
        assert re.search(re.escape(words).replace(r"\.\.\.", ".*"), text, re.DOTALL), (words, text)
    assert len(told) <= len(printed)
