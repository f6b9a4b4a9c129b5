"""README, docs and notebooks: their code runs as it stands there, and uses public names alone.

The blocks of a document run one after the other, in one namespace and an empty folder. `SCENES` gives the names
that a document takes for granted, such as the reader's own function. A comment behind a `print` is what it prints.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compilation_cache
from jax.experimental import pallas as pl

import inspector
from tests.absent import needs_gpu, needs_tpu
from tests.conftest import ROOT
from tests.project import committed

DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in committed("docs", "*.md") if path.parent.name == "docs")]
NOTEBOOKS = [path.relative_to(ROOT / "notebooks").as_posix() for path in committed("notebooks", "*.ipynb")]
MODULES = {"inspector", "inspector.errors", "inspector.settings"}


def blocks(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def cells(notebook: str) -> list[str]:
    found = json.loads((ROOT / "notebooks" / notebook).read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    return [re.sub(r"^([ \t]*)[%!].*$", r"\1pass", cell, flags=re.MULTILINE) for cell in code]


# ------------------------------------------------------------------ the code runs


def readme() -> dict[str, Any]:
    def f(x: jax.Array) -> jax.Array:
        return jnp.tanh(x * 2).sum()

    def kernel(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...] @ y_ref[...].T

    def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[0]), x.dtype))(x, y)

    def train_step(params: Any, batch: jax.Array) -> Any:
        return jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(params)

    square = np.ones((128, 128), np.float32)
    return {"f": f, "matmul": matmul, "train_step": train_step, "params": square, "batch": square}


def keeping() -> dict[str, Any]:
    def step(x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ x).sum()

    return {"inspector": inspector, "explorer": inspector.explore(step, jnp.ones((8, 8)), target="cpu")}


SCENES: dict[str, Callable[[], dict[str, Any]]] = {"README.md": readme, "docs/keeping.md": keeping}


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Runs a document, once, and gives its names."""
    done: dict[str, dict[str, Any]] = {}

    def run(document: str) -> dict[str, Any]:
        if document not in done:
            folder = tmp_path_factory.mktemp(Path(document).stem)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                done[document] = _run(document)
        return done[document]

    yield run
    for names in done.values():
        for value in names.values():
            if isinstance(value, inspector.ScanJob):
                value.cancel()


def _run(document: str) -> dict[str, Any]:
    names = SCENES.get(document, dict)()
    for number, block in enumerate(blocks(document)):
        printed: list[str] = []
        names["print"] = lambda *values, into=printed: into.append(" ".join(map(str, values)))
        exec(compile(block, f"{document}, block {number}", "exec"), names)
        told = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        for words, text in zip(told, printed, strict=False):
            assert re.search(re.escape(words).replace(r"\.\.\.", ".*"), text, re.DOTALL), (words, text)
        assert len(told) <= len(printed)
    return names


@pytest.fixture
def no_memory() -> Iterator[None]:
    """What other tests compiled and configured is forgotten."""
    jax.clear_caches()
    compilation_cache.reset_cache()
    yield
    compilation_cache.reset_cache()


def _marks(document: str) -> list[pytest.MarkDecorator]:
    text = "".join(blocks(document))
    return [mark for word, mark in (("tpu:", needs_tpu), ("gpu:", needs_gpu)) if word in text]


@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("document", [pytest.param(d, marks=_marks(d)) for d in DOCUMENTS if blocks(d)])
def test_code_runs(document: str, ran: Callable[[str], dict[str, Any]]) -> None:
    ran(document)


def test_recording_shows_what_it_says(ran: Callable[[str], dict[str, Any]]) -> None:
    names = ran("docs/recording.md")
    assembly, kernel = names["compiled"].assembly, names["kernel"]
    assert f"@{kernel}" in assembly.code("LLVM IR", kernel).text
    assert [code.stage for code in assembly.of(kernel)] == list(assembly.stages)
    change = names["compiled"].passes.changed[0]
    assert change.before != change.after


# ------------------------------------------------------------------ public names


def strangers(code: str) -> list[str]:
    """What a piece of code takes of inspector that is not public."""
    tree = ast.parse(code)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] == "inspector" and a.name not in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "inspector":
            public = set(inspector.__all__) if node.module == "inspector" else {a.name for a in node.names}
            found += [node.module or ""] if node.module not in MODULES else []
            found += [f"{node.module}.{a.name}" for a in node.names if a.name not in public]
        elif isinstance(node, ast.Attribute):
            found += _stranger(node)
    return found


def _stranger(node: ast.Attribute) -> list[str]:
    path = ast.unparse(node)
    if not re.fullmatch(r"inspector(\.\w+)+", path):
        return []
    value: Any = inspector
    for part in path.split(".")[1:]:
        if part.startswith("_") or not hasattr(value, part):
            return [path]
        value = getattr(value, part)
    return [] if path.split(".")[1] in inspector.__all__ else [path]


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)])
def test_documents_use_public_names(document: str) -> None:
    assert [name for block in blocks(document) for name in strangers(block)] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_notebooks_use_public_names(notebook: str) -> None:
    assert [name for cell in cells(notebook) for name in strangers(cell)] == []


@pytest.mark.parametrize(
    "path", re.findall(r"`inspector\.([\w.]+)`?", "".join((ROOT / d).read_text() for d in DOCUMENTS))
)
def test_names_in_prose_are_public(path: str) -> None:
    assert strangers(f"inspector.{path.rstrip('.')}") == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from inspector.analysis.graph import Graph", "inspector.analysis.graph"),
        ("import inspector.engines", "inspector.engines"),
        ("from inspector import lower, lwoer", "inspector.lwoer"),
        ("inspector.engines.close_engines()", "inspector.engines"),
        ("inspector.Target._read", "inspector.Target._read"),
    ],
)
def test_a_name_that_is_not_public_is_found(code: str, name: str) -> None:
    assert name in strangers(code)
