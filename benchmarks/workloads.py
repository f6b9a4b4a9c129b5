"""A ladder of real workloads to compile, from one line to 48 transformer layers.

Every argument is a `jax.ShapeDtypeStruct`: nothing is allocated, and lowering needs no devices
except for `fsdp8_N`, which wants eight (`XLA_FLAGS=--xla_force_host_platform_device_count=8`,
or eight devices of a topology). Knows nothing of inspector.

    workload = make("tf12")
    compiled = jax.jit(workload.fun).lower(*workload.args).compile()

The names are the rungs: `tiny`, `mlp`, `cnn`, `tfN` (transformer, N layers unrolled), `tfscanN`
(the same as a scan), `fsdp8_N` (sharded over eight devices), `pallas_mm` (a TPU kernel).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

LADDER = ("tiny", "mlp", "cnn", "tf1", "tf2", "tf6", "tfscan12", "tfscan48", "fsdp8_6", "tf12", "tf24", "tf48")
"""The rungs that compile on a CPU, by growing compile time."""

Array = jax.Array
Spec = jax.ShapeDtypeStruct
Shape = tuple[int, ...]
Tree = Any  # a pytree of arrays, or of shapes in their place
Built = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Workload:
    """A program to compile.

    Attributes:
      name: the rung, such as "tf12".
      fun: the function, not jitted.
      args: its arguments, pytrees of `jax.ShapeDtypeStruct`.
      note: sizes and optimizer, for a table.
    """

    name: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    note: str


@dataclasses.dataclass(frozen=True)
class TransformerSizes:
    """Dimensions of the transformer: elements, all but `heads` a count of positions along an axis."""

    width: int = 128
    heads: int = 4
    hidden: int = 512
    length: int = 64
    batch: int = 4
    vocabulary: int = 512

    def __str__(self) -> str:
        return f"d={self.width} h={self.heads} ff={self.hidden} T={self.length} B={self.batch} V={self.vocabulary} f32, Adam"


SIZES = TransformerSizes()


def make(name: str, sharding: Sharding | None = None, devices: Sequence[jax.Device] | None = None) -> Workload:
    """Builds one rung.

    Args:
      name: such as "mlp", "tf12", "tfscan48" or "fsdp8_6".
      sharding: where the arguments live, for compiling for devices that are absent. Not for `fsdp8_N`.
      devices: eight devices for `fsdp8_N`; by default the first eight of `jax.devices()`.

    Raises:
      KeyError: no rung of that name.
    """
    if name in SINGLE:
        build, note = SINGLE[name]
        fun, args = build(sharding)
    elif layers := _layers(name, "tfscan"):
        (fun, args), note = transformer(layers, scan=True, sharding=sharding), f"{layers} layers scan, {SIZES}"
    elif layers := _layers(name, "tf"):
        (fun, args), note = transformer(layers, sharding=sharding), f"{layers} layers unrolled, {SIZES}"
    elif layers := _layers(name, "fsdp8_"):
        (fun, args), note = fsdp(layers, devices), f"{layers} layers FSDP shard_map 8 dev remat, {SIZES}"
    else:
        raise KeyError(f"No workload {name!r}; there are {', '.join(SINGLE)}, tfN, tfscanN and fsdp8_N.")
    return Workload(name, fun, args, note)


def tiny(sharding: Sharding | None = None) -> Built:
    """`sin(cos(x))`."""
    return (lambda x: jnp.sin(jnp.cos(x))), (_spec((64,), sharding=sharding),)


def mlp(sharding: Sharding | None = None, width: int = 256, layers: int = 4) -> Built:
    """One step of gradient descent on a multilayer perceptron."""

    def loss(params: Tree, x: Array, y: Array) -> Array:
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return jnp.square(x @ w + b - y).mean()

    def train_step(params: Tree, x: Array, y: Array) -> tuple[Array, Tree]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return value, jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads)

    spec = functools.partial(_spec, sharding=sharding)
    params = [(spec((width, width)), spec((width,))) for _ in range(layers)]
    return train_step, (params, spec((32, width)), spec((32, width)))


def cnn(sharding: Sharding | None = None) -> Built:
    """One step of momentum on a convolutional net of ResNet-18's shape, batch statistics, NHWC."""

    def loss(params: Tree, x: Array, y: Array) -> Array:
        return -jnp.take_along_axis(jax.nn.log_softmax(_resnet(params, x)), y[:, None], 1).mean()

    def train_step(params: Tree, momentum: Tree, x: Array, y: Array) -> tuple[Array, Tree, Tree]:
        value, grads = jax.value_and_grad(loss)(params, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return value, jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum

    spec = functools.partial(_spec, sharding=sharding)
    params = jax.tree.map(spec, _resnet_shapes(), is_leaf=_is_shape)
    return train_step, (params, params, spec((8, 32, 32, 3)), spec((8,), jnp.int32))


def transformer(
    layers: int, *, scan: bool = False, sizes: TransformerSizes = SIZES, sharding: Sharding | None = None
) -> Built:
    """One Adam step on a decoder-only transformer.

    Args:
      layers: number of blocks.
      scan: whether the blocks are one `lax.scan` over stacked parameters instead of unrolled.
      sizes: dimensions.
      sharding: where every argument lives.
    """

    def loss(params: Tree, tokens: Array) -> Array:
        x = params["emb"][tokens] + params["pos"]
        if scan:
            x, _ = lax.scan(lambda x, layer: (_block(sizes, x, layer), None), x, params["layers"])
        else:
            for layer in params["layers"]:
                with jax.named_scope("layer"):
                    x = _block(sizes, x, layer)
        return _head_loss(params, x, tokens)

    def train_step(params: Tree, m: Tree, v: Tree, step: Array, tokens: Array) -> tuple[Array, Tree, Tree, Tree]:
        value, grads = jax.value_and_grad(loss)(params, tokens)
        params, m, v = _adam(params, grads, m, v, step)
        return value, params, m, v

    shapes: Tree = _outer_shapes(sizes)
    if scan:
        shapes["layers"] = {name: (layers, *shape) for name, shape in _layer_shapes(sizes).items()}
    else:
        shapes["layers"] = [_layer_shapes(sizes) for _ in range(layers)]
    spec = functools.partial(_spec, sharding=sharding)
    params = jax.tree.map(spec, shapes, is_leaf=_is_shape)
    return train_step, (params, params, params, spec(()), spec((sizes.batch, sizes.length), jnp.int32))


def fsdp(
    layers: int, devices: Sequence[jax.Device] | None = None, sizes: TransformerSizes = SIZES, shards: int = 8
) -> Built:
    """The transformer's Adam step under `shard_map`, fully sharded over one axis `x`.

    Every parameter of two or more dimensions is gathered where a layer needs it and its gradient
    scattered back; layers are rematerialized, so the backward pass gathers again.

    Args:
      layers: number of blocks.
      devices: at least `shards` devices; by default `jax.devices()`.
      sizes: dimensions; the batch grows to two examples a device.
      shards: number of devices.
    """
    sizes = dataclasses.replace(sizes, batch=max(sizes.batch, 2 * shards))
    mesh = Mesh(np.array((devices if devices is not None else jax.devices())[:shards]), ("x",))
    layer_shapes, outer_shapes = _layer_shapes(sizes), _outer_shapes(sizes)
    shapes: Tree = {**outer_shapes, "layers": [dict(layer_shapes) for _ in range(layers)]}

    def is_sharded(shape: Shape) -> bool:
        return len(shape) == 2 and shape[0] % shards == 0

    def gather(value: Array, shape: Shape) -> Array:
        return lax.all_gather(value, "x", axis=0, tiled=True) if is_sharded(shape) else value

    @jax.checkpoint
    def block(x: Array, layer: Tree) -> Array:
        return _block(sizes, x, {name: gather(layer[name], shape) for name, shape in layer_shapes.items()})

    def loss(params: Tree, tokens: Array) -> Array:
        emb, pos = (gather(params[name], outer_shapes[name]) for name in ("emb", "pos"))
        x = emb[tokens] + pos
        for layer in params["layers"]:
            x = block(x, layer)
        return _head_loss({"emb": emb, "lnfs": params["lnfs"], "lnfb": params["lnfb"]}, x, tokens)

    def train_step(params: Tree, m: Tree, v: Tree, step: Array, tokens: Array) -> tuple[Array, Tree, Tree, Tree]:
        value, grads = jax.value_and_grad(loss)(params, tokens)
        # The transpose of all_gather has summed the sharded gradients already.
        grads = jax.tree.map(lambda g, shape: g / shards if is_sharded(shape) else lax.pmean(g, "x"), grads, shapes)
        params, m, v = _adam(params, grads, m, v, step)
        return lax.pmean(value, "x"), params, m, v

    whole, split = PartitionSpec(), PartitionSpec("x")
    specs = jax.tree.map(lambda shape: split if is_sharded(shape) else whole, shapes, is_leaf=_is_shape)
    fun = jax.shard_map(
        train_step,
        mesh=mesh,
        in_specs=(specs, specs, specs, whole, split),
        out_specs=(whole, specs, specs, specs),
        check_vma=False,
    )
    params = jax.tree.map(
        lambda shape, spec: _spec(shape, sharding=NamedSharding(mesh, spec)), shapes, specs, is_leaf=_is_shape
    )
    step = _spec((), sharding=NamedSharding(mesh, whole))
    tokens = _spec((sizes.batch, sizes.length), jnp.int32, NamedSharding(mesh, split))
    return fun, (params, params, params, step, tokens)


def pallas_mm(sharding: Sharding | None = None, size: int = 1024, block: int = 256) -> Built:
    """A blocked bfloat16 matrix product as a Pallas kernel for TPUs.

    Args:
      sharding: where the arguments live; a TPU, present or absent.
      size: rows and columns of both operands.
      block: rows and columns of a tile.
    """
    from jax.experimental import pallas as pl  # takes half a second to import
    from jax.experimental.pallas import tpu as pltpu

    steps = size // block

    def kernel(x: Any, y: Any, out: Any, total: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            out[...] = total[...].astype(out.dtype)

    def matmul(x: Array, y: Array) -> Any:
        return pl.pallas_call(
            kernel,
            name="kern",
            out_shape=Spec((size, size), jnp.bfloat16),
            grid=(steps, steps, steps),
            in_specs=[
                pl.BlockSpec((block, block), lambda i, _, k: (i, k)),
                pl.BlockSpec((block, block), lambda _, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((block, block), lambda i, j, _: (i, j)),
            scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        )(x, y)

    operand = _spec((size, size), jnp.bfloat16, sharding)
    return matmul, (operand, operand)


SINGLE: dict[str, tuple[Callable[[Sharding | None], Built], str]] = {
    "tiny": (tiny, "sin(cos(x)), 64"),
    "mlp": (mlp, "4x256 MLP, B=32, SGD"),
    "cnn": (cnn, "ResNet-18 shape, width 16, 32x32x3, B=8, momentum"),
    "pallas_mm": (pallas_mm, "Pallas TPU bf16 matmul 1024, 256 blocks"),
}


def _spec(shape: Shape, dtype: Any = jnp.float32, sharding: Sharding | None = None) -> Spec:
    return Spec(shape, dtype, sharding=sharding)


def _is_shape(tree: Tree) -> bool:
    return isinstance(tree, tuple) and all(isinstance(size, int) for size in tree)


def _layers(name: str, prefix: str) -> int:
    """The number after `prefix` in `name`, 0 where there is none."""
    count = name.removeprefix(prefix)
    return int(count) if count != name and count.isdecimal() else 0


def _outer_shapes(sizes: TransformerSizes) -> dict[str, Shape]:
    width = sizes.width
    return {"emb": (sizes.vocabulary, width), "pos": (sizes.length, width), "lnfs": (width,), "lnfb": (width,)}


def _layer_shapes(sizes: TransformerSizes) -> dict[str, Shape]:
    width, hidden = sizes.width, sizes.hidden
    return {
        "ln1s": (width,),
        "ln1b": (width,),
        "wqkv": (width, 3 * width),
        "bqkv": (3 * width,),
        "wo": (width, width),
        "bo": (width,),
        "ln2s": (width,),
        "ln2b": (width,),
        "w1": (width, hidden),
        "b1": (hidden,),
        "w2": (hidden, width),
        "b2": (width,),
    }


def _layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


def _block(sizes: TransformerSizes, x: Array, layer: Tree) -> Array:
    """One transformer block; `x` is (batch, length, width)."""
    batch, length, width = x.shape
    y = _layer_norm(x, layer["ln1s"], layer["ln1b"])
    q, k, v = jnp.split(y @ layer["wqkv"] + layer["bqkv"], 3, -1)

    def split_heads(t: Array) -> Array:
        return t.reshape(batch, length, sizes.heads, width // sizes.heads).transpose(0, 2, 1, 3)

    q, k, v = split_heads(q), split_heads(k), split_heads(v)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width // sizes.heads)
    causal = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = x + mixed @ layer["wo"] + layer["bo"]
    y = _layer_norm(x, layer["ln2s"], layer["ln2b"])
    out: Array = x + jax.nn.gelu(y @ layer["w1"] + layer["b1"]) @ layer["w2"] + layer["b2"]
    return out


def _head_loss(params: Tree, x: Array, tokens: Array) -> Array:
    """Mean cross entropy of the next token."""
    x = _layer_norm(x, params["lnfs"], params["lnfb"])
    log_probabilities = jax.nn.log_softmax(x @ params["emb"].T, -1)
    following = jnp.roll(tokens, -1, 1)
    loss: Array = -jnp.take_along_axis(log_probabilities, following[..., None], -1).mean()
    return loss


def _adam(params: Tree, grads: Tree, m: Tree, v: Tree, step: Array, rate: float = 1e-3) -> tuple[Tree, Tree, Tree]:
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    b1 = 1 - 0.9**step
    b2 = 1 - 0.999**step
    params = jax.tree.map(lambda p, m, v: p - rate * (m / b1) / (jnp.sqrt(v / b2) + 1e-8), params, m, v)
    return params, m, v


def _resnet_shapes(width: int = 16, blocks: Sequence[int] = (2, 2, 2, 2)) -> Tree:
    def norm(channels: int) -> tuple[Shape, Shape]:
        return (channels,), (channels,)

    stages, channels = [], width
    for index, count in enumerate(blocks):
        out, stage = width * 2**index, []
        for _ in range(count):
            shapes: dict[str, Any] = {
                "c1": (3, 3, channels, out),
                "n1": norm(out),
                "c2": (3, 3, out, out),
                "n2": norm(out),
            }
            if channels != out:
                shapes["sc"] = (1, 1, channels, out)
            stage.append(shapes)
            channels = out
        stages.append(stage)
    return {"stem": ((3, 3, 3, width), norm(width)), "stages": stages, "fc": ((channels, 10), (10,))}


def _resnet(params: Tree, x: Array) -> Array:
    """Class scores, (batch, 10); `x` is (batch, height, width, channels)."""
    kernel, norm = params["stem"]
    x = jax.nn.relu(_batch_norm(_conv(x, kernel), *norm))
    for index, stage in enumerate(params["stages"]):
        for position, block in enumerate(stage):
            stride = 2 if index > 0 and position == 0 else 1
            y = jax.nn.relu(_batch_norm(_conv(x, block["c1"], stride), *block["n1"]))
            y = _batch_norm(_conv(y, block["c2"]), *block["n2"])
            shortcut = _conv(x, block["sc"], stride) if "sc" in block else x
            x = jax.nn.relu(y + shortcut)
    weights, bias = params["fc"]
    scores: Array = x.mean((1, 2)) @ weights + bias
    return scores


def _conv(x: Array, kernel: Array, stride: int = 1) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)


def _batch_norm(x: Array, scale: Array, bias: Array) -> Array:
    mean = x.mean((0, 1, 2))
    variance = jnp.square(x - mean).mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias
