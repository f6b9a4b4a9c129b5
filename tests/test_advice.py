"""Advice in messages refers to existing things: every name and value that a text of the package recommends."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.export
import pytest
from jax._src.config import config

import inspector
from inspector.compilation.engine import EngineLike
from inspector.compilation.request import PRODUCTS
from inspector.engines.choice import chosen_engine
from inspector.platforms import NAMES
from tests.conftest import ROOT
from tests.project import parsed, without_hidden

PACKAGE = ROOT / "inspector"
# What stands in a text for any name or number, in the place where a value would be.
ANYTHING = "ANY"
# Names of packages and of JAX's cache key, a compiler's attribute, and a setting that is said to be gone.
_NO_SETTINGS = (
    "jax_lib",
    "jax_plugins",
    "jax_cuda12_plugin",
    "jax_cuda13_plugin",
    "jax_share_autotune_config_between_hosts",
)
# Words of HLO's texts, of Python, of code for another process, and of the command line.
_NO_KEYWORDS = (
    "device_ids", "last_tile_dims", "run_name", "submodule_search_locations", "peak_bytes", "ignore_errors",
    "start_new_session", "channel_id",  # an attribute of HLO, in questions
    "equal_nan", "mlir_module_serialized",  # in a script for users
)  # fmt: skip
_FLAGS = ("xla_", "jax_")


@functools.cache
def all_texts() -> frozenset[str]:
    """The texts of every file of the package, which are read once for all patterns."""
    return frozenset(text for file in without_hidden(PACKAGE, "*.py") for text in texts(file))


def texts(file: Path) -> Iterator[str]:
    """The texts that a user can read: all but docstrings, with a word in the place of what is filled in."""
    nodes = list(ast.walk(parsed(file.read_text(encoding="utf-8"))))
    silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    hidden = silent | joined
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else ANYTHING for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden:
            yield node.value


def found(pattern: str, *, in_sentences: bool = True) -> list[str]:
    every = {match for text in all_texts() if " " in text or not in_sentences for match in re.findall(pattern, text)}
    return sorted(match for match in every if ANYTHING not in match)


def keywords() -> set[str]:
    """Every keyword that a public function, or a method of a public class, takes."""
    callables: list[Any] = []
    for name in inspector.__all__:
        value = getattr(inspector, name)
        if inspect.isclass(value):
            callables += [value, *(member for _, member in inspect.getmembers(value, callable))]
        elif callable(value):
            callables.append(value)
    names: set[str] = set()
    for each in callables:
        try:
            names |= set(inspect.signature(each).parameters)
        except (TypeError, ValueError):  # of a builtin
            continue
    return names


@pytest.mark.parametrize("name", found(r"\bengine='(\w+)'"))
def test_engines(name: str) -> None:
    if name != "dask":  # without a client it says how to connect one
        assert chosen_engine(name) is not None
    assert name in EngineLike.__doc__ or name in chosen_engine.__doc__ or ""


@pytest.mark.parametrize("text", found(r"\btarget(?:=| )'([\w:]+)'"))
def test_targets(text: str) -> None:
    assert str(inspector.Target(text)).startswith(text.split(":")[0])


@pytest.mark.parametrize("name", found(r"\bplatform='(\w+)'"))
def test_platforms(name: str) -> None:
    assert name in NAMES


@pytest.mark.parametrize("name", found(r"\bproducts=\('(\w+)'"))
def test_products(name: str) -> None:
    assert name in PRODUCTS


@pytest.mark.parametrize("extra", found(r"\bjax-inspector\[(\w+)\]", in_sentences=False))
def test_extras(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extra in project["optional-dependencies"]


def test_commands_that_install_are_made_for_the_environment() -> None:
    """`pip install` works in some only: every remedy asks `install_command`."""
    written = {file.name for file in without_hidden(PACKAGE, "*.py") for text in texts(file) if "pip install" in text}
    assert written == {"install_commands.py"}
    assert found(r"\bjax-inspector\[(\w+)\]", in_sentences=False) == ["cuda", "dask", "lab", "mcp", "tpu"]


@pytest.mark.parametrize("path", found(r"\binspector\.([a-zA-Z_][\w.]*\w)\("))
def test_functions_of_ours(path: str) -> None:
    value: Any = inspector
    for part in path.split("."):
        value = getattr(value, part)
    assert path.partition(".")[0] in inspector.__all__


@pytest.mark.parametrize("path", found(r"\b((?:Compiled|Lowered|Options|Target)\.[a-z]\w+)"))
def test_methods_of_ours(path: str) -> None:
    cls, _, member = path.partition(".")
    assert hasattr(getattr(inspector, cls), member)


@pytest.mark.parametrize(
    "path", found(r"\bjax\.((?:device_put|random|stages|export|config|jit|shard_map|sharding)[\w.]*)")
)
def test_functions_of_jax(path: str) -> None:
    value: Any = jax
    for part in path.rstrip(".").split("."):
        value = getattr(value, part)


@pytest.mark.parametrize("name", [n for n in found(r"\b(jax_[a-z]\w+)\b(?!\.\w)") if n not in _NO_SETTINGS])
def test_settings_of_jax(name: str) -> None:
    assert name in config._value_holders, f"JAX has no setting {name}"


@pytest.mark.parametrize("name", found(r"(?<![\w.-])([a-z]+_[a-z_]+)=(?:True|False|None|\(|\[|\{|'|\d)"))
def test_keywords(name: str) -> None:
    taken = (
        keywords()
        | set(inspect.signature(jax.jit).parameters)
        | set(inspect.signature(jax.sharding.AbstractMesh).parameters)
    )
    assert name in taken or name in _NO_KEYWORDS or name.startswith(_FLAGS), f"no public function takes {name}="
