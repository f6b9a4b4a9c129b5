"""Graphs of modules: readable, bounded, valid DOT, and each node known by its instruction."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pygraphviz
import pytest

import inspector
from benchmarks.workloads import make
from inspector.analysis.graph.instruction_graph import WHOLE_LIMIT, Graph, graph
from inspector.engines.inline import InlineEngine
from inspector.errors import ModuleError
from inspector.hlo.module import Module
from tests.modules import changed, proto_of


def parse(drawn: Graph) -> pygraphviz.AGraph:
    """The DOT as Graphviz reads it: an oracle for quoting."""
    return pygraphviz.AGraph(string=drawn.dot)


def svg(drawn: Graph) -> str:
    text: str = drawn.source.pipe("svg", encoding="utf-8")
    return text


def compiled(fun: Any, *args: Any) -> Module:
    return inspector.lower(fun, *args).compile(engine=InlineEngine()).module()


def layers(x: Any, w: Any) -> Any:
    for name in ("first", "second"):
        with jax.named_scope(name):
            x = jnp.tanh(x @ w)
    return x.sum()


X = np.ones((4, 4), np.float32)


@pytest.fixture(scope="module")
def small() -> Module:
    return compiled(layers, X, X)


@pytest.fixture(scope="module")
def tf2() -> Module:
    workload = make("tf2")
    return Module.from_proto(inspector.lower(workload.fun, *workload.args).hlo_proto)


def test_a_small_module_is_drawn_whole(small: Module) -> None:
    drawn = graph(small)
    parsed = parse(drawn)
    names = {i.name for i in small.entry.instructions}
    assert drawn.mode == "whole"
    assert {str(n) for n in parsed.nodes()} == names
    assert {n.attr["id"] for n in parsed.nodes()} == {f"node-{name}" for name in names}
    expected = {(o.name, i.name) for i in small.entry.instructions for o in i.operands}
    assert {(str(a), str(b)) for a, b in parsed.edges()} == expected
    assert drawn.caption == f"all {len(names)} instructions of {small.entry.name}"


def test_ids_and_labels_arrive_in_the_svg(small: Module) -> None:
    drawn = svg(graph(small))
    for instruction in small.entry.instructions:
        assert f'id="node-{instruction.name}"' in drawn.replace("&#45;", "-")
    assert drawn.count('class="node"') == len(small.entry.instructions)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\\", "ünï→", "[x]{y}<z>|p", "a\nb", "\\N", "->", "a;b", "a:b"])
def test_any_name_is_one_node(small: Module, name: str) -> None:
    proto = proto_of(small)
    entry = next(c for c in proto.computations if c.id == proto.entry_computation_id)
    entry.instructions[0].name = name
    module = changed(proto)
    drawn = graph(module)
    parsed = parse(drawn)
    # cgraph itself takes a doubled backslash as one only when it draws.
    assert len(parsed.nodes()) == len(module.entry.instructions)
    assert len(parsed.edges()) == len({(o.name, i.name) for i in module.entry.instructions for o in i.operands})
    assert drawn.dot.count("\n") == graph(small).dot.count("\n")
    assert "<svg" in svg(drawn)


def test_a_large_module_is_drawn_by_scopes(tf2: Module) -> None:
    assert len(tf2.entry.instructions) > WHOLE_LIMIT
    drawn = graph(tf2)
    parsed = parse(drawn)
    assert drawn.mode == "scopes"
    assert 5 < len(parsed.nodes()) <= 150
    assert all(n.attr["id"] == f"scope-{n}" for n in parsed.nodes())
    scopes = {"/".join(i.op_name.split("/")[1:-1][:2]) or "(top)" for i in tf2.entry.instructions if i.op_name}
    assert {str(n) for n in parsed.nodes()} <= scopes
    assert all(a != b for a, b in parsed.edges())
    assert "<svg" in svg(drawn)


def test_the_graph_of_a_large_module_is_truncated_with_a_note(tf2: Module) -> None:
    drawn = graph(tf2, "whole")
    count = len(tf2.entry.instructions)
    assert len(parse(drawn).nodes()) == WHOLE_LIMIT
    assert drawn.caption == f"the last {WHOLE_LIMIT} of {count:,} instructions of {tf2.entry.name}"
    assert tf2.entry.root.name in {str(n) for n in parse(drawn).nodes()}


def test_around_a_selection_everything_is_near_it(tf2: Module) -> None:
    entry = tf2.entry
    users: dict[str, set[str]] = {i.name: set() for i in entry.instructions}
    for i in entry.instructions:
        for o in i.operands:
            users[o.name].add(i.name)
    operands = {i.name: {o.name for o in i.operands} for i in entry.instructions}
    for selection in [entry.instructions[k].name for k in range(0, len(entry.instructions), 97)] + [entry.root.name]:
        drawn = graph(tf2, "around", f"%{selection}")
        parsed = parse(drawn)
        near, frontier = {selection}, {selection}
        for _ in range(3):
            frontier = {n for f in frontier for n in users[f] | operands[f]} - near
            near |= frontier
        nodes = {str(n) for n in parsed.nodes()}
        assert selection in nodes <= near
        assert len(nodes) <= 60
        assert len(parsed.edges()) <= 3 * len(nodes)
        assert all(str(a) in operands[str(b)] for a, b in parsed.edges())
        assert [str(n) for n in parsed.nodes() if n.attr["class"] == "selected"] == [selection]
        assert f"steps from {selection}" in drawn.caption
        assert ("omitted" in drawn.caption) == (nodes != near)


def test_around_an_instruction_inside_of_a_called_computation(tf2: Module) -> None:
    inner = next(c for c in tf2.computations if not c.is_entry and len(c.instructions) > 2)
    drawn = graph(tf2, "around", inner.root.name)
    assert inner.name in drawn.caption
    assert {str(n) for n in parse(drawn).nodes()} <= {i.name for i in inner.instructions}


def test_a_large_module_without_scopes_is_not_an_empty_picture(tf2: Module) -> None:
    proto = proto_of(tf2)
    for computation in proto.computations:
        for instruction in computation.instructions:
            instruction.metadata.Clear()
    drawn = graph(changed(proto))
    assert len(parse(drawn).nodes()) == WHOLE_LIMIT
    assert "no instruction has a scope" in drawn.caption


def test_an_unknown_instruction_is_refused(small: Module) -> None:
    with pytest.raises(ModuleError, match="has no instruction 'nothing'"):
        graph(small, "around", "nothing")
    with pytest.raises(ModuleError, match="needs a selection"):
        graph(small, "around")


def test_the_public_face_is_a_source_that_notebooks_draw() -> None:
    result = inspector.lower(layers, X, X).compile(engine=InlineEngine())
    assert result.graph().source.rstrip() == graph(result.module()).dot
    root = result.module().entry.root.name
    assert f'"node-{root}"' in result.graph("around", root).source
