"""README, docs and notebooks: their code runs as it stands there, and uses public names alone."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import inspector
from tests.absent import needs_gpu, needs_tpu
from tests.conftest import ROOT, RunPython
from tests.documents import blocks
from tests.project import committed

DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in committed("docs", "*.md") if path.parent.name == "docs")]
NOTEBOOKS = [path.relative_to(ROOT / "notebooks").as_posix() for path in committed("notebooks", "*.ipynb")]
MODULES = {"inspector", "inspector.errors", "inspector.settings"}


def cells(notebook: str) -> list[str]:
    found = json.loads((ROOT / "notebooks" / notebook).read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    return [re.sub(r"^([ \t]*)[%!].*$", r"\1pass", cell, flags=re.MULTILINE) for cell in code]


# ------------------------------------------------------------------ the code runs


# What their code does is also tested elsewhere, part by part.
LONG = frozenset({"docs/bisect.md"})


def _marks(document: str) -> list[pytest.MarkDecorator]:
    text = "".join(blocks(document))
    slow = [pytest.mark.slow] if document in LONG else []
    return slow + [mark for word, mark in (("tpu:", needs_tpu), ("gpu:", needs_gpu)) if word in text]


# Behind the code of a document, with its names.
SHOWN = {
    "docs/recording.md": """
assembly, kernel = names["compiled"].assembly, names["kernel"]
assert f"@{kernel}" in assembly.code("LLVM IR", kernel).text
assert [code.stage for code in assembly.of(kernel)] == list(assembly.stages)
change = names["compiled"].passes.changed[0]
assert change.before != change.after
"""
}
RUN = """
import os, sys, warnings
os.chdir({folder!r})
from tests.documents import run
import jax
warnings.simplefilter("error")
names = run({document!r})
assert jax.device_count() == 1
"""


@pytest.mark.parametrize("document", [pytest.param(d, marks=_marks(d)) for d in DOCUMENTS if blocks(d)])
def test_code_runs_with_one_device(document: str, one_device_python: RunPython, tmp_path: Path) -> None:
    """As a reader has it, in an empty folder; the tests' own process has eight devices."""
    script = RUN.format(folder=str(tmp_path), document=document) + SHOWN.get(document, "")
    one_device_python(script, timeout_s=280)


# ------------------------------------------------------------------ public names


def strangers(code: str) -> list[str]:
    """Lists the non-public names of inspector that a piece of code uses."""
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
        ("from inspector.analysis.graph.instruction_graph import Graph", "inspector.analysis.graph.instruction_graph"),
        ("import inspector.engines", "inspector.engines"),
        ("from inspector import lower, lwoer", "inspector.lwoer"),
        ("inspector.engines.close_engines()", "inspector.engines"),
        ("inspector.Target._read", "inspector.Target._read"),
    ],
)
def test_a_non_public_name_is_detected(code: str, name: str) -> None:
    assert name in strangers(code)
