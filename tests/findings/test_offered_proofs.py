"""The proofs that findings offer can be tried: each edit changes the program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import Unavailable
from inspector.stages.edited_program import EditedProgram, edited_program
from tests.absent import needs_gpu
from tests.findings.recorded import FOLDER
from tests.findings.sharded import D, array


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.inspector")))
def test_the_edits_of_recorded_programs_can_be_made(name: str) -> None:
    compiled = inspector.load(FOLDER / name)
    assert isinstance(compiled, inspector.Compiled)
    findings = compiled.findings()
    assert not findings.unknown
    for finding in [*findings, *findings.folded]:
        if not isinstance(finding.edits, Unavailable):
            changed = edited_program(compiled.program, finding.edits)
            assert isinstance(changed, EditedProgram), (finding.title, changed)
            assert changed.flags or changed.program != compiled.program, finding.title


def in_a_shard_map(body: Any) -> Any:
    return jax.shard_map(body, mesh=D, in_specs=(P("d"), P()), out_specs=P("d"))


@pytest.mark.parametrize(
    ("kind", "body", "dtype"),
    [
        ("highest-precision", lambda x, w: jnp.dot(x, w, precision="highest"), jnp.float32),
        ("highest-precision", jax.jit(lambda x, w: jnp.dot(x, w, precision="highest")), jnp.float32),
        ("product-as-sum", lambda x, w: (x[:, :, None] * w).sum(1), jnp.float32),
        ("upcast-product", lambda x, w: x.astype(jnp.float32) @ w.astype(jnp.float32), jnp.bfloat16),
    ],
)
@needs_gpu
def test_edits_are_made_in_a_shard_map(kind: str, body: Any, dtype: Any) -> None:
    """The names of operations in it are relative to it."""
    args = array((8192, 2048), "d", dtype=dtype), array((2048, 2048), dtype=dtype)
    (finding,) = inspector.lower(in_a_shard_map(body), *args).compile(target="gpu:h100:8").findings(kinds=[kind])
    proof = finding.prove()
    assert proof.verdict == "proven"
