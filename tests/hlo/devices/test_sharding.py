"""Shardings as text: what XLA itself prints."""

from __future__ import annotations

import re

import pytest
from jaxlib import _hlo

from inspector.hlo.module import Module

WRITTEN = (
    "{replicated}", "{maximal device=3}", "{manual}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[4,2]<=[8]}",
    "{devices=[2,4]<=[4,2]T(1,0)}", "{devices=[4,2]0,1,2,3,7,6,5,4}", "{devices=[2,2,2]<=[8] last_tile_dims={manual}}",
    "{devices=[1,2,2,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}", "{unknown}",
)  # fmt: skip


def printed_and_ours(module: str) -> list[tuple[str, str]]:
    """Returns for each instruction with a sharding the text of XLA and ours."""
    parsed = _hlo.hlo_module_from_text(module)
    theirs = dict(
        re.findall(
            r"^ +(?:ROOT )?%?(\S+) = .*?sharding=(\{.*?\})(?:, metadata|, frontend|$)", parsed.to_string(), re.MULTILINE
        )
    )
    made = Module.from_proto(parsed.as_serialized_hlo_module_proto())
    return [(theirs.get(i.name, ""), i.sharding) for i in made.instructions()]


@pytest.mark.parametrize("written", WRITTEN)
def test_the_text_equals_the_text_of_xla(written: str) -> None:
    found = printed_and_ours(f"HloModule m\nENTRY e {{ ROOT p = f32[8,8,8] parameter(0), sharding={written} }}")
    assert found == [(written, written)]


def test_tuples_have_one_of_each_element() -> None:
    written = f"{{{', '.join(WRITTEN[:3])}}}"
    module = f"HloModule m\nENTRY e {{ ROOT p = (f32[8], f32[8], f32[8]) parameter(0), sharding={written} }}"
    ((theirs, ours),) = printed_and_ours(module)
    assert re.sub(r"/\*.*?\*/", "", theirs) == ours == written


def test_an_array_without_a_sharding_has_no_text() -> None:
    assert printed_and_ours("HloModule m\nENTRY e { ROOT p = f32[8] parameter(0) }") == [("", "")]
