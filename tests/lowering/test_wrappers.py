"""Wrappers of libraries: imitations of each kind, without the libraries."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.errors import ExecutionError, ParameterError, Unavailable
from inspector.lowering.wrappers import _AbstractArray
from inspector.stages.lowered import compile_request, lowered_for

X = jnp.arange(12.0).reshape(4, 3)


@jax.tree_util.register_pytree_with_keys_class
class Model:
    """A module as Equinox has them: a pytree of arrays and functions that can be called and cannot be hashed."""

    def __init__(self, weight: Any, activation: Any) -> None:
        self.weight, self.activation = weight, activation

    def tree_flatten_with_keys(self) -> Any:
        keys = (jax.tree_util.GetAttrKey("weight"), jax.tree_util.GetAttrKey("activation"))
        return tuple(zip(keys, (self.weight, self.activation), strict=True)), None

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Model:
        return cls(*children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and bool((self.weight == other.weight).all())

    def __call__(self, x: Any) -> Any:
        return self.activation(x @ self.weight)

    def scaled(self, x: Any, by: Any) -> Any:
        return self(x) * by


MODEL = Model(jnp.ones((3, 2)) * 0.1, jnp.tanh)


class FilterJit:
    """A wrapper as `equinox.filter_jit`: arrays apart, the rest static, a marker before the results; only `lower`."""

    def __init__(self, fun: Any, donate: bool = False) -> None:
        functools.update_wrapper(self, fun)

        def inner(arrays: Any, static: Any) -> Any:
            leaves = iter(arrays)
            args, kwargs = static.tree.unflatten([next(leaves) if s is None else s for s in static.values])
            out, tree = jax.tree.flatten(fun(*args, **kwargs))
            return jnp.array(0), [o for o in out if isinstance(o, jax.Array)], Fixed(out, tree)

        inner.__name__ = fun.__name__
        self.jitted = jax.jit(inner, static_argnums=1, donate_argnums=(0,) if donate else ())

    def split(self, args: Any, kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        arrays = [x for x in leaves if isinstance(x, jax.Array)]
        return arrays, Fixed(leaves, tree)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _, arrays, fixed = self.jitted(*self.split(args, kwargs))
        rest = iter(arrays)
        return fixed.tree.unflatten([next(rest) if v is None else v for v in fixed.values])

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        return Holder(lowered=self.jitted.lower(*self.split(args, kwargs)))


class TracedOnly(FilterJit):
    """A wrapper as `flax.nnx.jit`: its `trace` gives an object with JAX's inside."""

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        return Holder(traced=self.jitted.trace(*self.split(args, kwargs)))


class Holder:
    """A library's own stage."""

    def __init__(self, **stage: Any) -> None:
        self.__dict__.update(stage)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Fixed:
    values: tuple[Any, ...]
    tree: Any


def Fixed(leaves: Any, tree: Any) -> _Fixed:  # noqa: N802 - reads as a class
    return _Fixed(tuple(None if isinstance(x, jax.Array) else x for x in leaves), tree)


def forward(model: Model, x: jax.Array) -> tuple[Model, jax.Array]:
    return model, model(x).sum()


def ran(lowered: inspector.Lowered, *args: Any, **kwargs: Any) -> Any:
    return lowered.compile().run(*args, repeat=1, warmup=0, **kwargs).result


