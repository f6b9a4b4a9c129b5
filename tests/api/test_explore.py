"""`explore` end to end: a function, a real compiler in a worker, values to read."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inspector
from inspector.api import live_work
from inspector.api.explore import explore
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.compilation.target import Target
from inspector.engines.workers.fork_server import ForkServer
from inspector.errors import CancelledError, FlagTypeError, TargetError
from inspector.widgets.explorer import Explorer
from tests.kernels import scale
from tests.widgets.fakes import Mailbox

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def opened() -> Iterator[list[Explorer]]:
    explorers: list[Explorer] = []
    yield explorers
    for explorer in explorers:
        explorer.close()


def test_a_function_two_targets_and_a_run(opened: list[Explorer]) -> None:
    def step(params: dict[str, Any], x: Any) -> Any:
        return {"y": jnp.tanh(x @ params["w"])}

    params = {"w": X.T}
    shown = explore(step, params, X, compare=["cpu:2", "--xla_cpu_enable_fast_math=true"])
    opened.append(shown)
    assert isinstance(shown, Explorer)
    shown.wait(120)
    assert [v.state for v in shown.variants] == ["done"] * 3
    assert Mailbox(shown).last("session")["side_by_side"] is False  # one platform
    table = shown.compare()
    assert list(table.columns)[:3] == ["attached", "cpu:2", "delta cpu:2"]
    # 4x3 times 3x4: a multiply and an add for each of 4x4x3.
    assert table.loc["flops"].iloc[0] == 2 * 4 * 4 * 3
    assert table.loc["argument_bytes"].iloc[0] == 2 * X.nbytes
    box = Mailbox(shown)
    box.send({"type": "run", "variant": 1, "repeat": 2})
    result = finished_run(shown, box)
    value = np.tanh(X @ X.T)
    assert result["outputs"][0]["path"] == "result['y']"
    assert float(result["outputs"][0]["preview"][0].strip("[").split(",")[0]) == pytest.approx(value[0, 0], rel=1e-3)
    assert not any(array["generated"] for array in result["inputs"])


def finished_run(shown: Explorer, box: Mailbox) -> Any:
    deadline = time.monotonic() + 120
    while (message := box.last("run"))["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert message["error"] is None
    return message["result"]


@pytest.mark.slow
def test_replicas_get_the_devices_that_they_need(opened: list[Explorer], one_device_python: Any) -> None:
    script = """
