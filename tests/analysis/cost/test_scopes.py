"""Name stacks as a reader says them."""

from __future__ import annotations

import pytest

from inspector.analysis.cost.scopes import argument_path, operation_of, scope_of


@pytest.mark.parametrize(
    ("op_name", "path", "phase"),
    [
        ("", (), ""),
        ("jit(f)/add", (), "rest"),
        ("jit(f)/jvp(layer)/dot_general", ("layer",), "forward"),
        ("jit(f)/transpose(jvp(layer))/bqhd,bkhd->bhqk/dot_general", ("layer", "bqhd,bkhd->bhqk"), "backward"),
        ("jit(f)/transpose(jvp())/mul", (), "backward"),
        ("jit(f)/jvp(jit(relu))/max", ("relu",), "forward"),
        ("jit(f)/vmap(jvp(a/b))/c/sin", ("a", "b", "c"), "forward"),
        ("jit(f)/layers/while/body/closed_call/attention/dot_general", ("layers", "attention"), "rest"),
        ("jit(f)/cond/branch_1_fun/mlp/mul", ("mlp",), "rest"),
        ("jit(f)/transpose(jvp())/checkpoint/rematted_computation/mlp/sin", ("mlp",), "recomputed"),
        ("jit(f)/jvp(a)/mul;jit(f)/b/sub", ("a",), "forward + rest"),
        ("jit(f)/jit(main)/jit(jit(g))/x/mul", ("g", "x"), "rest"),
    ],
)
def test_scopes(op_name: str, path: tuple[str, ...], phase: str) -> None:
    found = scope_of(op_name)
    assert (found.path, found.phase) == (path, phase)


@pytest.mark.parametrize(
    ("op_name", "operation"),
    [("jit(f)/jvp(a)/dot_general", "dot_general"), ("params['a']", ""), ("", ""), ("jit(f)/f[a/b]", "f[a/b]")],
)
def test_operations(op_name: str, operation: str) -> None:
    assert operation_of(op_name) == operation


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("x", ("x",)),
        ("params['layers'][0]['w']", ("params", "layers", "0", "w")),
        ("state.opt_state[1].mu['a b']", ("state", "opt_state", "1", "mu", "a b")),
        ("", ()),
    ],
)
def test_arguments(name: str, path: tuple[str, ...]) -> None:
    assert argument_path(name) == path