def assert_equal(result: Any, expected: Any) -> None:
    arrays = [
        [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array | np.ndarray)] for tree in (result, expected)
    ]
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    assert arrays[0]
    for one, other in zip(*arrays, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NodeStates:
    """The states of an argument, as nnx passes and returns them."""

    states: tuple[Any, ...]


class StateJit:
    """A wrapper as `flax.nnx.jit`: it returns the states of all arguments besides the result."""

    def __init__(self, update: Any) -> None:
        def inner(*pure: Any) -> Any:
            new, result = update(*(each.states[0] for each in pure))
            return tuple(NodeStates((each,)) for each in new), {}, result

        functools.update_wrapper(self, update)
        self.jitted = jax.jit(inner)

    def __call__(self, *args: Any) -> Any:
        return self.trace(*args)

    def trace(self, *args: Any) -> Any:
        return Holder(traced=self.jitted.trace(*(NodeStates((jax.tree.leaves(each),)) for each in args)))


def test_the_new_states_of_arguments_have_their_names() -> None:
    def train_step(params: Any, x: Any) -> Any:
        return ([each - 0.1 * x[0].sum() for each in params], [x[0].sum()]), params[0].sum()

    compiled = inspector.lower(StateJit(train_step), {"w": jnp.ones((64, 8)), "b": jnp.ones(8)}, X).compile()
    names = [each.path for each in compiled.program.results]
    assert names == [".params['b']", ".params['w']", "[0][1].states[0][0]", "[2]"]  # x comes back in another shape
    (finding,) = compiled.findings(kinds=["undonated"])
    assert "is returned updated as result.params" in finding.title


@pytest.mark.parametrize("wrapper", [FilterJit, TracedOnly])
class TestWrappers:
    def test_the_program_is_the_wrapper_s_own(self, wrapper: Any) -> None:
        wrapped = wrapper(forward)
        lowered = inspector.lower(wrapped, MODEL, X)
        assert lowered.stablehlo == wrapped.lower(MODEL, X).lowered.as_text()
        assert isinstance(lowered.jaxpr, str)
        assert not isinstance(lowered.source, Unavailable)
        assert "def forward" in lowered.source.text
        assert [a.path for a in lowered.inputs] == ["model.weight", "x"]

    def test_a_run_equals_the_call(self, wrapper: Any) -> None:
        wrapped = wrapper(forward)
        assert_equal(ran(inspector.lower(wrapped, MODEL, X), MODEL, X), wrapped(MODEL, X))

    def test_other_values_run_and_other_settings_do_not(self, wrapper: Any) -> None:
        compiled = inspector.lower(wrapper(forward), MODEL, X).compile()
        other = Model(MODEL.weight * 2, jnp.tanh)
        assert_equal(compiled.run(other, X + 1, repeat=1).result, forward(other, X + 1))
        with pytest.raises(ExecutionError, match="was lowered for other arguments"):
            compiled.run(Model(MODEL.weight, jnp.sin), X, repeat=1)

    def test_donation_survives(self, wrapper: Any) -> None:
        lowered = inspector.lower(wrapper(lambda x: x + 1, donate=True), X)
        assert [a.donated for a in lowered.inputs] == [True]

    def test_shapes_stand_for_arrays(self, wrapper: Any) -> None:
        model = Model(jax.ShapeDtypeStruct((3, 2), jnp.float32), jnp.tanh)
        lowered = inspector.lower(wrapper(forward), model, jax.ShapeDtypeStruct((4, 3), jnp.float32))
        assert lowered.stablehlo == inspector.lower(wrapper(forward), MODEL, X).stablehlo

    def test_the_platform_is_the_requested_one(self, wrapper: Any) -> None:
        lowered = inspector.lower(wrapper(forward), MODEL, X, target="tpu:v5e:2x4")
        assert lowered.program.platform == "tpu"
        assert lowered_for(lowered, "cpu").program.platform == "cpu"

    def test_an_error_of_the_function_is_its_own(self, wrapper: Any) -> None:
        with pytest.raises(TypeError, match="dot_general requires contracting dimensions"):
            inspector.lower(wrapper(forward), MODEL, jnp.ones((4, 7)))

    def test_user_code_may_lower_while_it_is_traced(self, wrapper: Any) -> None:
        def f(x: jax.Array) -> jax.Array:
            return x * len(jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct((2,), jnp.float32)).as_text().split("sine")[:1])

        assert inspector.lower(wrapper(f), X).name == "jit_f"

    def test_a_shared_array_has_both_names(self, wrapper: Any) -> None:
        assert [a.path for a in inspector.lower(wrapper(lambda a, b: a - b), X, X).inputs] == ["a", "b"]

    def test_jax_is_left_as_it_was(self, wrapper: Any) -> None:
        before = jax.stages.Traced.lower, type(jax.jit(forward)).trace
        inspector.lower(wrapper(forward), MODEL, X)
        assert (jax.stages.Traced.lower, type(jax.jit(forward)).trace) == before


