"""Collectives without a source line of their own: which one is found, and how it was."""

from __future__ import annotations

import pytest
from jaxlib import _hlo

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.collectives.collectives import Collectives, collectives
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


def test_a_sum_has_the_origin_of_its_parts(found: Collectives) -> None:
    reduced = found["reduced"]
    assert (line(reduced), reduced.source_from, reduced.phases) == (3, "its operand m", ("backward",))
    assert reduced.inserted_by == "partitioner"  # the user wrote the product, and no shard_map around it


MERGED = f"""HloModule merged, num_partitions=2

add {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }}

joined {{
  p = f32[8]{{0}} parameter(0)
  q = f32[1]{{0}} parameter(1)
  ROOT c = f32[9]{{0}} concatenate(p, q), dimensions={{0}}
}}

ENTRY main {{
  a = f32[2,4]{{1,0}} parameter(0)
  gradient = f32[2,4]{{1,0}} negate(a), metadata={{op_name="jit(f)/transpose(jvp())/mul" source_file="f.py" source_line=3}}
  further = f32[2,4]{{1,0}} copy(gradient)
  flat = f32[8]{{0}} bitcast(further)
  l = f32[] parameter(1)
  loss = f32[] negate(l), metadata={{op_name="jit(f)/jvp()/reduce_sum" source_file="f.py" source_line=7}}
  one = f32[1]{{0}} bitcast(loss)
  fused = f32[9]{{0}} fusion(flat, one), kind=kLoop, calls=joined
  at_once = f32[9]{{0}} all-reduce(fused), {GROUPS}, to_apply=add
  users = f32[9]{{0}} concatenate(one, flat), dimensions={{0}}, metadata={{op_name="jit(f)/concatenate" source_file="f.py" source_line=9}}
  own = f32[9]{{0}} all-reduce(users), {GROUPS}, to_apply=add
  bare = f32[9]{{0}} concatenate(one, flat), dimensions={{0}}
  unfused = f32[9]{{0}} all-reduce(bare), {GROUPS}, to_apply=add
  tuple = (f32[2,4]{{1,0}}, f32[]) all-reduce(gradient, loss), {GROUPS}, to_apply=add, metadata={{op_name="jit(f)/transpose(jvp())/mul" source_file="f.py" source_line=3}}
  ROOT t = (f32[9]{{0}}, f32[9]{{0}}, f32[9]{{0}}, (f32[2,4]{{1,0}}, f32[])) tuple(at_once, own, unfused, tuple)
}}
"""


@pytest.mark.parametrize(("name", "number", "via", "phases"), [
    ("at_once", 3, "gradient, the largest of its 2 operands", ("forward", "backward")),
    ("unfused", 3, "gradient, the largest of its 2 operands", ("forward", "backward")),
    ("own", 9, "its operand users", ("rest",)),
    ("tuple", 3, "itself", ("forward", "backward")),
])  # fmt: skip
def test_several_sums_in_one_belong_to_all_their_phases(
    name: str, number: int, via: str, phases: tuple[str, ...]
) -> None:
    proto = _hlo.hlo_module_from_text(MERGED).as_serialized_hlo_module_proto()
    found = collectives(Module.from_proto(proto), None, num_partitions=2)[name]
    assert (line(found), found.source_from, found.phases) == (number, via, phases)


def test_a_lost_source_line_is_reported_as_unknown(found: Collectives) -> None:
    alone = found["alone"]
    assert alone.origin.frames == ()
    assert alone.source_from == Unavailable(
        "the compiler recorded no source line for it, nor for the instructions that contain it, use it or produce its operands"
        " (within 12 steps)"
    )
    row = found.table().set_index("name").loc["alone"]
    assert "source_from: the compiler recorded no source line" in row["unknown"]
