"""Every private use of JAX has a probe, every probe finds what it needs here, and says what it does not find."""

from __future__ import annotations

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax._src import core, source_info_util
from jax._src.interpreters import mlir

import inspector
from inspector._jax import probes
from inspector._jax.probes import PROBES, Probe, probe_all
from tests.conftest import RunPython
from tests.project import parsed

WALL = Path(probes.__file__).parent
# Attributes of ours that begin with an underscore, on objects other than `self`.
OURS = frozenset({"_concrete_class", "_exit", "_raw"})  # protobuf's, Python's and our own handles', not JAX's


def is_private(module: str) -> bool:
    return module.split(".")[0] == "jaxlib" or module.startswith("jax._src")


def is_others_private(node: ast.Attribute) -> bool:
    ours = node.attr in OURS or (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    return node.attr.startswith("_") and not node.attr.startswith("__") and not ours


def private_uses(source: str) -> set[str]:
    """Dotted paths of private names that a module uses; `?._name` for private attributes of values."""
    tree = parsed(source)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    bound: dict[str, str] = {}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and is_private(node.module):
            bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if is_private(alias.name)}
            bound |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0]
                for a in node.names
                if is_private(a.name)
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in bound:
            path, at = bound[node.id], parents.get(node)
            while isinstance(at, ast.Attribute):
                path, at = f"{path}.{at.attr}", parents.get(at)
            found.add(path)
        elif isinstance(node, ast.Attribute) and is_others_private(node):
            found.add(f"?.{node.attr}")
    return found | {path for path in bound.values() if not any(u.startswith(f"{path}.") for u in found)}


def is_probed(use: str) -> bool:
    """Reports whether a probe looks at it, at a part of it, or at the owner of the method."""
    if use.startswith("?"):
        return any(path.endswith(use[1:]) or f"{use[1:]}." in path for path in PROBES)
    return any(f"{path}.".startswith(f"{use}.") or f"{use}.".startswith(f"{path}.") for path in PROBES)


def test_everything_is_there_in_this_jax() -> None:
    assert {path: missing for path, missing in probe_all().items() if missing} == {}
    assert len(PROBES) > 60


@pytest.mark.parametrize("module", sorted(WALL.glob("*.py")), ids=lambda path: path.stem)
def test_every_private_use_has_a_probe(module: Path) -> None:
    assert {use for use in private_uses(module.read_text(encoding="utf-8")) if not is_probed(use)} == set()


def test_the_check_sees_what_has_none() -> None:
    source = (
        "from jax._src import core as c, api\nimport jaxlib.thing\nc.no_such_thing.x()\nlowered._hidden\nself._ours"
    )
    uses = private_uses(source)
    assert uses == {"jax._src.core.no_such_thing.x", "jax._src.api", "jaxlib.thing", "?._hidden"}
    assert not any(is_probed(use) for use in uses)


def test_a_removed_name_is_reported_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(core, "pp_eqn")
    monkeypatch.setattr(source_info_util, "user_frames", lambda source_info: [])
    monkeypatch.delattr(mlir, "LoweringParameters")
    missing = {path: text for path, text in probe_all().items() if text}
    assert missing == {
        "jax._src.core.pp_eqn": "jax._src.core.pp_eqn is missing; needed for printing jaxprs with the equation of each line",
        "jax._src.source_info_util.user_frames": (
            "jax._src.source_info_util.user_frames has no parameter traceback; needed for source lines of equations"
        ),
        "jax._src.interpreters.mlir.LoweringParameters": (
            "jax._src.interpreters.mlir.LoweringParameters is missing; needed for lowering under an axis environment"
        ),
    }


def test_the_first_part_that_is_missing_is_named() -> None:
    assert Probe("jax._src.nowhere.name", "x").missing() == "jax._src.nowhere is missing; needed for x"
    assert Probe("jax._src.nowhere.name", "x", unless="jax._src.core").missing() is None


def test_probing_starts_no_device(one_device_python: RunPython) -> None:
    script = """
from inspector._jax.probes import probe_all
assert not any(probe_all().values())
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized())
"""
    assert one_device_python(script).stdout == "False\n"


def test_the_compile_arguments_of_a_lowered_are_read() -> None:
    """Reads the values behind `Lowered._lowering`, which no signature shows."""
    lowered = inspector.lower(lambda a, b, c: a + c, 1.0, jnp.ones(3), 2)
    assert [a.parameter for a in lowered.inputs] == [0, None, 1]
    assert [a.weak_type for a in lowered.inputs] == [True, False, True]
    assert lowered.program.device_ids == (0,)
    third = jax.device_put(jnp.ones(3), jax.devices()[3])
    assert inspector.lower(jnp.sin, third).program.device_ids == (3,)
