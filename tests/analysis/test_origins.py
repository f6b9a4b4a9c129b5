"""Collectives without a source line of their own: which one is found, and how it was."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives import Collective, Collectives, collectives
from inspector.errors import Unavailable
from inspector.hlo.module import Module

GROUPS = "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true"

TEXT = f"""HloModule lost, num_partitions=2

add {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }}

product {{
  l = f32[8]{{0}} parameter(0)
  r = f32[8]{{0}} parameter(1)
  ROOT m = f32[8]{{0}} multiply(l, r), metadata={{op_name="jit(f)/transpose(jvp())/mul" source_file="f.py" source_line=3}}
}}

ENTRY main {{
  a = f32[4]{{0}} parameter(0)
  b = f32[8]{{0}} parameter(1)
  gathered = f32[8]{{0}} all-gather(a), {GROUPS}, dimensions={{0}}, metadata={{op_name="params['w']"}}
  copied = f32[8]{{0}} copy(gathered)
  made = f32[8]{{0}} fusion(copied, b), kind=kLoop, calls=product, metadata={{op_name="jit(f)/add_any" source_file="f.py" source_line=99}}
  cast = f32[8]{{0}} convert(made)
  reduced = f32[8]{{0}} all-reduce(cast), {GROUPS}, to_apply=add
  used = f32[8]{{0}} negate(reduced), metadata={{op_name="jit(f)/neg" source_file="f.py" source_line=5}}
  alone = f32[4]{{0}} collective-permute(a), channel_id=2, source_target_pairs={{{{0,1}}}}
  ROOT t = (f32[8]{{0}}, f32[4]{{0}}) tuple(used, alone)
}}
"""


@pytest.fixture(scope="module")
def found() -> Collectives:
    proto = _hlo.hlo_module_from_text(TEXT).as_serialized_hlo_module_proto()
    return collectives(Module.from_proto(proto), None, num_partitions=2)


def line(collective: Collective) -> int:
    return collective.origin.frames[0].line


def test_a_gathered_argument_is_its_user_s(found: Collectives) -> None:
    """The operation in the fusion that uses it says more than the fusion's own line."""
    gathered = found["gathered"]
    assert (line(gathered), gathered.source_from) == (3, "its user m")
    assert gathered.phases == ("backward",)
    assert gathered.origin.op_name == "params['w']"
    assert gathered.inserted_by == "partitioner"


def test_a_sum_is_that_of_what_made_the_parts(found: Collectives) -> None:
    reduced = found["reduced"]
    assert (line(reduced), reduced.source_from, reduced.phases) == (3, "its operand m", ("backward",))
    assert isinstance(reduced.inserted_by, Unavailable)  # who wrote the product did not write this


def test_what_is_lost_says_so(found: Collectives) -> None:
    alone = found["alone"]
    assert alone.origin.frames == ()
    assert alone.source_from == Unavailable(
        "the compiler recorded no source line for it, nor for what holds it, uses it or makes its operands"
        " (12 steps far)"
    )
    row = found.table().set_index("name").loc["alone"]
    assert "source_from: the compiler recorded no source line" in row["unknown"]
