"""A module as boxes in boxes: everything in it once, nothing cut off, and the sums of the parts the totals."""

from __future__ import annotations

import collections
import dataclasses
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from benchmarks.workloads import make
from inspector.analysis.graph.boxes import MOST_NODES
from inspector.analysis.graph.flow import LiveSpans, spans
from inspector.analysis.graph.hierarchy import Hierarchy, hierarchy
from inspector.analysis.graph.hierarchy_costs import hierarchy_costs
from inspector.engines.inline import InlineEngine
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.module import Instruction, Module
from inspector.stages.compiled import Compiled, instruction_costs
from tests.loops import counted_loop
from tests.modules import changed, module_of, proto_of
from tests.peaks import PEAKS

X = np.ones((8, 8), np.float32)


def compiled(fun: Any, *args: Any) -> Compiled:
    return inspector.lower(fun, *args).compile(engine=InlineEngine())


def layer(x: jax.Array, w: jax.Array) -> jax.Array:
    with jax.named_scope("attention"):
        x = jax.nn.softmax(jnp.sin(x) @ w) @ x
    with jax.named_scope("mlp"):
        return jnp.tanh(x @ w) @ w.T


def loss(ws: list[jax.Array], x: jax.Array) -> jax.Array:
    for number, w in enumerate(ws):
        with jax.named_scope(f"layer_{number}"):
            x = layer(x, w)
    return jnp.sum(x**2)


def step(ws: list[jax.Array], x: jax.Array) -> Any:
    value, grads = jax.value_and_grad(loss)(ws, x)
    with jax.named_scope("sgd"):
        return value, [w - 0.1 * g for w, g in zip(ws, grads, strict=True)]


def scanned(ws: jax.Array, x: jax.Array) -> Any:
    def loss_of(ws: jax.Array) -> jax.Array:
        return jnp.sum(jax.lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0])

    return jax.value_and_grad(loss_of)(ws)


def branches(x: jax.Array, n: jax.Array) -> jax.Array:
    return jax.lax.switch(n, [lambda x: jnp.sin(x) @ x, lambda x: x @ x @ x, lambda x: x], x)


PROGRAMS = {
    "step": (step, [X, X, X], X),
    "scan": (scanned, np.ones((5, 8, 8), np.float32), X),
    "branches": (branches, X, np.int32(1)),
    "tf2": (make("tf2").fun, *make("tf2").args),
}


@pytest.fixture(scope="module")
def programs() -> dict[str, Compiled]:
    return {name: compiled(*program) for name, program in PROGRAMS.items()}


def inside(found: Hierarchy) -> dict[int, list[int]]:
    nodes: dict[int, list[int]] = collections.defaultdict(list)
    for node, parent in enumerate(found.parents.tolist()):
        nodes[parent].append(node)
    return nodes


def titles(found: Hierarchy, node: int) -> list[str]:
    """Returns the titles of the boxes in a node."""
    return [found.boxes[n - found.row_count].title for n in inside(found)[node] if n >= found.row_count]


def box(found: Hierarchy, title: str, phase: str = "") -> int:
    return found.row_count + [(b.title, b.phase) for b in found.boxes].index((title, phase))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_instruction_is_reached_once(programs: dict[str, Compiled], name: str) -> None:
    module = programs[name].module()
    found, nodes = hierarchy(module), None
    nodes = inside(found)
    reached, waiting = [], [found.row_count]
    while waiting:
        node = waiting.pop()
        reached.append(node)
        waiting += nodes[node]
    assert sorted(reached) == list(range(len(module.columns) + len(found.boxes)))
    for row in range(found.row_count):  # in its computation, or in the instruction that calls it
        around, above = module.at(row).computation, int(found.parents[row])
        while above >= found.row_count and above != found.row_count:
            above = int(found.parents[above])
        callers = module.callers.get(around.name, ())
        assert (above == found.row_count and around.is_entry) or module.at(above) in callers


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_box_is_too_large_or_without_use(programs: dict[str, Compiled], name: str) -> None:
    found = hierarchy(programs[name].module())
    nodes = inside(found)
    for number, each in enumerate(found.boxes):
        count = len(nodes[found.row_count + number])
        assert count <= MOST_NODES + 1  # and the box of inputs
        assert count > 1 or each.kind not in ("scope", "inputs", "part")


def test_scopes_have_readable_names(programs: dict[str, Compiled]) -> None:
    found = hierarchy(programs["step"].module())
    phases = {(b.title, b.phase) for b in found.boxes}
    assert {("layer_0", "forward"), ("layer_0", "backward"), ("layer_2", "backward")} <= phases
    assert set(titles(found, box(found, "layer_1", "backward"))) <= {"attention", "mlp"}
    assert not any("(" in b.title for b in found.boxes if b.kind == "scope")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_sum_to_the_totals(programs: dict[str, Compiled], name: str) -> None:
    program = programs[name]
    module, found = program.module(), hierarchy(program.module())
    points = program.roofline(PEAKS["v5e"]).points
    costs = hierarchy_costs(found, module, instruction_costs(program), points)
    nodes, top = inside(found), found.row_count
    whole = {"flops": program.cost.flops, "bytes_accessed": program.cost.bytes_accessed}
    for metric, total in whole.items():
        assert getattr(costs, metric).known[top] == pytest.approx(float(total), rel=1e-5)
    conditionals = [i.row for i in module.instructions() if i.opcode == "conditional"]
    if not conditionals:
        least = sum(float(p.least_s) for p in points if not isinstance(p.least_s, Unavailable))
        assert costs.least_s.known[top] == pytest.approx(least)
    for metric in (*whole, "least_s"):
        known = getattr(costs, metric).known
        for node in range(top, len(found.parents)):
            parts = [known[each] for each in nodes[node] if not math.isnan(known[each])]
            assert known[node] == pytest.approx(sum(parts)) if parts else math.isnan(known[node])


def test_a_loop_costs_all_its_rounds(programs: dict[str, Compiled]) -> None:
    program = programs["scan"]
    module, found = program.module(), hierarchy(program.module())
    costs = hierarchy_costs(found, module, instruction_costs(program), program.roofline(PEAKS["v5e"]).points)
    loops = [i for i in module.entry.instructions if i.opcode == "while"]
    assert loops
    for loop in loops:
        body = [n for n in inside(found)[loop.row] if not math.isnan(costs.flops.known[n])]
        assert costs.flops.known[loop.row] == pytest.approx(costs.flops.known[body].sum())
        assert costs.least_s.known[loop.row] == pytest.approx(costs.least_s.known[body].sum())
        assert "condition" in titles(found, loop.row)


def test_branches_are_boxes_whose_times_are_not_summed(programs: dict[str, Compiled]) -> None:
    program = programs["branches"]
    module, found = program.module(), hierarchy(program.module())
    choice = next(i for i in module.instructions() if i.opcode == "conditional")
    assert titles(found, choice.row) == ["branch 0", "branch 1", "branch 2"]
    costs = hierarchy_costs(found, module, instruction_costs(program), program.roofline(PEAKS["v5e"]).points)
    each = [costs.least_s.known[n] for n in inside(found)[choice.row]]
    assert costs.least_s.known[choice.row] == min(each)
    assert costs.least_s.partial[choice.row]
    assert costs.flops.partial[found.row_count]


@dataclasses.dataclass
class Oracle:
    """Edges one by one: of what an instruction calls, those of its parameters and of its root."""

    module: Module
    found: Hierarchy

    def shown_in(self, instruction: Instruction) -> list[Any]:
        """Returns the computations that an instruction is the first to call."""
        first = {c.name: callers[0] for c in self.module.computations if (callers := self.module.callers.get(c.name))}
        return [c for c in instruction.called_computations if first[c.name] is instruction]

    def result(self, made: Instruction) -> Instruction:
        if made.opcode in ("fusion", "call", "while", "async-start") and self.shown_in(made):
            body = made.called_computations[0]
            return self.result(body.root) if body in self.shown_in(made) else made
        return made

    def takers(self, taker: Instruction, number: int) -> list[Instruction]:
        called = self.shown_in(taker)
        if taker.opcode in ("fusion", "call", "async-start") and called:
            return [called[0].parameters[number]]
        if taker.opcode == "while" and number == 0 and called:
            return [c.parameters[0] for c in called]
        if taker.opcode == "conditional" and number > 0:
            branch = taker.called_computations[number - 1]
            return [branch.parameters[0]] if branch in called else [taker]
        return [taker]

    def edges(self) -> set[tuple[str, str]]:
        return {
            (self.result(operand).name, to.name)
            for taker in self.module.instructions()
            for number, operand in enumerate(taker.operands)
            for to in self.takers(taker, number)
        }


