"""Full names of operations before optimization, which are those of the optimized HLO."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.findings.before import Before, full_name
from inspector.errors import Unavailable
from inspector.hlo.source import merged_names
from inspector.stages.findings import module_before
from inspector.support.name_stacks import inlined_name
from tests.findings.sharded import array, manual

X = array((64, 64))


def _loops(depth: int) -> Any:
    def body(x: Any) -> Any:
        if not depth:
            return jnp.tanh(x @ x)
        return lax.fori_loop(0, 4, lambda _, y: jnp.sin(_loops(depth - 1)(y)), x)

    return body


def _functions(x: Any) -> Any:
    inner = jax.jit(lambda x: jnp.tanh(x @ x))
    return lax.fori_loop(0, 4, lambda _, y: jax.jit(lambda y: inner(y) + 1)(y), x)


@pytest.mark.parametrize("body", [*map(_loops, range(4)), _functions])
@pytest.mark.parametrize("wrapped", [lambda body: body, lambda body: manual(body, P(), P())])
def test_products_have_the_same_names(body: Any, wrapped: Any) -> None:
    compiled = inspector.lower(wrapped(body), X).compile(target="cpu:8")
    module = module_before(compiled.program)
    assert not isinstance(module, Unavailable)
    names = {name for _, name in Before(module).values(("dot",))}
    assert names == {full_name(value) for value, _ in Before(module).values(("dot",))}
    rows = compiled.module().columns.rows_of(lambda opcode: opcode in ("dot", "custom-call", "fusion"))
    optimized = {name for row in rows for name in merged_names(compiled.module().at(row).op_name)}
    assert names <= optimized


def test_the_name_of_a_call_is_written_once() -> None:
    assert inlined_name("dot", ["while/body", "while/body", "jit(f)"]) == "jit(f)/while/body/dot"
    assert inlined_name("dot", ["while/body", "jit(f)/while/body"]) == "jit(f)/while/body/while/body/dot"
    assert inlined_name("", ["call", ""]) == "call"
