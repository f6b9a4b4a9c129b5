"""HLO as a listing: text without metadata, lines that know their instruction and its origins."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.hlo_listing import hlo_listing
from inspector.engines.inline import InlineEngine
from inspector.hlo.module import Module
from inspector.hlo.source import Frame, Origin, Root
from tests.modules import changed, proto_of

DATA = Path(__file__).parent.parent / "hlo" / "data"


@pytest.mark.parametrize("name", sorted(p.stem for p in DATA.glob("*.hlo")))
def test_recorded_modules(name: str) -> None:
    text, module = (DATA / f"{name}.hlo").read_text(), Module.from_proto((DATA / f"{name}.pb").read_bytes())
    listing = hlo_listing(text, module, Root())
    lines = listing.text.split("\n")
    assert listing.line_count == len(lines) == len(listing.instructions)
    assert ' metadata={op_name="' not in listing.text
    defined = [n for n in listing.instructions if n]
    # Printed text and proto are two forms of one module; only what an async start wraps is not printed apart.
    assert len(set(defined)) == len(defined)
    printed = {i.name: i for i in module.instructions()}
    assert set(defined) <= printed.keys()
    for instruction in (printed[n] for n in printed.keys() - set(defined)):
        assert {c.opcode for c in module.callers[instruction.computation.name]} <= {
            "async-start",
            "async-update",
            "async-done",
        }
    metadata = dict(re.findall(r'^ +(?:ROOT )?%?(\S+) = .*op_name="([^"]*)"', text, re.MULTILINE))
    for number, instruction in enumerate(listing.instructions):
        names = [o.op_name for o in listing.origins_of(number) if o.op_name]
        assert ";".join(names) == metadata.get(instruction or "", ""), lines[number]


def outer(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2 + helper(x)


def helper(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


def test_origins_end_at_the_function_that_was_lowered() -> None:
    lowered = inspector.lower(outer, np.ones(3, np.float32))
    compiled = lowered.compile(engine=InlineEngine())
    listing = hlo_listing(compiled.hlo, compiled.module(), lowered.root)
    first = outer.__code__.co_firstlineno
    tanh = next(
        listing.origins_of(n) for n in range(listing.line_count)
        if any(o.op_name == "jit(outer)/tanh" for o in listing.origins_of(n))
    )  # fmt: skip
    assert tanh == (
        Origin("jit(outer)/tanh", (Frame(__file__, first + 5, "helper"), Frame(__file__, first + 1, "outer"))),
    )
    assert "jit(outer)" not in {o.op_name for entry in listing.origins for o in entry}


def test_merged_names_are_several_origins() -> None:
    module = Module.from_proto((DATA / "plain.0.10.pb").read_bytes())
    proto = proto_of(module)
    entry = next(c for c in proto.computations if c.id == proto.entry_computation_id)
    entry.instructions[-1].metadata.op_name = "jit(f)/a;jit(f)/b;jit(f)/a;jit(f)"
    listing = hlo_listing((DATA / "plain.0.10.hlo").read_text(), changed(proto), Root(scope="jit(f)"))
    line = listing.instructions.index(entry.instructions[-1].name)
    assert [o.op_name for o in listing.origins_of(line)] == ["jit(f)/a", "jit(f)/b"]