import jax.numpy as jnp, inspector
from jax import lax
shown = inspector.explore(lambda x: lax.psum(x, "i"), jnp.ones(3), axis_env=[("i", 4)]).wait(120)
print(shown.baseline.target, shown.baseline.state, shown.collectives().table()["replica_groups"][0])
shown._on_request({"type": "lower", "axes": "i=2, j=3"})
print(shown.wait(120).baseline.target, shown.baseline.state)
shown.close()
"""
    out = one_device_python(script).stdout.splitlines()
    assert out == ["cpu:4 done [[0, 1, 2, 3]]", "cpu:6 done"]


def test_static_arguments_are_not_inputs_of_a_run(opened: list[Explorer]) -> None:
    def power(x: Any, n: int, *, how: str, scale: Any) -> Any:
        return x**n * scale if how == "up" else x

    jitted = jax.jit(power, static_argnums=1, static_argnames="how")
    kwargs = {"how": "up", "scale": np.float32(2)}
    for shown in (explore(jitted, X, 2, kwargs=kwargs), explore(lambda n, x: x**n * 2, 2, X, static_argnums=0)):
        opened.append(shown)
        shown.wait(120)
        box = Mailbox(shown)
        box.send({"type": "run", "variant": 0, "repeat": 1})
        result = finished_run(shown, box)
        assert result["outputs"][0]["preview"][0].startswith("[2, ")


def test_non_array_arguments_are_listed_and_used_in_runs(opened: list[Explorer]) -> None:
    def f(settings: dict[str, Any], *, batch: jax.Array) -> jax.Array:
        return jnp.tanh(batch) * settings["scale"] if settings["mode"] == "tanh" else batch

    shown = explore(f, {"mode": "tanh", "scale": 2.0}, target="cpu", batch=jnp.ones(3))
    opened.append(shown)
    box = Mailbox(shown)
    assert box.last("session")["notes"] == ["settings['mode'] = 'tanh'"]
    assert "notes: settings['mode'] = 'tanh'" in repr(shown)
    shown.wait(120)
    box.send({"type": "run", "variant": 0, "repeat": 2})
    assert finished_run(shown, box)["note"] is not None


def test_errors_are_raised_in_the_cell(opened: list[Explorer]) -> None:
    with pytest.raises(FlagTypeError):
        explore(jnp.sin, X, options={"xla_cpu_enable_fast_math": 1})
    with pytest.raises(TargetError):
        explore(jnp.sin, X, target="moon")
    with pytest.raises(inspector.InspectorError, match="unbound axis name: i"):
        explore(lambda x: lax.psum(x, "i"), X)


def offered(explorer: Explorer) -> dict[str, Any]:
    """Returns the choices of the controls."""
    return Mailbox(explorer).last("controls")


def test_a_lowered_stage_takes_no_axes(opened: list[Explorer]) -> None:
    shown = explore(jax.jit(jnp.sin).lower(X))
    opened.append(shown)
    assert not offered(shown)["can_lower"]
    shown.baseline.job.cancel()  # type: ignore[union-attr]
    with pytest.raises(CancelledError):
        _ = shown.baseline.compiled


def test_other_words_for_targets_and_axes(opened: list[Explorer]) -> None:
    shown = explore(
        lambda x: lax.psum(x, "i"), X, axis_env={"i": 2}, target="cpu:8", options="--xla_cpu_enable_fast_math=true"
    )
    opened.append(shown)
    assert (offered(shown)["axes"], offered(shown)["can_lower"]) == ("i=2", True)
    assert str(shown.baseline.target) == "cpu:8"
    assert shown.baseline.options.flags == {"xla_cpu_enable_fast_math": True}


@pytest.mark.slow
def test_names_do_not_depend_on_imports(one_device_python: Any) -> None:
    one_device_python(
        "import inspector, pkgutil, importlib\n"
        "for module in pkgutil.iter_modules(inspector.__path__):\n"
        "    importlib.import_module(f'inspector.{module.name}')\n"
        "assert all(callable(getattr(inspector, n)) for n in ('explore', 'lower', 'compare', 'xla_computation'))\n"
    )


def test_buffers_are_requested_where_they_take_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    program = inspector.lower(lambda x: x + 1, 1.0, platform="tpu").program
    absent = CompileRequest(program, Options(), Target.parse("tpu:v5e:2x2"))
    assert live_work._with_buffers(absent).products == {"buffers"}
    attached = CompileRequest(program, Options(), Target.parse("attached"))
    assert live_work._with_buffers(attached) == attached
    on_cpu = CompileRequest(
        inspector.lower(lambda x: x + 1, 1.0, platform="cpu").program, Options(), Target.parse("cpu:2")
    )
    assert live_work._with_buffers(on_cpu).products == {"buffers"}
    dumping = CompileRequest(program, Options(flags={"xla_dump_to": "/tmp/elsewhere"}), Target.parse("tpu:v5e:2x2"))
    assert live_work._with_buffers(dumping) == dumping
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/elsewhere")
    assert live_work._with_buffers(absent) == absent


def test_only_a_program_that_is_a_kernel_opens_on_pallas(opened: list[Explorer]) -> None:
    for fun, expected in ((scale, True), (lambda x: jnp.tanh(jnp.sin(scale(x)) @ x), False), (jnp.tanh, False)):
        shown = explore(fun, jnp.ones((64, 64)), target="cpu", interpret=True)
        opened.append(shown)
        assert Mailbox(shown).last("session")["is_kernel"] is expected


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_three_memories_beside_one(opened: list[Explorer]) -> None:
    shown = explore(lambda x: jnp.tanh(x @ x) @ x, jnp.ones((256, 256)), target="cpu", compare=["tpu:v5e:1x1"])
    opened.append(shown)
    box = Mailbox(shown)
    assert box.last("session")["side_by_side"] is True
    shown.wait(120)
    rows = {row["key"]: row["value"] for row in box.last("stats", variant=1)["rows"]}
    assert rows["peak_bytes"] >= 2 * 256 * 256 * 4
    assert rows["vmem_allocated_bytes"] > 0
    assert rows["estimated_cycles"] > 0
    table = shown.compare()
    assert table.loc["vmem_allocated_bytes"].iloc[1] == rows["vmem_allocated_bytes"]


# What asking for a worker finds loaded: it takes longest, so it comes before all that can be done meanwhile.
BEGUN = """
import json, sys
import numpy as np
from inspector import explore
from inspector.engines.workers import fork_server
from jax._src import xla_bridge

begun = []
begin = fork_server.ForkServer.begin

def watched(server):
    begun.append({"modules": sorted(sys.modules), "clients": list(xla_bridge._backends), "traced": list(traced)})
    begin(server)

fork_server.ForkServer.begin = watched
traced = []

def fun(x):
    traced.append(True)
    return x + 1

shown = explore(fun, np.ones(3))
print(json.dumps([shown.wait(120).baseline.state, begun]))
shown.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not ForkServer.supported(), reason="forks")
def test_the_worker_is_requested_first(one_device_python: Any) -> None:
    state, (begun,) = json.loads(one_device_python(BEGUN, env={"JAX_PLATFORMS": "cpu"}).stdout)
    assert state == "done"
    assert not begun["traced"]
    assert not begun["clients"]
    late = {"ipywidgets", "anywidget", "google.protobuf", "inspector.lowering.lower", "inspector.hlo.module"}
    assert not late & set(begun["modules"])


def test_nothing_is_imported_before_it_is_needed(one_device_python: Any) -> None:
    """Tables, plots and drawings are imported on first use, JAX's Pallas for programs that have kernels."""
    script = """
import json, sys
import numpy as np
from inspector import explore
shown = explore(lambda x: x + 1, np.ones(3))
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} | {name for name in sys.modules if "pallas" in name})))
shown.close()
"""
    loaded = json.loads(one_device_python(script, env={"JAX_PLATFORMS": "cpu"}).stdout)
    assert "ipywidgets" in loaded
    assert not {"pandas", "matplotlib", "graphviz", "pygraphviz", "scipy", "dask", "jax._src.pallas"} & set(loaded)
