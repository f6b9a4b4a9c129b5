"""Nodes of one hierarchy found in another: by titles and by what is computed, whatever numbers names have."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.graph.counterparts import counterparts
from inspector.analysis.graph.hierarchy import hierarchy
from inspector.engines.inline import InlineEngine
from inspector.hlo.module import Module
from tests.analysis.graph.test_hierarchy import X, step
from tests.modules import changed, proto_of


def compiled(ws: int) -> Module:
    arguments = [jnp.asarray(X)] * ws, jnp.asarray(X)
    return inspector.lower(step, *arguments).compile(engine=InlineEngine()).module()


@pytest.fixture(scope="module")
def three() -> Module:
    return compiled(3)


def test_a_module_with_other_names_has_every_node(three: Module) -> None:
    proto = proto_of(three)
    for number, instruction in enumerate(i for c in proto.computations for i in c.instructions):
        instruction.name = f"other.{number}"
    renamed = changed(proto)
    found, other = hierarchy(renamed), hierarchy(three)
    matched = counterparts(found, renamed, other, three)
    boxes = slice(found.row_count, None)
    assert matched[boxes].tolist() == list(range(found.row_count, len(found.parents)))
    rows = matched[: found.row_count]
    known = rows >= 0
    assert known.mean() > 0.95  # a few constants are as good as each other
    opcodes = three.columns.opcodes.codes
    assert (opcodes[rows[known]] == opcodes[: found.row_count][known]).all()


def test_boxes_are_matched_by_their_titles(three: Module) -> None:
    two = compiled(2)
    found, other = hierarchy(three), hierarchy(two)
    matched = counterparts(found, three, other, two)
    assert len(set(matched[matched >= 0].tolist())) == int((matched >= 0).sum())
    for number, box in enumerate(found.boxes):
        partner = int(matched[found.row_count + number])
        if partner >= 0:
            assert other.boxes[partner - other.row_count] == box
    titles = {b.title for n, b in enumerate(found.boxes) if matched[found.row_count + n] >= 0}
    assert {"layer_0", "layer_1", "sgd"} <= titles
    assert "layer_2" not in titles
    assert np.array_equal(matched[found.row_count], other.row_count)