def test_a_method_called_trace_need_not_be_jax_s() -> None:
    class Matrix:
        def trace(self, offset: int = 0) -> float:
            raise ValueError(offset)

        def __call__(self, x: jax.Array) -> jax.Array:
            return x * 2

    assert_equal(ran(inspector.lower(Matrix(), X), X), X * 2)


def test_stages_inside_a_library_s_object() -> None:
    wrapped = TracedOnly(forward)
    assert isinstance(inspector.lower(wrapped.trace(MODEL, X)).jaxpr, str)
    assert inspector.lower(wrapped.lower(MODEL, X)).stablehlo == inspector.lower(wrapped, MODEL, X).stablehlo


class TestNumbers:
    """Python's numbers are traced, as `jax.jit` does, unless the function needs their values."""

    @staticmethod
    def scaled(x: Any, by: float, train: bool, shape: tuple[int, ...] = ()) -> Any:
        return (x * by if train else x) + jnp.zeros(shape)

    def test_static_arguments_of_the_function_are_reported(self) -> None:
        lowered = inspector.lower(self.scaled, X, 2.0, train=True)
        assert lowered.notes == ("train = True",)
        assert [argument.path for argument in lowered.program.arguments] == ["x", "by"]
        assert_equal(ran(lowered, X, 3.0, train=True), X * 3)
        with pytest.raises(ExecutionError, match="train is static"):
            lowered.compile(target="cpu").run(X, 3.0, train=False)

    def test_no_more_kinds_than_needed(self) -> None:
        lowered = inspector.lower(self.scaled, X, 2.0, True, (4, 3))
        assert lowered.notes == ("train = True", "shape[0] = 4", "shape[1] = 3")

    def test_nothing_is_static_by_default(self) -> None:
        lowered = inspector.lower(lambda x, flag: jnp.where(flag, x, 0), X, True)
        assert lowered.notes == ()
        assert len(lowered.program.arguments) == 2

    def test_those_of_a_module_are_its_constants(self) -> None:
        class Scaled(Model):
            def __call__(self, x: Any) -> Any:
                return x @ self.weight * self.activation

        jax.tree_util.register_pytree_with_keys_class(Scaled)
        lowered = inspector.lower(Scaled(MODEL.weight, 2.0), X)
        assert [argument.path for argument in lowered.inputs] == ["self.weight", "x"]
        assert lowered.notes == ("self.activation = 2.0",)

    def test_replicas_too(self) -> None:
        lowered = inspector.lower(self.scaled, X, 2.0, True, axis_env=[("i", 2)])
        assert len(lowered.program.arguments) == 2

    def test_an_error_that_no_choice_mends_is_the_first(self) -> None:
        def wrong(x: Any, flag: bool) -> Any:
            return x if x.sum() > 0 else flag

        with pytest.raises(jax.errors.TracerBoolConversionError, match=r"args\[0\]|argument x"):
            inspector.lower(wrong, X, True)


class TestModules:
    def test_arrays_of_a_callable_are_arguments(self) -> None:
        lowered = inspector.lower(MODEL, X)
        assert [a.path for a in lowered.inputs] == ["self.weight", "x"]
        assert lowered.notes == ("self.activation = tanh (PjitFunction)",)
        assert_equal(ran(lowered, X), MODEL(X))

    def test_functions_among_the_leaves_are_static_and_listed(self) -> None:
        lowered = inspector.lower(forward, MODEL, X)
        assert [a.path for a in lowered.inputs] == ["model.weight", "x"]
        assert lowered.notes == ("model.activation = tanh (PjitFunction)",)
        assert lowered.name == "jit_forward"
        assert_equal(ran(lowered, MODEL, X), forward(MODEL, X))

    def test_texts_and_objects_are_static_too(self) -> None:
        def f(x: jax.Array, how: dict[str, Any]) -> Any:
            return {"y": x * 2 if how["mode"] == "double" else x, "mode": how["mode"]}

        lowered = inspector.lower(f, X, {"mode": "double", "names": np.array(["a"]), "what": object})
        assert [a.path for a in lowered.inputs] == ["x"]
        assert len(lowered.notes) == 3
        assert "multiply" in lowered.hlo

    def test_a_result_may_contain_non_arrays(self) -> None:
        def f(x: jax.Array) -> Any:
            return {"y": x * 2, "name": "double"}

        result = ran(inspector.lower(f, X), X)
        assert result["name"] == "double"
        np.testing.assert_allclose(result["y"], X * 2)

    def test_a_run_with_another_setting_is_refused(self) -> None:
        compiled = inspector.lower(forward, MODEL, X).compile()
        with pytest.raises(
            ExecutionError, match=r"model.activation is static: forward was lowered with .*Lower the fun"
        ):
            compiled.run(Model(MODEL.weight, jnp.sin), X)

    def test_replicas_too(self) -> None:
        lowered = inspector.lower(lambda m, x: jax.lax.psum(m(x), "i"), MODEL, X, axis_env={"i": 2})
        assert [a.path for a in lowered.inputs] == ["m.weight", "x"]
        assert lowered.notes == ("m.activation = tanh (PjitFunction)",)

    def test_donated_arguments_keep_their_place(self) -> None:
        lowered = inspector.lower(lambda m, n, x: (m(x) * n, x + 1), MODEL, 2, X, static_argnums=1, donate_argnums=2)
        assert [(a.path, a.donated) for a in lowered.inputs] == [("m.weight", False), ("x", True)]
        assert_equal(ran(lowered, MODEL, 2, X), (MODEL(X) * 2, X + 1))


class Counter:
    """An object as users write them."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, step: float) -> None:
        self.step = step

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter) and self.step == other.step

    def add(self, x: jax.Array, *, times: int = 1) -> jax.Array:
        return x + self.step * times

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.add(x)


class Layer:
    """Hashed by identity."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @functools.partial(jax.jit, static_argnums=0, static_argnames="power")
    def apply(self, x: jax.Array, power: int = 1) -> jax.Array:
        return x**power * self.scale


class TestCallables:
    def test_a_jitted_method_on_an_object_hashed_by_identity(self) -> None:
        layer = Layer(3.0)
        lowered = inspector.lower(layer.apply, X, power=2)
        assert lowered.stablehlo == Layer.apply.lower(layer, X, power=2).as_text()
        assert [a.path for a in lowered.inputs] == ["x"]
        assert_equal(ran(lowered, X, power=2), layer.apply(X, power=2))

    def test_methods_and_callables_of_unhashable_objects(self) -> None:
        counter = Counter(2.0)
        assert_equal(ran(inspector.lower(counter.add, X), X), X + 2)
        assert_equal(ran(inspector.lower(counter, X), X), X + 2)

    def test_callables_without_weak_references(self) -> None:
        class Slotted:
            __slots__ = ()

            def __call__(self, x: jax.Array) -> jax.Array:
                return x * 3

        assert_equal(ran(inspector.lower(Slotted(), X), X), X * 3)

    def test_a_partial_of_a_jitted_function(self) -> None:
        jitted = jax.jit(lambda n, x, y: x * n + y, static_argnums=0)
        lowered = inspector.lower(functools.partial(jitted, 3, y=X), X)
        assert lowered.stablehlo == jitted.lower(3, X, y=X).as_text()
        assert_equal(ran(lowered, X), X * 3 + X)

    def test_a_function_around_a_jitted_one_keeps_its_settings(self) -> None:
        jitted = jax.jit(lambda n, x: x * n if n > 2 else x, static_argnums=0)

        @functools.wraps(jitted)
        def logged(*args: Any) -> Any:
            return jitted(*args)

        assert_equal(ran(inspector.lower(logged, 3, X), 3, X), X * 3)

    def test_pytrees_that_hide_non_arrays(self) -> None:
        lowered = inspector.lower(lambda d, x: d.loc + x, Distribution(jnp.ones(3), jnp.ones(3)), X)
        assert len(lowered.inputs) == 3
        assert_equal(ran(lowered, Distribution(jnp.ones(3), jnp.ones(3)), X), X + 1)
        assert lowered_for(lowered, "tpu:v5e:1x1").program.platform == "tpu"


