"""Courses: the same times as the roofline's, of targets that are not here, and their pictures."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector.analysis.cost.peaks import peak_of
from inspector.analysis.cost.roofline import roofline, schedule
from inspector.analysis.cost.schedule import Schedule
from inspector.analysis.cost.schedule_simulation import KernelWork, intervals
from inspector.compilation.cost import InstructionCost
from inspector.compilation.target import Target
from inspector.errors import ModuleError, Unavailable
from inspector.platforms import Peak
from tests.absent import needs_gpu, needs_tpu
from tests.analysis.cost.test_schedule_simulation import ADD
from tests.modules import module_of

MESH = AbstractMesh((8,), ("data",), axis_types=(AxisType.Auto,))


def split(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(MESH, P("data")))


def layers(weights: Any, x: Any) -> Any:
    for weight in weights:
        x = jax.nn.relu(x @ weight)
    return jnp.mean(x**2)


def looped(x: Any) -> Any:
    return jax.lax.fori_loop(0, 5, lambda _, v: jnp.tanh(v @ v), x)


@pytest.mark.parametrize(
    "target", [pytest.param("tpu:v5e:2x4", marks=needs_tpu), pytest.param("gpu:h100:8", marks=needs_gpu)]
)
def test_a_course_takes_the_time_of_the_roofline(target: str) -> None:
    step = jax.jit(jax.grad(layers), out_shardings=[NamedSharding(MESH, P("data"))] * 3)
    lowered = inspector.lower(step, [split(1024, 1024)] * 3, split(2048, 1024), target=target)
    compiled = lowered.compile(target=target)
    course, total = compiled.schedule(), compiled.roofline().total
    assert not isinstance(course, Unavailable)
    assert course.seconds == pytest.approx(float(total.least_s))  # type: ignore[arg-type]
    assert course.exposed_s == pytest.approx(float(total.exposed_s))  # type: ignore[arg-type]
    table = course.table()
    assert (table.end_s > table.start_s).all()
    device = table[table.lane == "device"]
    assert (
        device.start_s.iloc[1:].to_numpy() >= device.end_s.iloc[:-1].to_numpy() - 1e-12
    ).all()  # one after the other
    figure = course.plot()
    assert len(figure.axes[0].patches) == len(course)
    assert "an estimate" in figure.alternative_text
    assert "Try" not in figure.alternative_text


def test_only_the_exchanges_of_a_loop_cause_waits() -> None:
    text = """HloModule m, is_scheduled=true
body {
  v = f32[8]{0} parameter(0)
  product = f32[8]{0} sine(v)
  ROOT sum = f32[8]{0} all-reduce(product), replica_groups={}, to_apply=add
}
condition {
  v = f32[8]{0} parameter(0)
  ROOT more = pred[] constant(true)
}
ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT loop = f32[8]{0} while(x), condition=condition, body=body, backend_config={"known_trip_count":{"n":"2"}}
}"""
    module = module_of(f"HloModule m, is_scheduled=true{ADD}{text.partition('true')[2]}")
    work = {"product": KernelWork(3.0, "compute", 8.0, 64.0), "sum": KernelWork(4.0, "communication", 0.0, 0.0, 32.0)}
    peak = peak_of(Target("tpu:v5e:2x2"))
    assert isinstance(peak, Peak)
    course = Schedule("main", peak, intervals(work, module.entry))
    assert (course.seconds, course.exposed_s, course.hidden_s) == (14, 8, 0)
    assert course.table().is_wait.sum() == 1


@needs_tpu
def test_the_body_of_a_loop_has_a_course_of_its_own() -> None:
    x = jax.ShapeDtypeStruct((512, 512), jnp.float32)
    compiled = inspector.lower(looped, x, target="tpu:v5e:1x1").compile(target="tpu:v5e:1x1")
    (loop,) = (i for i in compiled.module().instructions() if i.opcode == "while")
    body, whole = compiled.schedule(computation=loop.called_computations[0].name), compiled.schedule()
    assert not isinstance(body, Unavailable)
    assert not isinstance(whole, Unavailable)
    named = {each.name: each for each in whole}
    assert named[loop.name].end_s - named[loop.name].start_s == pytest.approx(5 * body.seconds, rel=0.05)
    with pytest.raises(ModuleError, match="no computation 'nowhere'"):
        compiled.schedule(computation="nowhere")


def test_a_chip_without_published_figures_has_none() -> None:
    course = inspector.lower(jnp.sin, 1.0).compile().schedule()
    assert isinstance(course, Unavailable)


def test_a_course_of_which_nothing_is_known_names_no_time() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY main {
  x = f32[8]{0} parameter(0)
  ROOT call = f32[8]{0} custom-call(x), custom_call_target="somebodys"
}"""
    module = module_of(text)
    unknown = Unavailable("XLA does not know it")
    costs = {i.name: InstructionCost(0.0, 0.0, 0.0, 0.0) for i in module.instructions()}
    costs["call"] = InstructionCost(unknown, unknown, unknown, unknown)
    peak = peak_of(Target("tpu:v5e:1x1"))
    assert isinstance(peak, Peak)
    found = schedule(module, costs, peak)
    assert repr(found).partition("\n")[0] == "<Schedule of main on v5e: time unknown: 1 custom call not counted>"
    said = repr(roofline(module, costs, peak))
    assert "time at the roof unknown" in said
    assert "at least" not in said
