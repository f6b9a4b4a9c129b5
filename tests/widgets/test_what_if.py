"""The What-if pane: what can be supposed of a call, and what comes of it as a variant."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.engines.inline import InlineEngine
from inspector.widgets.panes.what_if import suppositions
from inspector.widgets.variants import Variant
from tests.widgets.fakes import ask_to_lower


def step(params: dict[str, Any], x: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        with jax.named_scope("hidden"):
            h = jnp.tanh(jnp.sin(x @ params["w"]))
        return jnp.sum((h @ params["v"]) ** 2)

    return jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params))


PARAMS = {"w": jnp.ones((64, 256)), "v": jnp.ones((256, 32))}
X = jnp.ones((128, 64))


def test_arguments_and_their_parents_can_be_chosen() -> None:
    found = suppositions(inspector.lower(step, PARAMS, X))
    assert [(a["path"], a["what"], a["dtype"], a["length"], a["donated"]) for a in found["arguments"]] == [
        ("params", "2 arrays", "float32", None, False),
        ("params['v']", "float32[256, 32]", "float32", 256, False),
        ("params['w']", "float32[64, 256]", "float32", 64, False),
        ("x", "float32[128, 64]", "float32", 128, False),
    ]
    assert found["scopes"] == ["hidden"]
    assert found["note"] == ""


def test_arrays_that_share_a_leading_dimension_can_be_chosen_together() -> None:
    def total(params: Any, x: Any, y: Any, batch: Any) -> Any:
        return jnp.sum(x) + jnp.sum(y) + jnp.sum(batch["a"]) + jnp.sum(params["w"]) + jnp.sum(params["v"])

    params = {"v": jnp.ones((256, 3)), "w": jnp.ones((256, 4))}
    x, y, batch = jnp.ones((32, 2)), jnp.ones(32), {"a": jnp.ones((32, 5)), "n": jnp.float32(1)}
    lowered = inspector.lower(total, params, x, y, batch)
    assert suppositions(lowered)["shared"] == [
        {"length": 32, "what": "x, y, batch['a']", "paths": ["x", "y", "batch['a']"]},
        {"length": 256, "what": "params['v'], params['w']", "paths": ["params['v']", "params['w']"]},
    ]
    assert suppositions(inspector.lower(step, PARAMS, X))["shared"] == []


def test_names_with_brackets_and_dots_in_them() -> None:
    tree = {"a.b": [jnp.ones(2), jnp.ones(3)], "c]": jnp.arange(2)}
    found = suppositions(inspector.lower(lambda t: jax.tree.map(lambda a: a + 1, t), tree))
    assert [(a["path"], a["length"]) for a in found["arguments"]] == [
        ("t", None), ("t['a.b']", None), ("t['a.b'][0]", 2), ("t['a.b'][1]", 3), ("t['c]']", 2),
    ]  # fmt: skip


def test_the_parent_of_a_single_array_is_that_array() -> None:
    found = suppositions(inspector.lower(lambda t: t["w"] + 1, {"w": jnp.arange(3)}))
    assert [(a["path"], a["dtype"]) for a in found["arguments"]] == [("t['w']", "")]


def test_scopes_are_those_of_a_forward_and_a_backward_pass_outside_of_loops() -> None:
    def body(carry: Any, _: Any) -> Any:
        with jax.named_scope("hidden"):
            return jnp.tanh(carry), None

    def loss(w: Any, x: Any) -> Any:
        with jax.named_scope("outer"), jax.named_scope("inner"):
            h = jnp.sin(x @ w)
        with jax.named_scope("looped"):
            h, _ = jax.lax.scan(body, h, None, length=2)
        return jnp.sum(h**2)

    lowered = inspector.lower(jax.grad(loss), jnp.ones((4, 4)), jnp.ones((2, 4)))
    assert suppositions(lowered)["scopes"] == ["outer", "outer/inner", "looped"]
    for scope in suppositions(lowered)["scopes"]:
        assert "optimization_barrier" in lowered.what_if(rematerialize=scope).stablehlo
    assert suppositions(inspector.lower(loss, jnp.ones((4, 4)), jnp.ones((2, 4))))["scopes"] == []


def test_a_module_without_its_function_is_reported() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    assert "no Python function" in suppositions(inspector.lower(text))["note"]


# --------------------------------------------------------------------------- variants


def explored() -> inspector.Explorer:
    return inspector.explore(step, PARAMS, X)


def bytes_of(variant: Variant) -> Any:
    memory = variant.compiled.memory
    assert not isinstance(memory, inspector.Unavailable)
    return memory


def test_suppositions_become_variants() -> None:
    explorer = explored()
    donated = explorer.what_if(donate="params")
    halved = explorer.what_if(batch={"x": 64}, dtype={"x": "bfloat16"})
    explorer.wait(120)
    assert [v.label for v in explorer.variants] == ["baseline", "donated params", "x as bfloat16, x of 64"]
    assert bytes_of(donated).alias_bytes == sum(a.size * 4 for a in PARAMS.values())
    assert bytes_of(explorer.baseline).alias_bytes == 0
    assert bytes_of(halved).argument_bytes == bytes_of(explorer.baseline).argument_bytes - X.size * 4 + X.size
    assert "delta donated params" in explorer.compare().columns
    run = halved.compiled.run(PARAMS, X[:64].astype("bfloat16"), repeat=1, warmup=0, engine=InlineEngine())
    assert run.outputs[0].shape == (256, 32)
    explorer.close()


def test_a_shared_leading_dimension_is_changed_everywhere() -> None:
    x, y = jnp.ones((32, 4)), jnp.ones((32, 4))
    explorer = inspector.explore(lambda x, y: (x + y).sum(), x, y)
    variant = explorer.what_if(batch={32: 8})
    assert variant.lowered is not None
    assert [a.shape for a in variant.lowered.inputs] == [(8, 4), (8, 4)]
    assert variant.label == "x, y of 8"
    reply = asked(explorer, batch={"x": 8, "y": 8})  # as the pane asks
    assert reply["variant"] == variant.number
    with pytest.raises(inspector.errors.ParameterError, match=r"leading dimension 31.*32 of x, y"):
        explorer.what_if(batch={31: 8})
    explorer.close()


def test_a_change_that_cannot_be_lowered_is_a_failed_variant() -> None:
    explorer = explored()
    variant = explorer.what_if(donate="nobody")
    assert variant.state == "failed"
    assert "No array argument is called 'nobody'" in str(variant.failure)
    with pytest.raises(inspector.errors.ParameterError):
        explorer.what_if(batch={"x": -1})
    assert len(explorer.variants) == 2
    explorer.close()


def test_a_failed_variant_does_not_prevent_other_axes() -> None:
    explorer = inspector.explore(lambda x, y: jax.lax.psum(x, "i") + y, X, X, axis_env=[("i", 1)])
    explorer.what_if(donate="nobody")
    donated = explorer.what_if(donate="x")
    explorer.pin(donated)
    ask_to_lower(explorer, "i=2")
    explorer.wait(120)
    baseline, failed, donated = explorer.variants
    assert baseline.lowered is explorer.lowered
    assert explorer.lowered.program.mesh is not None
    assert explorer.lowered.program.mesh.axis_sizes == (2,)
    assert (failed.state, failed.label) == ("failed", "donated nobody")
    assert "No array argument is called 'nobody'" in str(failed.failure)
    assert (donated.state, donated.is_pinned) == ("done", True)
    explorer.close()


def asked(explorer: inspector.Explorer, **supposed: Any) -> dict[str, Any]:
    """The reply to a browser."""
    sent: list[Any] = []
    app = explorer.children[0]
    publish = app.publish

    def record(message: Any, *rest: Any) -> None:
        sent.append(message)
        publish(message, *rest)

    app.publish = record
    try:
        empty: dict[str, Any] = {
            "donate": [],
            "dtype": {},
            "batch": {},
            "shape": {},
            "rematerialize": [],
            "checkpoint": "",
        }
        request = {"type": "suppose", "id": 7, "variant": explorer.baseline.number, **empty, **supposed}
        explorer._on_request(request)  # as of the comm
        explorer.wait(120)
    finally:
        app.publish = publish
    (reply,) = [message for message in sent if message["type"] == "supposed"]
    return reply


def test_errors_of_the_function_are_sent() -> None:
    explorer = inspector.explore(lambda x, y: x + y, jnp.ones((4, 2)), jnp.ones((4, 2)))
    reply = asked(explorer, batch={"x": 3})
    assert reply["variant"] is None
    assert "incompatible shapes" in reply["error"]["message"]
    explorer.close()


def test_a_browser_asks_for_shapes() -> None:
    explorer = inspector.explore(lambda w, x, s: x @ w * s, jnp.ones((8, 6)), jnp.ones((4, 8)), jnp.ones(()))
    known = suppositions(explorer.lowered)
    assert known["lengths"] == [{"length": 8, "what": "w, x"}]
    assert [each["shape"] for each in known["arguments"]] == [[8, 6], [4, 8], None]
    for shape, shapes in (
        ({"8": [16]}, [(16, 6), (4, 16), ()]),
        ({"w": [8, 128]}, [(8, 128), (4, 8), ()]),
    ):
        reply = asked(explorer, shape=shape)
        made = explorer.variants[reply["variant"]].lowered
        assert made is not None
        assert [each.shape for each in made.inputs] == shapes
    reply = asked(explorer, shape={"w": [8]})
    assert "Expected 2 lengths" in reply["error"]["message"]
    explorer.close()


def test_a_browser_gets_the_variant_or_the_error() -> None:
    explorer = explored()
    reply = asked(explorer, rematerialize=["hidden"])
    assert (reply["id"], reply["error"]) == (7, None)
    assert explorer.variants[1].number == reply["variant"]
    assert explorer.variants[1].message()["supposed"] == "hidden rematerialized"
    assert "optimization_barrier" in str(explorer.variants[1].lowered.jaxpr)  # type: ignore[union-attr]
    wrong = asked(explorer, dtype={"x": "nonsense"})
    assert wrong["variant"] is None
    assert "Expected the name of a dtype" in wrong["error"]["message"]
    assert len(explorer.variants) == 2
    explorer.close()


def test_checkpoints_are_offered_where_the_program_has_a_place_for_them() -> None:
    def loss(ws: Any, x: Any, *, wrap: Any = lambda body: body) -> Any:
        return jax.lax.scan(wrap(lambda x, w: (jnp.tanh(jnp.sin(x @ w) @ w), None)), x, ws)[0].sum()

    def offered(fun: Any, length: int = 4) -> set[str]:
        return {*suppositions(inspector.lower(fun, jnp.ones((length, 32, 32)), jnp.ones((8, 32))))["checkpoints"]}

    assert offered(loss) == set()  # no backward pass
    assert offered(jax.grad(loss)) == {"loops"}
    assert offered(jax.grad(loss), length=64) == {"loops", "segments"}
    kept = offered(jax.grad(functools.partial(loss, wrap=jax.checkpoint)))
    assert {"none", "loops", "dots_saveable"} <= kept
    explorer = inspector.explore(jax.grad(loss), jnp.ones((4, 32, 32)), jnp.ones((8, 32)))
    reply = asked(explorer, checkpoint="loops")
    assert (reply["error"], reply["variant"]) == (None, 1)
    assert explorer.variants[1].message()["supposed"] == "checkpoints around the bodies of loops"
    explorer.close()