@jax.tree_util.register_pytree_node_class
class Distribution:
    """As distrax has them: what is no array among the leaves is part of the structure."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale

    def tree_flatten(self) -> Any:
        leaves = [self.loc, self.scale]
        is_array = [isinstance(x, jax.Array | np.ndarray) for x in leaves]
        rest = tuple(None if known else id(x) for x, known in zip(leaves, is_array, strict=True))
        return [x for x, known in zip(leaves, is_array, strict=True) if known], (tuple(is_array), rest)

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> Distribution:
        given = iter(children)
        return cls(*(next(given) if known else None for known in aux[0]))


class TestTargets:
    def test_a_program_for_another_platform_is_lowered_again(self) -> None:
        lowered = inspector.lower(lambda x: jnp.sin(x) @ x.T, X)
        assert compile_request(lowered, target="tpu:v5e:2x4").program.platform == "tpu"
        assert compile_request(lowered, target="gpu:h100:8").program.platform == "gpu"
        assert compile_request(lowered, target="cpu:8").program is lowered.program
        assert lowered_for(lowered, "tpu:v5e:2x4") is lowered_for(lowered, "tpu:v5e:2x4")

    def test_a_text_is_unchanged(self) -> None:
        opened = inspector.lower(inspector.lower(jnp.sin, X).stablehlo)
        assert compile_request(opened, target="tpu:v5e:2x4").program.platform == "cpu"

    def test_arrays_are_released(self) -> None:
        x = X + 1
        gone = weakref.ref(x)
        lowered = inspector.lower(lambda x: x * 2, x)
        del x
        gc.collect()
        assert gone() is None
        assert lowered_for(lowered, "tpu:v5e:2x4").inputs == lowered.inputs

    def test_target_and_platform_agree(self) -> None:
        assert inspector.lower(jnp.sin, X, target="gpu:h100:8", platform="cuda").program.platform == "gpu"
        with pytest.raises(ParameterError, match="platform='cpu' and target='tpu:v5e:2x4' differ"):
            inspector.lower(jnp.sin, X, target="tpu:v5e:2x4", platform="cpu")


@pytest.mark.parametrize("wrapper", [FilterJit, TracedOnly])
def test_a_weak_type_is_preserved_through_a_wrapper(wrapper: Any) -> None:
    given = jax.ShapeDtypeStruct((), jnp.float32, weak_type=True)
    lowered = inspector.lower(wrapper(lambda x: x * jnp.ones(3, jnp.bfloat16)), given)
    assert [a.weak_type for a in lowered.inputs] == [True]
    assert lowered.outputs[-1].dtype == "bfloat16"


@pytest.mark.parametrize("is_weak", [False, True])
def test_a_shape_for_an_array_has_the_type_of_the_array(is_weak: bool) -> None:
    given = jax.ShapeDtypeStruct((2, 3), jnp.float32, weak_type=is_weak)
    stands_in = _AbstractArray(given)
    assert isinstance(stands_in, jax.Array)
    assert stands_in.aval == jax.make_jaxpr(lambda x: x)(given).in_avals[0]
    assert (stands_in.shape, stands_in.dtype, stands_in.weak_type) == (given.shape, given.dtype, is_weak)
    assert not stands_in.committed
