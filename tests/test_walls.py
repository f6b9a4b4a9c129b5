"""The import table of the house, checked over the source of every module.

Every `import` counts, wherever it stands: at the top, in a function, under TYPE_CHECKING. A type
that a room may not import is a dependency as much as a value is. There is no exception, and no circle.

`python -m tests.test_walls` prints which room imports which.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import graphlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.project import parsed, without_hidden
from tests.wall_types import Surface

PACKAGE = Path(__file__).resolve().parent.parent / "inspector"

BASE = frozenset({"support", "errors", "settings"})
TOP = frozenset({"", "__main__", "api", "cli"})

# What each room may import of ours, beside itself and the base modules: rooms that stand above it here. The modules that
# join the rooms ("top") may import all.
ROOMS: Mapping[str, frozenset[str]] = {
    "base": frozenset(),
    "platforms": frozenset(),
    "_jax": frozenset({"platforms"}),
    "toolchain": frozenset({"platforms", "_jax"}),
    "hlo": frozenset({"toolchain"}),
    "profiles": frozenset({"hlo"}),
    "compilation": frozenset({"platforms", "toolchain", "hlo"}),
    "analysis": frozenset({"platforms", "hlo", "profiles", "compilation"}),
    "engines": frozenset({"platforms", "_jax", "toolchain", "compilation"}),
    "execution": frozenset({"compilation"}),
    "stages": frozenset(
        {"platforms", "_jax", "toolchain", "hlo", "profiles", "compilation", "analysis", "engines", "execution"}
    ),
    "lowering": frozenset({"platforms", "_jax", "hlo", "compilation", "stages"}),
    "expectations": frozenset({"hlo", "compilation", "analysis", "stages", "lowering"}),
    "reports": frozenset({"_jax", "hlo", "compilation", "analysis", "engines", "execution", "stages"}),
    "widgets": frozenset(
        {"platforms", "toolchain", "hlo", "compilation", "analysis", "execution", "stages", "reports"}
    ),  # the values that panes show
    "course": frozenset({"hlo", "analysis", "lowering", "widgets"}),
}

# Modules of ours that a room may not import though their room is open to it.
CLOSED: Mapping[str, frozenset[str]] = {
    "analysis": frozenset({"inspector.compilation.engine"}),  # values only: an analysis asks for no work
}

# Packages of others, and the only rooms that may import them.
FOREIGN: Mapping[str, frozenset[str]] = {
    "jaxlib": frozenset({"_jax"}),
    "jax": frozenset({"_jax", "lowering", "engines", "execution", "course", "top"}),  # values do without
    "ipywidgets": frozenset({"widgets", "top"}),
    "anywidget": frozenset({"widgets", "top"}),
    "IPython": frozenset({"widgets", "top"}),
    "distributed": frozenset({"engines", "top"}),  # optional: only where a cluster is asked for
    **dict.fromkeys(("mcp", "mcp_types", "anyio"), frozenset({"top"})),  # optional: only the server for coding agents
}


CROWDED = 25  # modules in one folder, sub-folders counted as one each


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported module."""

    target: str
    line: int


def room_of(module: str) -> str | None:
    """The room a module of ours lives in, None where it has none."""
    parts = module.split(".")
    stem = parts[1] if len(parts) > 1 else ""
    if stem in TOP:
        return "top"
    if stem in BASE:
        return "base"
    return stem if stem in ROOMS and stem != "base" else None


