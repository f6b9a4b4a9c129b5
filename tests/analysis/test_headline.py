"""The headline of a program: the same numbers as its memory, roofline, profile and donations."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.analysis.headline import headline
from inspector.errors import Unavailable
from inspector.platforms import Peak
from inspector.stages.compiled import Compiled
from inspector.support.units import format_bytes, format_seconds
from tests.absent import needs_tpu

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e9}, 1e9, 1 << 30, NONE, NONE, "this test")
X = jax.ShapeDtypeStruct((64, 64), jnp.float32)


def model(w: jax.Array, x: jax.Array) -> Any:
    with jax.named_scope("encoder"):
        x = jnp.tanh(x @ w @ w @ w @ w)
    with jax.named_scope("head"):
        return x.sum(), w + 1


def compiled(target: str = "cpu", **kwargs: Any) -> Compiled:
    return inspector.lower(model, X, X, **kwargs).compile(target=target)


def test_the_parts_are_the_numbers_of_the_other_views() -> None:
    program = compiled()
    headline = program.headline(ROOFS)
    roofs = program.roofline(ROOFS)
    subjects = [part.subject for part in headline]
    assert subjects == ["memory", "time", "place"]
    memory, time, place = headline
    assert memory.text.startswith(f"{format_bytes(program.memory.peak_bytes)} peak: ")  # type: ignore[union-attr]
    assert "per device" not in memory.text
    assert time.text == f"about {format_seconds(float(roofs.total.least_s))}, bound by {roofs.total.bound_by}"  # type: ignore[arg-type]
    share = sum(float(g.share) for g in roofs.groups("scope") if g.name and g.name.endswith("encoder"))  # type: ignore[arg-type]
    assert share > 0.8
    assert place.text == f"{100 * share:.0f} % in encoder"
    assert program.module().instruction(place.instruction).opcode in ("dot", "fusion", "custom-call", "call")
    assert str(headline) == " · ".join(part.text for part in headline)
    assert "this test" in time.details


@pytest.mark.parametrize(
    ("argument_bytes", "text"),
    [
        (2 << 20, "3.5 MiB peak: 2 arguments + 1.5 temporaries"),
        (512 << 10, "2 MiB peak: 512 KiB arguments + 1.5 MiB temporaries"),
    ],
)
def test_units_are_omitted_only_if_all_are_that_of_the_peak(argument_bytes: int, text: str) -> None:
    program = compiled()
    assert not isinstance(program.memory, Unavailable)
    space = dataclasses.replace(
        program.memory.spaces[program.memory.main],
        argument_bytes=argument_bytes,
        output_bytes=0,
        alias_bytes=0,
        temp_bytes=3 << 19,
        constant_bytes=0,
    )
    memory = dataclasses.replace(program.memory, spaces={program.memory.main: space})
    found = headline(memory, program.roofline(ROOFS), program.donations(), 1, Unavailable("not profiled"))
    assert next(iter(found)).text == text


def test_layers_of_equal_name_are_summed_over_their_paths() -> None:
    def stacked(w: jax.Array, x: jax.Array) -> jax.Array:
        for layer in range(4):
            with jax.named_scope(f"layer_{layer}"), jax.named_scope("dense"):
                x = jnp.tanh(x @ w)
        return x

    program = inspector.lower(jax.grad(lambda w, x: stacked(w, x).sum()), X, X).compile(target="cpu")
    (place,) = [part for part in program.headline(ROOFS) if part.subject == "place"]
    assert place.text.endswith(" % in dense")
    assert int(place.text.split()[0]) > 80


def test_a_line_stands_for_a_program_without_scopes() -> None:
    program = inspector.lower(lambda a, b: a @ b, X, X).compile(target="cpu")
    (place,) = [part for part in program.headline(ROOFS) if part.subject == "place"]
    assert place.text.startswith("100 % at test_headline.py:")
    assert place.frame is not None
    assert place.frame.file == __file__


def test_without_roofs_there_is_no_time() -> None:
    assert [part.subject for part in compiled().headline()] == ["memory"]


def test_a_profile_replaces_the_estimates() -> None:
    program = compiled("cpu:1")
    profile = program.profile(jnp.ones((64, 64)), jnp.ones((64, 64)))
    time, place = [part for part in program.headline(ROOFS, profile) if part.subject in ("time", "place")]
    assert time.text == f"{format_seconds(profile.wall_s)} measured"
    assert place.text.endswith(" % in encoder")
    assert "of the measured time" in place.details


@pytest.mark.filterwarnings("ignore:Some donated buffers:UserWarning")
def test_unused_donations_and_the_devices() -> None:
    mesh = inspector.lower(
        jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i"), jax.ShapeDtypeStruct((8, 4), jnp.float32)
    )
    assert "peak per device" in str(mesh.compile(target="cpu:8").headline())
    (part,) = [p for p in compiled(donate_argnums=(0, 1)).headline() if p.subject == "donations"]
    assert part.text == "1 donated array not reused (16 KiB)"
    assert "x: float32[64, 64]: result[1] of its shape already reuses another argument" in part.details


@needs_tpu
def test_waiting_for_other_devices_is_stated() -> None:
    f = jax.pmap(lambda x: jax.lax.all_gather(x, "i"), axis_name="i")
    program = inspector.lower(f, jax.ShapeDtypeStruct((8, 1 << 20), jnp.float32), platform="tpu").compile(
        target="tpu:v5e:2x4"
    )
    (part,) = [p for p in program.headline() if p.subject == "communication"]
    total = program.roofline().total
    assert part.text == f"{100 * float(total.exposed_s) / float(total.least_s):.0f} % waits for other devices"  # type: ignore[arg-type]