@pytest.mark.parametrize("name", PROGRAMS)
def test_edges_go_where_values_go(programs: dict[str, Compiled], name: str) -> None:
    module = programs[name].module()
    found, names = hierarchy(module), module.columns.names
    edges = list(zip(found.sources.tolist(), found.targets.tolist(), strict=True))
    assert len(set(edges)) == len(edges)
    assert {(names[a], names[b]) for a, b in edges} == Oracle(module, found).edges()
    for (made, taken), size in zip(edges, found.edge_bytes.tolist(), strict=True):
        takes_one = module.at(taken).opcode == "get-tuple-element"
        assert size == (module.at(taken) if takes_one else module.at(made)).shape.byte_size


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_alive_as_long_as_something_takes_them(programs: dict[str, Compiled], name: str) -> None:
    module = programs[name].module()
    alive = spans(module)
    assert isinstance(alive, LiveSpans)
    for computation in module.computations:
        places = {i.name: place for place, i in enumerate(computation.schedule)}

        def last(instruction: Instruction, places: dict[str, int] = places) -> int:
            names = ("tuple", "get-tuple-element", "bitcast", "opt-barrier", "add-dependency")
            ends = [places[instruction.name], *(len(places) - 1 for _ in range(instruction.is_root))]
            for user in instruction.users:
                ends.append(last(user) if user.opcode in names else places[user.name])
            return max(ends)

        for instruction in computation.instructions:
            assert alive.start[instruction.row] == places[instruction.name]
            assert alive.end[instruction.row] == last(instruction)


def test_unscheduled_modules_have_no_spans() -> None:
    lowered = inspector.lower(step, [X], X)
    module = Module.from_proto(lowered.hlo_proto)
    assert spans(module) == Unavailable("XLA has not scheduled this module")
    assert hierarchy(module).row_count == len(module.columns)


SHARED = f"""
HloModule shared
twice {{
  t = f32[4]{{0}} parameter(0)
  ROOT sum = f32[4]{{0}} add(t, t)
}}
idle {{
  i = f32[4]{{0}} parameter(0)
  ROOT negated = f32[4]{{0}} negate(i)
}}
{counted_loop("twice", 3)}
ENTRY main {{
  x = f32[4]{{0}} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]{{0}}) tuple(zero, x)
  loop = (s32[], f32[4]{{0}}) while(start), body=body, condition=condition
  y = f32[4]{{0}} get-tuple-element(loop), index=1
  ROOT again = f32[4]{{0}} call(y), to_apply=twice
}}
"""


def test_shared_computations_are_in_their_first_caller_and_uncalled_ones_separate() -> None:
    module = module_of(SHARED)
    found = hierarchy(module)
    names = module.columns.names
    first = module.callers["twice"][0]
    assert {names[n] for n in inside(found)[first.row]} == {"t", "sum"}
    other = module.callers["twice"][1]
    assert inside(found)[other.row] == []
    edges = {(names[a], names[b]) for a, b in zip(found.sources.tolist(), found.targets.tolist(), strict=True)}
    assert edges == Oracle(module, found).edges()
    if "idle" in module.columns.computation_names:
        assert "not called" in [b.title for b in found.boxes]


def test_a_circle_of_calls_is_refused() -> None:
    proto = proto_of(module_of(SHARED))
    twice = next(c for c in proto.computations if c.name == "twice")
    twice.instructions[1].called_computation_ids.append(twice.id)
    with pytest.raises(ModuleError, match="calls itself"):
        hierarchy(changed(proto))


def flat(count: int) -> Module:
    """A computation of that many instructions, without names of scopes."""
    lines = [f"  a{n} = f32[4]{{0}} add(a{n - 1}, a{max(0, n - 7)})" for n in range(1, count)]
    return module_of("HloModule flat\nENTRY main {\n  a0 = f32[4]{0} parameter(0)\n" + "\n".join(lines) + "\n}")


def calls(module: Module) -> int:
    """How often Python calls a function to make the hierarchy."""
    made = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    assert len(module.columns.operands.rows)
    assert module.known_shapes  # both are read once
    sys.setprofile(count)
    try:
        hierarchy(module)
    finally:
        sys.setprofile(None)
    return made


def test_large_modules_are_divided_without_a_look_at_each_instruction() -> None:
    small, large = flat(2_000), flat(20_000)
    found = hierarchy(large)
    nodes = inside(found)
    assert max(map(len, nodes.values())) <= MOST_NODES
    order = [row for part in leaves(found, nodes, found.row_count) for row in part]
    assert order == sorted(order)  # parts are neighbors in the schedule
    assert calls(large) - calls(small) < 30 * len(found.boxes)


def leaves(found: Hierarchy, nodes: dict[int, list[int]], node: int) -> list[list[int]]:
    rows = [n for n in nodes[node] if n < found.row_count]
    return [
        *([rows] if rows else []),
        *(p for n in nodes[node] if n >= found.row_count for p in leaves(found, nodes, n)),
    ]