def called_name(call: ast.Call) -> str:
    """Returns the last part of a called name; "" for anything else."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def imported_names(node: ast.AST) -> list[str]:
    """Dotted names that a statement or a call to `import_module` imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and called_name(node) in ("import_module", "__import__"):
        return [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return []


@functools.cache
def imports(source: str, modules: frozenset[str]) -> list[Import]:
    """Returns the imports of a module; each name of inspector is cut back to its module."""
    found = []
    for node in ast.walk(parsed(source)):
        for name in imported_names(node):
            target = name if name in modules or not name.startswith("inspector.") else name.rpartition(".")[0]
            found.append(Import(target, node.lineno))  # type: ignore[attr-defined]
    return found


def private_uses(source: str) -> list[tuple[int, str]]:
    """Lines that reach a private part of jax: `jax._src`, `jax.core._x`, `getattr(lax, "_x")`."""
    tree = parsed(source)
    dotted: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            dotted |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            dotted |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    found = []
    for node in ast.walk(tree):
        names = imported_names(node)
        if isinstance(node, ast.Attribute):
            names = [f"{ast.unparse(node.value)}.{node.attr}"]
        elif isinstance(node, ast.Call) and called_name(node) in ("getattr", "hasattr") and len(node.args) > 1:
            names = [f"{ast.unparse(node.args[0])}.{getattr(node.args[1], 'value', '')}"]
        for name in names:
            root, _, rest = name.partition(".")
            full = name if isinstance(node, (ast.Import, ast.ImportFrom)) else f"{dotted.get(root, root)}.{rest}"
            parts = full.split(".")
            if parts[0] == "jax" and any(part.startswith("_") and not part.startswith("__") for part in parts):
                found.append((node.lineno, full))  # type: ignore[attr-defined]
    return found


def allowed(module: str, target: str) -> bool:
    """Reports whether the table lets `module` import `target`."""
    room = room_of(module)
    if target.split(".")[0] != "inspector":
        rooms = FOREIGN.get(target.split(".")[0])
        return rooms is None or room in rooms
    assert room is not None
    if room == "top":
        return room_of(target) is not None
    if target in CLOSED.get(room, ()):
        return False
    return room_of(target) in {room, "base", *ROOMS[room]}


def violations(sources: Mapping[str, str]) -> list[str]:
    """Everything in `sources` (module name to text) that the table does not allow."""
    modules, found = frozenset(sources), []
    for module, source in sources.items():
        if room_of(module) is None:
            found.append(f"{module}: belongs to no room; rooms are {', '.join(ROOMS)} and the top")
            continue
        for each in imports(source, modules):
            if not allowed(module, each.target):
                found.append(f"{module}:{each.line}: {room_of(module)} may not import {each.target}")
        if room_of(module) != "_jax":
            found += [
                f"{module}:{line}: {name} is private; only _jax may use it" for line, name in private_uses(source)
            ]
    return found


def cycle(sources: Mapping[str, str]) -> list[str]:
    """A circle among imports, [] where there is none."""
    modules = frozenset(sources)
    graph = {
        module: {each.target for each in imports(source, modules) if each.target in modules and each.target != module}
        for module, source in sources.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as e:
        return list(e.args[1])
    return []


def table(sources: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """How many imports each room makes of each other one, in the order of `ROOMS`."""
    modules, order = frozenset(sources), [*ROOMS, "top"]
    found: dict[str, dict[str, int]] = {room: {} for room in order}
    for module, source in sources.items():
        for each in imports(source, modules):
            room, other = room_of(module), room_of(each.target) if each.target.startswith("inspector") else None
            if room is not None and other is not None and other != room:
                found[room][other] = found[room].get(other, 0) + 1
    return {room: dict(sorted(counts.items(), key=lambda item: order.index(item[0]))) for room, counts in found.items()}


def package_sources() -> dict[str, str]:
    """Text of every module, by name."""
    found = {}
    for path in without_hidden(PACKAGE, "*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def package() -> dict[str, str]:
    return package_sources()


def test_every_import_is_allowed(package: dict[str, str]) -> None:
    assert len(package) > 10
    assert violations(package) == []


def test_no_cycles(package: dict[str, str]) -> None:
    assert cycle(package) == []


def test_the_table_equals_the_imports(package: dict[str, str]) -> None:
    found = table(package)
    unused = {room: ROOMS[room] - found[room].keys() for room in ROOMS}
    assert {room: others for room, others in unused.items() if others} == {}, "allowed, and nobody imports it"
    assert table({"inspector.hlo.a": "from inspector.support import units\nimport inspector.toolchain.xla",
                  "inspector.support.units": "", "inspector.toolchain.xla": ""})["hlo"] == {"base": 1, "toolchain": 1}  # fmt: skip


def test_no_folder_is_crowded(package: dict[str, str]) -> None:
    folders = collections.Counter(name.rpartition(".")[0] for name in package)
    crowded = {folder: count for folder, count in folders.items() if count > CROWDED}
    assert crowded == {}, "split the folder by subject"


def test_rooms_import_only_rooms_that_stand_above() -> None:
    order = list(ROOMS)
    assert all(order.index(other) < order.index(room) for room in ROOMS for other in ROOMS[room])


# What passes the wall though it is an object of jaxlib's: because users ask for that very object.
HANDED_OUT: Mapping[str, str] = {
    "inspector._jax.compiling.runtime": "faces of jaxlib's runtime classes, each with its `raw`",
    "inspector._jax.compiling.compile_options.documented_options": "the CompileOptions that JAX's own get_compile_options gave",
    "inspector._jax.modules.hlo.computation_from_proto": "the XlaComputation that JAX's own xla_computation gave",
}


def test_only_values_pass_the_wall(package: dict[str, str]) -> None:
    surface = Surface(package)
    assert len(surface.imported) > 50
    assert surface.unsaid(HANDED_OUT) == []
    outside = {taken.rpartition(".")[0] for taken in surface.imported} | set(surface.imported)
    assert set(HANDED_OUT) <= outside, "nobody takes it any more"


PLANTED_TYPES = {
    "def f(x: Any) -> int: ...": ("f", "f: Any"),
    "def f(x: int, y) -> int: ...": ("f", "f: Any"),
    "def f() -> tuple[object, ...]: ...": ("f", "f: tuple[object, ...]"),
    "from jaxlib.mlir import ir\ndef f() -> ir.Module: ...": ("f", "f: ir.Module"),
    "from jax._src import core\ndef f(x: 'core.Jaxpr') -> int: ...": ("f", "f: 'core.Jaxpr'"),
    "Facts = dict[str, Any]\ndef f() -> Facts: ...": ("f", "Facts: dict[str, Any]"),
    "class Inner:\n    x: Any\nclass Outer:\n    x: list[Inner]\ndef f() -> Outer: ...": ("f", "Inner: Any"),
    "class C:\n    def m(self) -> Any: ...": ("C", "C: Any"),
    "class B:\n    x: Any\nclass C(B): ...": ("C", "B: Any"),
}


@pytest.mark.parametrize("source", PLANTED_TYPES)
def test_catches_a_planted_type(source: str) -> None:
    name, found = PLANTED_TYPES[source]
    sources = {
        "inspector._jax.a": f"from typing import Any\n{source}",
        "inspector.lowering.a": f"from inspector._jax import a\na.{name}",
    }
    assert Surface(sources).unsaid({}) == [f"inspector._jax.a.{found}"]
    sources["inspector.lowering.a"] = f"from inspector._jax.a import {name}"
    assert Surface(sources).unsaid({}) == [f"inspector._jax.a.{found}"]
    assert Surface(sources).unsaid({"inspector._jax.a": "said to be fine"}) == []


def test_lets_values_pass_the_wall() -> None:
    said = """
import jax, numpy as np
from typing import Any
from inspector._jax.values import UserValue
class Facts:
    text: str
    _raw: Any
def f(fun: UserValue, traced: jax.stages.Traced, dtype: np.dtype[Any]) -> tuple[Facts, ...] | None: ...
def _internal(jaxpr: Any) -> Any: ...
"""
    values = "from typing import Any\nUserValue = Any"
    sources = {"inspector._jax.values": values, "inspector._jax.a": said}
    assert Surface({**sources, "inspector.lowering.a": "from inspector._jax.a import f"}).unsaid({}) == []


PLANTED = {
    "inspector.analysis.a": ["import jax", "import jax.numpy as jnp", "from inspector.engines import worker",
                             "from inspector.compilation import engine", "def f():\n    import jax"],
    "inspector.hlo.a": ["import jaxlib", "from inspector.compilation import options", "import jax"],
    "inspector.compilation.a": ["from inspector._jax import stages", "import inspector.lowering.lower",
                                "if TYPE_CHECKING:\n    from inspector.execution import run"],
    "inspector.compilation.compiled": ["import inspector.execution.run",
                                       "def run():\n    from inspector.execution.run import Run"],
    "inspector.execution.a": ["def f():\n    from inspector.engines import worker", "from inspector import stages"],
    "inspector.stages.a": ["from inspector.lowering import lower", "def f():\n    from inspector import widgets"],
    "inspector.widgets.a": ["from inspector.engines import worker", "from inspector._jax import stages",
                            "from inspector import lowering"],
    "inspector.lowering.a": ["import jax._src.core", "from jax import _src", "from jax._src import core",
                             "import jax\njax._src", "from jax import lax\nlax._x(1)", "import jax\ngetattr(jax, '_src')",
                             "import jaxlib.mlir", "import ipywidgets", "import importlib\nimportlib.import_module('jaxlib')"],
    "inspector.engines.a": ["from inspector.lowering import lower", "from inspector.analysis import diff"],
    "inspector.support.units": ["from inspector.hlo import mesh"],
    "inspector.api.explore": ["from jaxlib import xla_client"],
    "inspector.helpers": ["import os"],
}  # fmt: skip

STUBS = dict.fromkeys(
    [
        *(
            "inspector",
            "inspector.errors",
            "inspector._jax",
            "inspector._jax.lowering.stages",
            "inspector.hlo.devices.mesh",
        ),
        *("inspector.compilation.engine", "inspector.compilation.options.options", "inspector.execution.run"),
        *(
            "inspector.lowering",
            "inspector.lowering.lower",
            "inspector.engines.workers.worker_engine",
            "inspector.analysis.diff.text_diff",
            "inspector.stages",
            "inspector.widgets",
        ),
    ],
    "",
)


@pytest.mark.parametrize(("module", "source"), [(module, source) for module in PLANTED for source in PLANTED[module]])
def test_catches_a_planted_violation(module: str, source: str) -> None:
    found = violations({**STUBS, module: source})
    assert found, f"{source!r} in {module} went unseen"
    assert all(line.startswith(module) for line in found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("inspector._jax.a", "import jaxlib\nfrom jax._src import core\nimport jax\njax._src"),
        ("inspector.lowering.a", "import jax\njax.__version__\nfrom inspector._jax import stages"),
        (
            "inspector.analysis.a",
            "import inspector.compilation.options.options\nfrom inspector.hlo.devices.mesh import Mesh",
        ),
        ("inspector.stages.compiled", "def run():\n    from inspector.execution.run import Run"),
        ("inspector.api.explore", "from inspector.engines.workers.worker_engine import Worker\nimport ipywidgets"),
    ],
)
def test_lets_the_allowed_pass(module: str, source: str) -> None:
    assert violations({**STUBS, module: source}) == []


def test_catches_a_planted_cycle() -> None:
    loop = {"inspector.hlo.a": "from inspector.hlo import b", "inspector.hlo.b": "import inspector.hlo.a"}
    assert set(cycle(loop)) == set(loop)
    for hidden in ("if TYPE_CHECKING:\n    import inspector.hlo.a", "def f():\n    import inspector.hlo.a"):
        loop["inspector.hlo.b"] = hidden
        assert set(cycle(loop)) == set(loop), hidden


def main() -> None:
    """Prints the table, what it does not allow, and circles."""
    sources = package_sources()
    for room, counts in table(sources).items():
        print(f"{room:12}", ", ".join(f"{other} {count}" for other, count in counts.items()) or "nothing")
    print("exceptions:", len(violations(sources)), " circles:", int(bool(cycle(sources))))


if __name__ == "__main__":
    main()
