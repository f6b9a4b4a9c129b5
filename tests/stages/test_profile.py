"""`Compiled.profile`: real runs under the profiler, in workers and in this process."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import inspector
from inspector._jax.compiling import profiling
from inspector._jax.compiling.profiling import Recording
from inspector.analysis.profile.profile import Profile
from inspector.compilation.request import RunReply
from inspector.engines.shared_engines import default_engine
from inspector.errors import ExecutionError, ProfileError, TargetError, Unavailable
from inspector.execution.profiled_run import run_profiled
from inspector.stages.compiled import Compiled
from inspector.stages.measured import profile_of_run
from tests.absent import needs_tpu
from tests.xspaces import Plane, arrays, looped, message


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return inspector.lower(looped, *arrays()).compile(target="cpu")


@pytest.fixture(scope="module")
def profile(compiled: Compiled) -> Profile:
    return compiled.profile(*arrays(), repeat=4)


def test_a_worker_profiles_a_program(compiled: Compiled, profile: Profile) -> None:
    assert (profile.program, profile.devices, profile.executions) == ("jit_looped", ("CPU:0",), 4)
    names = set(compiled.module().columns.names)
    assert {row.name for row in profile.rows} <= names, "other programs of the worker do not count"
    kernels = {point.name for point in compiled.roofline().points}
    assert sum(row.total_s for row in profile.rows if row.name in kernels) > 0.9 * profile.total_s
    assert any(
        (row.line and row.line.file) == __file__.replace("stages/test_profile", "xspaces") for row in profile.rows
    )
    assert not isinstance(profile.wall, Unavailable)
    assert len(profile.wall.profiled_s) == len(profile.wall.plain_s) == 4
    assert 0 < profile.wall.overhead < 5
    assert profile.busy_s[0] <= 1.05 * sum(profile.wall.profiled_s)
    assert profile.total_s >= 0.99 * profile.busy_s[0]


def test_this_process_profiles_a_program() -> None:
    profile = inspector.lower(looped, *arrays()).compile(engine="inline").profile(*arrays(), repeat=2, engine="inline")
    assert (profile.program, profile.executions) == ("jit_looped", 2)
    assert profile.total_s > 0


def test_inputs_are_generated_and_keywords_taken() -> None:
    compiled = inspector.lower(lambda x, *, y: jnp.tanh(x @ y), np.ones((64, 64)), y=np.ones((64, 64))).compile(
        target="cpu"
    )
    assert compiled.profile(repeat=1).executions == 1
    assert compiled.profile(np.ones((64, 64)), y=np.ones((64, 64)), repeat=1, warmup=0).executions == 1
    with pytest.raises(ExecutionError, match="shape"):
        compiled.profile(np.ones((2, 64)), y=np.ones((64, 64)))
    with pytest.raises(ExecutionError, match="repeat=0"):
        compiled.profile(repeat=0)


def test_every_device_has_its_rows() -> None:
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))

    def step(x: jax.Array, w: jax.Array) -> Any:
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec("data")))
        return jnp.sum(jnp.tanh(x @ w))

    profile = inspector.lower(step, *arrays()).compile(target="cpu:4").profile(*arrays(), repeat=3)
    assert profile.devices == tuple(f"CPU:{n}" for n in range(4))
    assert profile.executions == 3
    reduced = [row for row in profile.rows if row.opcode == "all-reduce"]
    assert sorted(row.device for row in reduced) == list(profile.devices)
    assert all(row.calls == 3 for row in reduced)
    sums = profile.by("kernel").set_index("name")
    assert sums.loc[reduced[0].name, "total_s"] == pytest.approx(sum(row.total_s for row in reduced))


@needs_tpu
def test_a_device_that_is_not_attached_cannot_be_profiled() -> None:
    compiled = inspector.lower(jnp.sin, np.ones(8, np.float32)).compile(target="tpu:v5e:2x2")
    with pytest.raises(TargetError) as profiled:
        compiled.profile()
    with pytest.raises(TargetError) as run:
        compiled.run()
    assert str(profiled.value) == str(run.value)


def test_one_profile_at_a_time() -> None:
    compiled = inspector.lower(jnp.sin, np.ones(8, np.float32)).compile(engine="inline")
    with Recording(), pytest.raises(ExecutionError, match=r"one profile at a time. Stop the running one"):
        compiled.profile(engine="inline")
    assert compiled.profile(engine="inline").executions == 5


def test_the_size_of_a_profile_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_BYTES", 100)
    compiled = inspector.lower(jnp.sin, np.ones(8, np.float32)).compile(engine="inline")
    with pytest.raises(ExecutionError, match=r"the limit is 0 MiB. Profile fewer executions"):
        compiled.profile(engine="inline")


def test_a_profile_of_another_program_is_refused(compiled: Compiled) -> None:
    other = inspector.lower(lambda x: jnp.cos(x) * 2, np.ones(8, np.float32)).compile(target="cpu")
    reply = run_profiled(other, default_engine(other.program, other.target), repeat=1, warmup=0)
    assert profile_of_run(other.module(), other.roofline().points, reply).total_s > 0
    with pytest.raises(ProfileError, match=r"no event of its instructions.*hlo_op"):
        profile_of_run(compiled.module(), compiled.roofline().points, reply)


def test_a_profile_reads_well(profile: Profile) -> None:
    text = repr(profile)
    assert text.startswith("<Profile of jit_looped on CPU:0: 4 executions, ")
    assert "times that without profiler)" in text
    assert text.endswith("Try .table(), .by('line'), .plot(), .notes")
    assert "<table" in profile._repr_html_()
    columns = "name opcode computation calls total_s mean_s share device source_file source_line scope estimated_s"
    assert list(profile.table().columns)[:12] == columns.split()
    assert profile.table()["unknown"].str.contains("estimated_s").any(), "no peak of a CPU is published"


def test_the_program_with_the_most_events_of_the_instructions(compiled: Compiled) -> None:
    """Another thread may profile a program with equal names at the same time."""
    names = [point.name for point in compiled.roofline().points][:3]
    space = message()
    plane = Plane(space, "/device:GPU:0")
    line = plane.line("Stream #1")
    for number, name in enumerate([*names, names[0]]):
        program = 7 if number < 3 else 3
        plane.event(line, f"k{number}", 100 * number, 10, hlo_op=name, program_id=program)
    reply = RunReply((), (1.0, 2.0), "gpu", (), space.SerializeToString(), (1.0,))
    profile = profile_of_run(compiled.module(), (), reply)
    assert {row.name for row in profile.rows} == set(names)
    assert not isinstance(profile.wall, Unavailable)
    assert (profile.wall.median_s, profile.wall.overhead, profile.wall.spread_s) == (1.5, 1.5, 0.5)
