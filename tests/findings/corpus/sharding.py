"""Sharded programs with mistakes in the shardings of arguments and of values. On a mesh of eight devices."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.findings.corpus.cases import (
    BF16,
    CPUS,
    DATA,
    EIGHT,
    GPUS,
    I32,
    TPUS,
    constrained,
    planted,
    silent,
    split,
)  # fmt: skip
from tests.findings.corpus.models import adam, attention, mlp, normed, sgd
from tests.findings.sharded import Program, mesh_of

# replicated-argument


def weights(mesh: Any, *spec: Any, widths: tuple[int, ...] = (1024, 4096, 1024)) -> list[Any]:
    pairs = itertools.pairwise(widths)
    return [(split(n, m, spec=spec, mesh=mesh), split(m, mesh=mesh)) for n, m in pairs]


def adam_step(*moments: Any) -> Program:
    """The batch is split, and the parameters are whole."""

    def train_step(params: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params)
        return adam(params, gradients, m, v)

    batch = split(2048, 1024, spec=("data",), mesh=DATA)
    state = weights(DATA, *moments)
    return jax.jit(train_step, donate_argnums=(0, 1, 2)), (weights(DATA), state, state, batch, batch)


@planted("replicated-argument", *EIGHT)
def moments_on_each_device() -> Program:
    return adam_step()


# Most bytes are sent over `data`, which JAX lays over the longer routes of a slice.
@planted("replicated-argument", *EIGHT, also={"axis-order": (TPUS,)})
def momentum_of_a_tensor_parallel_model() -> Program:
    """The momentum is split over `model` as its weights, but not over `data`."""

    def train_step(state: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((jax.nn.relu(x @ params["up"]) @ params["down"] - y) ** 2)

        gradients = jax.grad(loss)(state["params"])
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
        return {"params": sgd(state["params"], momentum), "momentum": momentum}

    params = {"up": split(1024, 4096, spec=(None, "model")), "down": split(4096, 1024, spec=("model",))}
    batch = split(1024, 1024, spec=("data",))
    return jax.jit(train_step, donate_argnums=(0,)), ({"params": params, "momentum": params}, batch, batch)


def tensor_parallel(embedding: tuple[Any, ...], norm: int = 1024) -> Program:
    def predict(params: Any, tokens: Any) -> Any:
        x = params["embedding"][tokens]
        for p in params["layers"]:
            y = normed(x, params["norm"]).astype(x.dtype)
            x = x + jax.nn.gelu(y @ p["up"]) @ p["down"]
        return x.mean(1)

    layer = {"up": split(1024, 4096, spec=(None, "model")), "down": split(4096, 1024, spec=("model",))}
    params = {"embedding": split(32_768, 1024, spec=embedding), "layers": [layer] * 4, "norm": split(norm)}
    return predict, (params, split(16, 256, spec=("data",), dtype=I32))


@planted("replicated-argument", *EIGHT)
def embedding_on_each_device() -> Program:
    """All other weights are split over `model`."""
    return tensor_parallel(())


@planted("replicated-argument", *EIGHT)
def average_of_weights_on_each_device() -> Program:
    def train_step(state: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(state["params"])
        params = sgd(state["params"], gradients)
        average = jax.tree.map(lambda a, p: 0.999 * a + 0.001 * p, state["average"], params)
        return {"params": params, "average": average}

    batch = split(1024, 1024, spec=("data",), mesh=DATA)
    state = {"params": weights(DATA), "average": weights(DATA)}
    return jax.jit(train_step, donate_argnums=(0,)), (state, batch, batch)


@planted("replicated-argument", *EIGHT)
def one_of_two_weights_of_the_experts() -> Program:
    def experts(params: Any, x: Any) -> Any:
        h = jax.nn.relu(jnp.einsum("ecd,edf->ecf", x, params["up"]) * jnp.einsum("ecd,edf->ecf", x, params["gate"]))
        return jnp.einsum("ecf,efd->ecd", h, params["down"])

    params = {
        "up": split(8, 512, 2048, spec=("data",), mesh=DATA),
        "gate": split(8, 512, 2048, spec=("data",), mesh=DATA),
        "down": split(8, 2048, 512, mesh=DATA),
    }
    return experts, (params, split(8, 1024, 512, spec=("data",), mesh=DATA))


def distilled(split_teacher: bool, own_inputs: bool = False) -> Program:
    """The student is split over `model`; the teacher may see its own inputs, split over all devices."""

    def train_step(student: Any, teacher: Any, x: Any, clean: Any) -> Any:
        def network(params: Any, x: Any) -> Any:
            return jax.nn.relu(x @ params["up"]) @ params["down"]

        target = network(teacher, clean if own_inputs else x).mean(0)
        gradients = jax.grad(lambda student: jnp.mean((network(student, x).mean(0) - target) ** 2))(student)
        return sgd(student, gradients)

    parts = {"up": split(1024, 8192, spec=(None, "model")), "down": split(8192, 1024, spec=("model",))}
    whole = {"up": split(1024, 8192), "down": split(8192, 1024)}
    batch, clean = split(512, 1024, spec=("data",)), split(512, 1024, spec=(("data", "model"),))
    return jax.jit(train_step, donate_argnums=(0,)), (parts, parts if split_teacher else whole, batch, clean)


@planted("replicated-argument", *EIGHT, also={"axis-order": (TPUS,), "exposed-communication": (TPUS,)})
def teacher_of_a_split_student() -> Program:
    return distilled(split_teacher=False)


@silent("replicated-argument", *EIGHT, also={"axis-order": (TPUS,)})
def split_teacher_of_a_split_student() -> Program:
    return distilled(split_teacher=True)


@silent("replicated-argument", *EIGHT, also={"axis-order": (TPUS,), "exposed-communication": (TPUS,)})
def teacher_with_inputs_of_its_own() -> Program:
    """Each device computes the targets of its own inputs, so that it needs the whole teacher."""
    return distilled(split_teacher=False, own_inputs=True)


@silent("replicated-argument", *EIGHT)
def moments_that_are_split() -> Program:
    return adam_step("data")


@silent("replicated-argument", *EIGHT)
def data_parallel_step() -> Program:
    def train_step(params: Any, x: Any, y: Any) -> Any:
        return sgd(params, jax.grad(lambda params: jnp.mean((mlp(params, x) - y) ** 2))(params))

    batch = split(2048, 1024, spec=("data",), mesh=DATA)
    return jax.jit(train_step, donate_argnums=(0,)), (weights(DATA), batch, batch)


@silent("replicated-argument", *EIGHT)
def embedding_that_is_split() -> Program:
    """Only the scale of the norms is whole."""
    return tensor_parallel(("model",))


@silent("replicated-argument", TPUS, GPUS)
def state_of_odd_sizes() -> Program:
    """No dimension of the momentum is a multiple of the axis."""

    def train_step(params: Any, momentum: Any, x: Any) -> Any:
        gradients = jax.grad(lambda params: jnp.mean((x @ params) ** 2))(params)
        momentum = 0.9 * momentum + gradients
        return params - 0.01 * momentum, momentum

    state = split(1023, 2047, mesh=DATA)
    args = state, state, split(1024, 1023, spec=("data",), mesh=DATA)
    return jax.jit(train_step, donate_argnums=(0, 1)), args


# resharded-argument


def attend(*cached: Any) -> Program:
    """The heads are split over `model`."""

    def step(q: Any, k: Any, v: Any) -> Any:
        k, v = (constrained(each, "data", None, "model") for each in (k, v))
        return attention(q, k, v, causal=False)

    cache = split(8, 2048, 16, 64, spec=cached, dtype=BF16)
    return step, (split(8, 4, 16, 64, spec=("data", None, "model"), dtype=BF16), cache, cache)


@planted("resharded-argument", *EIGHT, also={"transposed-argument": (CPUS, GPUS), "exposed-communication": (TPUS,)})
def cache_split_by_length() -> Program:
    return attend("data", "model")


@planted("resharded-argument", *EIGHT)
def batch_split_by_features() -> Program:
    def loss(w: Any, x: Any) -> Any:
        x = constrained(x, "data", mesh=DATA)
        return jnp.tanh(jnp.sin(x) @ w)

    return loss, (split(1024, 1024, mesh=DATA), split(8192, 1024, spec=(None, "data"), mesh=DATA))


@planted("resharded-argument", *EIGHT)
def weight_split_by_rows() -> Program:
    """A column-parallel layer."""

    def layer(w: Any, x: Any) -> Any:
        return jax.nn.relu(x @ constrained(w, None, "model"))

    return layer, (split(4096, 8192, spec=("model",)), split(64, 4096, spec=("data",)))


@planted("resharded-argument", *EIGHT)
def experts_split_by_features() -> Program:
    """Each device computes one expert."""

    def experts(w: Any, x: Any) -> Any:
        return jax.nn.relu(jnp.einsum("ecd,edf->ecf", x, constrained(w, "data", mesh=DATA)))

    return experts, (
        split(8, 1024, 4096, spec=(None, None, "data"), mesh=DATA),
        split(8, 256, 1024, spec=("data",), mesh=DATA),
    )


# CPUs and GPUs write queries, keys and values in the order of their products first.
@silent("resharded-argument", *EIGHT, also={"transposed-argument": (CPUS, GPUS)})
def cache_split_by_heads() -> Program:
    return attend("data", None, "model")


@silent("resharded-argument", *EIGHT)
def weight_gathered_before_its_use() -> Program:
    """Fully sharded data parallelism."""

    def layer(w: Any, x: Any) -> Any:
        return jax.nn.relu(x @ constrained(w, mesh=DATA))

    return layer, (split(2048, 2048, spec=("data",), mesh=DATA), split(8192, 2048, spec=("data",), mesh=DATA))


# Corrected: XLA for TPUs gathers x, so that each device only reads its columns of w. The proof confirms it.
@silent("resharded-argument", *EIGHT, also={"replicated-argument": (TPUS,)})
def activations_in_another_sharding() -> Program:
    """The exchange is that of a computed value."""

    def step(w: Any, x: Any) -> Any:
        y = jnp.tanh(x @ w).reshape(8, 1024, 8, 128)
        y = constrained(y, None, None, "data", mesh=DATA)
        return attention(y, y, y)

    return step, (split(1024, 1024, mesh=DATA), split(8, 1024, 1024, spec=("data",), mesh=DATA))


@silent("resharded-argument", *EIGHT)
def argument_in_two_shardings() -> Program:
    """Its rows are normalized where they are, and its columns are needed for the product."""

    def step(x: Any) -> Any:
        norms = jnp.sqrt(jnp.sum(x**2, -1))
        columns = constrained(x, None, "data", mesh=DATA)
        return norms, jnp.cumsum(jnp.exp(columns), 0)

    return step, (split(8192, 1024, spec=("data",), mesh=DATA),)


# resharding


@planted("resharding", *EIGHT)
def there_and_back_around_an_activation() -> Program:
    def layer(x: Any, up: Any, down: Any) -> Any:
        y = constrained(x @ up, "data", mesh=DATA)
        y = constrained(y, None, "data", mesh=DATA)
        y = jax.nn.gelu(y) * 1.5
        return constrained(y, "data", mesh=DATA) @ down

    return layer, (
        split(8192, 512, spec=("data",), mesh=DATA),
        split(512, 2048, mesh=DATA),
        split(2048, 512, mesh=DATA),
    )


@planted("resharding", *EIGHT)
def there_and_back_around_a_residual() -> Program:
    """The sum of two values that are both split by features."""

    def layer(x: Any, w: Any) -> Any:
        x = constrained(x, "data", None, "model")
        a = constrained(x, "data", "model", None)
        b = constrained(jnp.sin(x), "data", "model", None)
        y = constrained(a + 0.1 * b, "data", None, "model")
        return jnp.einsum("btd,df->btf", y, w)

    return layer, (split(16, 2048, 1024, spec=("data", None, "model")), split(1024, 512, spec=("model",)))


@silent("resharding", *EIGHT)  # planted at first; XLA exchanges one dimension after the other
def axes_of_the_mesh_swapped() -> Program:
    """Both dimensions change."""

    def step(x: Any) -> Any:
        y = constrained(jnp.sin(x), "data", "model")
        y = constrained(y * 2, "model", "data")
        return jnp.cumsum(y, 0)

    return step, (split(4096, 4096, spec=("data", "model")),)


@silent(
    "resharding", *EIGHT
)  # planted at first; XLA looks up all of the batch, which is no copy of an array that is split
def lookup_of_embeddings_over_both_axes() -> Program:
    """The features of the table are split over the axis of the batch."""

    def embed(table: Any, tokens: Any) -> Any:
        x = constrained(table[tokens], "data", None, "model")
        return jax.nn.gelu(x)

    return embed, (split(32_768, 2048, spec=("model", "data")), split(32, 512, spec=("data",), dtype=I32))


CUBE = mesh_of((2, 2, 2), ("data", "length", "model"))


@planted("resharding", *EIGHT)
def three_axes_gathered_into_one_dimension() -> Program:
    """From parts of batch, length and features to parts of features, in the other order of the axes."""

    def layer(x: Any, w: Any) -> Any:
        y = constrained(jnp.tanh(x), "data", "length", "model", mesh=CUBE)
        return constrained(y * 2, None, None, ("model", "length", "data"), mesh=CUBE) * w

    x = split(32, 512, 1024, spec=("data", "length", "model"), mesh=CUBE)
    return layer, (x, split(1024, spec=(("model", "length", "data"),), mesh=CUBE))


@planted("resharding", *EIGHT)
def activations_copied_to_each_device() -> Program:
    """Between two products."""

    def model(x: Any, up: Any, down: Any) -> Any:
        y = constrained(x @ up, "data", "length", "model", mesh=CUBE)
        y = constrained(jax.nn.relu(y), None, None, ("model", "length", "data"), mesh=CUBE)
        return y @ down

    x = split(16, 1024, 512, spec=("data", "length"), mesh=CUBE)
    return model, (x, split(512, 2048, mesh=CUBE), split(2048, 512, mesh=CUBE))


# The arguments could arrive in parts of the heads, and a TPU could exchange the values beside the scores.
@silent("resharding", *EIGHT, also={"resharded-argument": EIGHT, "exposed-communication": (TPUS,)})
def heads_exchanged_for_attention() -> Program:
    """From parts of the sequence to heads and back (Ulysses): attention needs whole sequences."""

    def layer(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (constrained(each, None, None, "data", mesh=DATA) for each in (q, k, v))
        return constrained(attention(q, k, v), None, "data", mesh=DATA)

    return layer, (split(2, 4096, 16, 64, spec=(None, "data"), mesh=DATA, dtype=BF16),) * 3


@silent("resharding", *EIGHT)
def sequence_parallel_norm() -> Program:
    """The norm needs whole features, and the products split them."""

    def layer(params: Any, x: Any) -> Any:
        y = constrained(normed(x, params["norm"]), "data")
        h = constrained(jax.nn.gelu(y @ params["up"]), "data", None, "model")
        return constrained(x + h @ params["down"], "data", "model")

    params = {
        "norm": split(1024),
        "up": split(1024, 4096, spec=(None, "model")),
        "down": split(4096, 1024, spec=("model",)),
    }
    return layer, (params, split(16, 1024, 1024, spec=("data", "model")))


# The argument could arrive in parts of the columns.
@silent("resharding", *EIGHT, also={"resharded-argument": EIGHT})
def there_and_back_around_a_sum() -> Program:
    """Sums along the columns need them whole."""

    def step(x: Any) -> Any:
        y = constrained(jnp.sin(x), None, "data", mesh=DATA)
        y = jnp.cumsum(y, 0)
        return constrained(y, "data", mesh=DATA) * 2

    return step, (split(8192, 1024, spec=("data",), mesh=DATA),)


@silent("resharding", CPUS, TPUS, GPUS)
def solution_of_a_stencil() -> Program:
    """The same sharding in each step."""

    def solve(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            u = u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) - 2 * u)
            return constrained(u, "data", mesh=DATA)

        return lax.fori_loop(0, 50, step, u)

    return jax.jit(solve, donate_argnums=(0,)), (split(4096, 4096, spec=("data",), mesh=DATA),)
