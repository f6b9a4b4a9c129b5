"""Sums of elementwise products that one matrix product computes, and sums that it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector._jax.edits.edited import edited
from inspector.analysis.findings.before import Before
from inspector.analysis.findings.detectors.arithmetic.product_as_sum import KIND, sums_of_products
from tests.absent import needs_gpu, needs_tpu
from tests.findings.examined import all_found, found, peak
from tests.findings.sharded import array

F32 = jnp.float32
X, W = jax.ShapeDtypeStruct((256, 128), F32), jax.ShapeDtypeStruct((128, 512), F32)
HALF = jax.ShapeDtypeStruct((1024, 128), jnp.bfloat16)
BYTES = jax.ShapeDtypeStruct((256, 256), jnp.int8)
MANY = (jax.ShapeDtypeStruct((2048, 128), F32),) * 2
POINTS = jax.ShapeDtypeStruct((256, 3), F32)
BATCHES = jax.ShapeDtypeStruct((4, 512, 256), F32)
HEADS = jax.ShapeDtypeStruct((4, 256, 64), F32)


def as_sum(x: Any, w: Any) -> Any:
    return (x[:, :, None] * w[None]).sum(1)


def transposed(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.sum(w.T[None, :, :] * jnp.tanh(x)[:, None, :], axis=-1))


def mapped(x: Any, w: Any) -> Any:
    return jax.vmap(lambda row: jax.vmap(lambda column: (row * column).sum(), in_axes=1)(w))(x)


def heads(q: Any, k: Any) -> Any:
    return jax.nn.softmax((q[:, :, None] * k[:, None]).sum(-1))


def widened(x: Any, y: Any) -> Any:
    return jnp.sum(x[:, None] * y[None], -1, dtype=F32)


def in_scan(x: Any, ws: Any) -> Any:
    return jax.lax.scan(lambda x, w: (jnp.tanh((x[:, :, None] * w).sum(1)), None), x, ws)[0]


SUMS = [
    (as_sum, (X, W), "`x` and `w`", 'jnp.einsum("ab,bc->ac", x, w)'),
    (transposed, (X, W), "f32[512, 128] and f32[256, 128]", 'jnp.einsum("bc,ac->ab", a, b)'),
    (mapped, (X, W), "`x` and", 'jnp.einsum("'),
    (heads, (HEADS, HEADS), "`q` and `k`", 'jnp.einsum("abd,acd->abc", q, k)'),
    (widened, (HALF, HALF), "`x` and `y`", 'jnp.einsum("ac,bc->ab", x, y, preferred_element_type=jnp.float32)'),
    (
        in_scan,
        (jax.ShapeDtypeStruct((4096, 128), F32), jax.ShapeDtypeStruct((4, 128, 128), F32)),
        "",
        'jnp.einsum("ab,bc->ac", a, b)',
    ),
]


def in_program(fun: Any, args: tuple[Any, ...]) -> list[Any]:
    return [*sums_of_products(Before(inspector.lower(fun, *args).module()))]


@needs_gpu
@pytest.mark.parametrize(("fun", "args", "names", "remedy"), SUMS)
def test_sums_of_products(fun: Any, args: tuple[Any, ...], names: str, remedy: str) -> None:
    (finding,) = found(KIND, fun, *args, target="gpu:h100")
    assert f"elementwise products of {names}" in finding.title
    assert remedy in finding.remedy
    assert finding.frames[0].file == __file__
    assert 0.05 < finding.share <= 1
    assert ("precision='highest'" in finding.caution) == (fun is not widened)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (lambda x, w: x @ w, (X, W)),
        (lambda x, y: (x * y).sum(1), (X, X)),  # one product for each row
        (lambda x, v: (x * v).sum(1), (X, jax.ShapeDtypeStruct((128,), F32))),  # a matrix times a vector
        (lambda x, w: (x[:, :, None] * w[None]).max(1), (X, W)),
        (lambda x, w: (x[:, :, None] + w[None]).sum(1), (X, W)),
        (lambda x, y: ((x - y) ** 2).sum(-1), (X, X)),  # one distance for each row
        (lambda x, y: jnp.abs(x[:, None] - y[None]).sum(-1), (X, X)),
        (lambda x, y: ((x[:, None] - y[None]) ** 3).sum(-1), (X, X)),
        (lambda x, c: ((x[:, None] - c[None]) ** 2).sum(-1), (POINTS, POINTS)),  # short sums
        (lambda x, w: (x[:, :, None] * w[None])[:, :4].sum(1), (X, W)),  # short sums
        (lambda x, w: (x[:, :, None] * w[None]).sum((1, 2)), (X, W)),  # less work as a sum first
        (lambda x, w: (x[:, :, None] * w[None]).astype(jnp.int32).astype(F32).sum(1), (X, W)),  # rounded products
        (lambda x, w: (x * w[None, :, :1].T).astype(F32).sum(1), (BYTES, BYTES)),  # products of bytes overflow
        (lambda x, w: jax.lax.reduce(x[:, :, None] * w[None], 5.0, jax.lax.add, (1,)), (X, W)),
        (lambda x, w: (jnp.broadcast_to(x[..., None, None], (256, 128, 512, 5)) * w[None, ..., None]).sum(1), (X, W)),
    ],
)
def test_other_sums(fun: Any, args: tuple[Any, ...]) -> None:
    assert not in_program(fun, args)


@needs_gpu
def test_remedies_of_means_and_mapped_functions() -> None:
    for fun, end in (
        (lambda x, w: (x[:, :, None] * w[None]).mean(1), "x, w) / 128"),
        (lambda x, w: (x[:, :, None] * w[None]).sum(1) / 11.3, "x, w)"),
        (mapped, "  # of all calls together, outside of jax.vmap"),
    ):
        (finding,) = found(KIND, fun, X, W, target="gpu:h100")
        assert finding.remedy.endswith(end)


def test_cpus_compute_such_sums_as_products() -> None:
    assert in_program(as_sum, (X, W))
    assert not all_found(KIND, as_sum, X, W)


def test_cpus_compute_distances_without_a_product() -> None:
    (finding,) = found(KIND, distances, *MANY, roofs=peak("gpu:h100"))
    proof = finding.prove(run=True)
    assert proof.values == "results agree within 1e-04"
    assert proof.compiled is not None
    assert " dot(" in proof.compiled.hlo


def distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def distances_by_product(x: Any, y: Any) -> Any:
    squares = [jnp.einsum("ac,ac->a", each, each) for each in (x, y)]
    return squares[0][:, None] + squares[1][None, :] - 2 * jnp.einsum("ac,bc->ab", x, y)


def radial(x: Any, y: Any) -> Any:
    return jax.vmap(lambda a: jax.vmap(lambda b: jnp.exp(-jnp.sum((a - b) ** 2)))(y))(x)


def nearest(x: Any, y: Any) -> Any:
    return jnp.argmin(jnp.linalg.norm(x[:, None] - y[None], axis=-1), axis=1)


def of_each_batch(x: Any, y: Any) -> Any:
    return jnp.mean(jnp.square(x[:, :, None] - y[:, None]), -1)


SCALE = jax.ShapeDtypeStruct((128,), F32)
SCALED = (*(jax.ShapeDtypeStruct((1024, 128), F32),) * 2, SCALE)


def kernel(x: Any, y: Any, scale: Any) -> Any:
    """The kernel of a Gaussian process, with a length scale for each dimension."""
    return jnp.exp(-0.5 * (((x[:, None] - y[None]) / scale) ** 2).sum(-1))


def kernel_by_product(x: Any, y: Any, scale: Any) -> Any:
    return jnp.exp(-0.5 * distances_by_product(x / scale, y / scale))


def mapped_kernel(x: Any, y: Any, scale: Any) -> Any:
    return jax.vmap(lambda a: jax.vmap(lambda b: jnp.exp(-jnp.sum((a - b) ** 2 / scale**2)))(y))(x)


def bilinear(x: Any, y: Any, scale: Any) -> Any:
    return jax.vmap(lambda a: jax.vmap(lambda b: jnp.sum(a * b * scale))(y))(x)


GROUPS, ROWS = 256, (jax.ShapeDtypeStruct((8192, 128), F32), jax.ShapeDtypeStruct((8192,), jnp.int32))


def masked(x: Any, group: Any) -> Any:
    """Sums of the rows of each group, with a condition."""
    return jnp.where((group[:, None] == jnp.arange(GROUPS))[:, :, None], x[:, None, :], 0.0).sum(0)


def complex_scores(a: Any, b: Any, e: Any, f: Any) -> Any:
    """The scores of complex embeddings."""
    return (a[:, None] * e[None] - b[:, None] * f[None]).sum(-1)


@needs_tpu
@needs_gpu
@pytest.mark.parametrize("target", ["tpu:v5e:1x1", "gpu:h100"])
def test_sums_of_two_products(target: str) -> None:
    args = [jax.ShapeDtypeStruct((size, 128), F32) for size in (512, 512, 8192, 8192)]
    (finding,) = found(KIND, complex_scores, *args, target=target)
    assert "elementwise products of `a` and `e` and 1 other sum is computed" in finding.title
    assert finding.remedy == 'jnp.einsum("ac,bc->ab", a, e) - jnp.einsum("ac,bc->ab", b, f)'
    by_hand = lambda a, b, e, f: a @ e.T - b @ f.T  # noqa: E731
    before, after = (inspector.lower(fun, *args).compile(target=target) for fun in (complex_scores, by_hand))
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert finding.gain_s == pytest.approx(saved_s, rel=0.1)
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.02)


EDITED = (
    *((fun, args, None) for fun, args, *_ in SUMS),
    (distances, (X, X), None),
    (radial, (X, X), None),
    (of_each_batch, (BATCHES, BATCHES), None),
    (lambda x, y: jnp.linalg.norm(x[:, None] - y[None], axis=-1), (X, X), None),
    (lambda x, y: ((y[None] - x[:, None]) ** 2).sum(-1), (X, ROWS[0]), None),
    (lambda x, y: ((x[:, :, None] - y[:, None]) ** 2).sum(0), (X, X), None),
    (lambda x, y: jnp.square(x[:, None] - y[None]).sum(-1, dtype=F32), (HALF, HALF), 0.03),
    (kernel, (X, X, SCALE), None),
    (mapped_kernel, (X, X, SCALE), None),
    (bilinear, (X, X, SCALE), None),
    (lambda x, y, scale: (x[:, None] * y[None] / (1 + scale**2)).sum(-1), (X, X, SCALE), None),
    (lambda x, y: (x[:, None] * y[None] / (1 + y.sum(-1) ** 2)[None, :, None] / 3).sum(-1), (X, X), None),
    (masked, ROWS, None),
    (complex_scores, (X, X, X, X), None),
    (
        lambda x, y: (x[:, None] * y[None] - jnp.sin(x)[:, None] * y[None] + y[None] * 2 * x[:, None]).mean(-1),
        (X, X),
        None,
    ),
    (lambda x, y: ((x[:, None, None] - y[None, :, None]) ** 2).sum(-1), (X, X), None),
    (lambda x, w: (x.astype(jnp.int32).astype(F32)[:, :, None] * w[None]).sum(1), (X, W), None),
    (lambda x, w: (x.astype(jnp.int8).astype(F32)[:, :, None] * w[None]).sum(1), (X, W), None),
)


@pytest.mark.parametrize(("fun", "args", "tolerance"), EDITED)
def test_the_edited_program_computes_the_same(
    fun: Any, args: tuple[Any, ...], tolerance: float | None, tmp_path: Path
) -> None:
    lowered = inspector.lower(fun, *args)
    (found_sum,) = in_program(fun, args)
    changed = edited(lowered.program.module, [("ContractSums", {"op_names": (found_sum.name,)})])
    assert changed.places == 1
    (tmp_path / "changed.mlirbc").write_bytes(changed.module)
    loaded = inspector.load(tmp_path / "changed.mlirbc")
    assert isinstance(loaded, inspector.Lowered)
    assert "stablehlo.dot_general" in str(loaded.stablehlo)
    inputs = [made(each, number) for number, each in enumerate(args)]
    (computed,) = loaded.compile().run(*inputs).outputs
    expected = fun(*(each.astype(F32) if each.dtype == jnp.bfloat16 else each for each in inputs))
    np.testing.assert_allclose(computed, expected, rtol=tolerance or 2e-3, atol=2e-3)


def made(argument: jax.ShapeDtypeStruct, number: int) -> jax.Array:
    key = jax.random.key(number)
    if argument.dtype == jnp.int32:
        return jax.random.randint(key, argument.shape, 0, GROUPS)
    return jax.random.normal(key, argument.shape, argument.dtype)


@needs_tpu
@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("target", ["tpu:v5e:1x1", "gpu:h100"])
def test_the_gain_is_that_of_the_product_by_hand(target: str) -> None:
    x, w = (jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16) for _ in range(2))
    (finding,) = found(KIND, as_sum, x, w, target=target)
    before, after = (
        inspector.lower(fun, x, w, target=target).compile(target=target).roofline().total.least_s
        for fun in (as_sum, jnp.matmul)
    )
    proof = finding.prove(run=False)
    assert proof.verdict == "proven"
    assert proof.gain_s == pytest.approx(before - after, rel=0.02)  # type: ignore[operator]
    assert finding.gain_s == pytest.approx(before - after, rel=0.1)  # type: ignore[operator]


@needs_gpu
@pytest.mark.parametrize("fun", [distances, radial])
def test_few_distances_gain_nothing(fun: Any) -> None:
    """To write the product and to read it again takes longer than the sums."""
    assert not all_found(KIND, fun, X, X, target="gpu:h100")


@needs_gpu
@pytest.mark.parametrize(
    ("fun", "args"), [(distances, MANY), (radial, MANY), (nearest, MANY), (of_each_batch, (BATCHES, BATCHES))]
)
def test_squared_differences(fun: Any, args: tuple[Any, ...]) -> None:
    (finding,) = found(KIND, fun, *args, target="gpu:h100")
    assert "squared differences" in finding.title
    assert "- 2 * jnp.einsum(" in finding.remedy
    assert "cancel" in finding.caution
    assert finding.prove(run=False).verdict == "proven"


@pytest.mark.slow
@needs_gpu
def test_the_code_for_squared_differences_computes_the_same() -> None:
    for fun, shapes in ((distances, ((1024, 256), (768, 256))), (of_each_batch, ((3, 512, 256), (3, 384, 256)))):
        args = [jax.ShapeDtypeStruct(shape, F32) for shape in shapes]
        (finding,) = all_found(KIND, fun, *args, target="gpu:h100")
        x, y = (jax.random.normal(jax.random.key(n), shape) for n, shape in enumerate(shapes))
        computed = eval(finding.remedy, {"jnp": jnp, "x": x, "y": y})
        np.testing.assert_allclose(computed, fun(x, y), rtol=1e-3, atol=1e-3)


@needs_gpu
@pytest.mark.parametrize(
    ("fun", "first"),
    [
        (kernel, "x, y = x * scale, y * scale"),
        (mapped_kernel, "x, y = x * scale, y * scale"),
        (bilinear, "x = x * scale"),
        (lambda x, y, scale: (x[:, None] * y[None] / scale).sum(-1), "x = x * scale"),
        (lambda x, y, scale: (x[:, None] * y[None] / x.sum(-1)[:, None, None]).sum(-1), "x = x * scale"),
    ],
)
def test_terms_with_further_factors(fun: Any, first: str) -> None:
    (finding,) = found(KIND, fun, *SCALED, target="gpu:h100")
    assert finding.remedy.startswith(first)
    assert "other factors of each term" in finding.remedy
    assert finding.prove(run=False).verdict == "proven"


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y, _: (x[:, None] * y[None] * (x @ y.T)[:, :, None]).sum(-1),  # a factor of pairs
        lambda x, y, _: (x[:, None] * y[None] / (x[:, None] + y[None])).sum(-1),
        lambda x, y, _: ((x[:, None] - y[None]) ** 2 / (x @ y.T)[:, :, None]).sum(-1),
        lambda x, y, _: ((x[:, None] - y[None]) ** 2 * x[:, None]).sum(-1),
        lambda x, y, _: ((x[:, None] - y[None]) ** 4).sum(-1),
        lambda x, y, scale: (x * y * scale).sum(-1),
    ],
)
def test_further_factors_that_belong_to_no_array(fun: Any) -> None:
    assert not in_program(fun, (X, X, SCALE))


def nearest_by_product(x: Any, y: Any) -> Any:
    return jnp.argmin(jnp.sqrt(distances_by_product(x, y)), axis=1)


def contrastive(x: Any, y: Any) -> Any:
    """The sum of the `logsumexp` has the name of the sum of products, and is none."""
    return jax.nn.logsumexp((x[:, None] * y[None]).sum(-1), -1)


def contrastive_by_product(x: Any, y: Any) -> Any:
    return jax.nn.logsumexp(x @ y.T, -1)


WIDE, NARROW = (
    (jax.ShapeDtypeStruct((16384, size), F32), jax.ShapeDtypeStruct((512, size), F32)) for size in (128, 64)
)


@needs_gpu
@pytest.mark.parametrize(
    ("fun", "by_hand", "args"),
    [
        (kernel, kernel_by_product, (*(jax.ShapeDtypeStruct((4096, 64), F32),) * 2, jax.ShapeDtypeStruct((64,), F32))),
        (nearest, nearest_by_product, WIDE),
        (contrastive, contrastive_by_product, WIDE),
        (contrastive, contrastive_by_product, NARROW),
    ],
)
def test_the_gain_where_other_kernels_read_the_sums(fun: Any, by_hand: Any, args: tuple[Any, ...]) -> None:
    (finding,) = found(KIND, fun, *args, target="gpu:h100")
    before, after = (
        inspector.lower(each, *args, target="gpu:h100").compile(target="gpu:h100").roofline().total.least_s
        for each in (fun, by_hand)
    )
    assert finding.gain_s == pytest.approx(before - after, rel=0.1)  # type: ignore[operator]
    assert finding.prove(run=False).gain_s == pytest.approx(before - after, rel=0.05)  # type: ignore[operator]


@needs_tpu
@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("target", ["tpu:v5e:1x1", "gpu:h100"])
def test_the_gain_of_squared_differences_is_that_by_hand(target: str) -> None:
    x, y = (jax.ShapeDtypeStruct((2048, 128), F32) for _ in range(2))
    (finding,) = found(KIND, distances, x, y, target=target)
    before, after = (
        inspector.lower(fun, x, y, target=target).compile(target=target).roofline().total.least_s
        for fun in (distances, distances_by_product)
    )
    assert finding.gain_s == pytest.approx(before - after, rel=0.1)  # type: ignore[operator]
    assert finding.prove(run=False).gain_s == pytest.approx(before - after, rel=0.02)  # type: ignore[operator]


@needs_gpu
def test_the_gain_on_a_gpu_counts_what_the_product_computes_too() -> None:
    """A kernel of the product applies the bias and the function. One with few results and many terms needs a second kernel, for sums of parts."""

    def layer(x: Any, w: Any, b: Any) -> Any:
        return jnp.tanh((x[:, :, None] * w).sum(1) - b)

    def similarity(x: Any, y: Any) -> Any:
        return (jnp.tanh(x)[:, :, None] * y[:, None, :]).sum(0)

    shapes = ((2048, 512), (512, 2048), (2048,)), ((4096, 256), (4096, 256))
    for fun, of in zip((layer, similarity), shapes, strict=True):
        (finding,) = found(KIND, fun, *(jax.ShapeDtypeStruct(shape, F32) for shape in of), target="gpu:h100:8")
        proof = finding.prove(run=False)
        assert finding.gain_s == pytest.approx(proof.gain_s, rel=0.05)


@needs_gpu
@pytest.mark.parametrize("is_batched", [False, True])
def test_each_device_adds_up_a_part_of_the_terms(is_batched: bool) -> None:
    if is_batched:  # the differences are computed in the kernel of the product

        def fun(x: Any, w: Any) -> Any:
            return ((x[:, None] - w[:, 0])[:, :, :, None] * w).sum(2)

        shapes = (65536, 64), (32, 64, 64)
    else:

        def fun(x: Any, w: Any) -> Any:
            return jnp.tanh((x[:, :, None] * w).sum(1))

        shapes = (65536, 256), (256, 256)
    x, w = array(shapes[0], "d"), array(shapes[1])
    (finding,) = found(KIND, fun, x, w, target="gpu:h100:8")
    assert finding.gain_s == pytest.approx(finding.prove().gain_s, rel=0.05)


@needs_gpu
def test_other_sums_of_the_same_name_do_not_count() -> None:
    """The backward pass of a distance has sums of the same name, and more terms. No product computes those."""

    def loss(p: Any, x: jax.Array) -> jax.Array:
        distance = jnp.sum((x[:, None, :] - p["z"][None, :, :]) ** 2, -1)
        h = jnp.exp(-distance) @ p["w"]
        return (jnp.sum(h[:, :, None] * p["v"][None, :, :], axis=1) ** 2).mean()

    shapes = {"z": (1024, 64), "w": (1024, 1024), "v": (1024, 32)}
    p = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    x = jax.ShapeDtypeStruct((8192, 64), jnp.float32)
    compiled = inspector.lower(jax.grad(loss), p, x).compile(target="gpu:h100:1")
    for finding in compiled.findings(kinds=[KIND]):
        assert finding.prove().verdict == "proven", finding.title


@needs_gpu
@needs_tpu
@pytest.mark.parametrize("target", ["tpu:v5e:1x1", "gpu:h100"])
def test_sums_where_a_condition_holds(target: str) -> None:
    (finding,) = found(KIND, masked, *ROWS, target=target)
    assert "elementwise products of pred[8192, 256] and `x`" in finding.title
    assert finding.remedy == 'jnp.einsum("ab,ac->bc", a.astype(jnp.float32), x)'
    by_hand = lambda x, group: jax.nn.one_hot(group, GROUPS, dtype=x.dtype).T @ x  # noqa: E731
    before, after = (inspector.lower(fun, *ROWS).compile(target=target) for fun in (masked, by_hand))
    saved_s = before.roofline().total.least_s - after.roofline().total.least_s
    assert (
        0.2 * saved_s < finding.gain_s < 1.05 * saved_s
    )  # JAX 0.12 computes the condition in the kernel of the product
    assert finding.prove(run=False).gain_s == pytest.approx(saved_s, rel=0.02)


@needs_tpu
@pytest.mark.parametrize(
    "fun",
    [
        lambda x, group: jnp.where((group[:, None] == jnp.arange(GROUPS))[:, :, None], x[:, None, :], -1.0).sum(0),
        lambda x, group: jnp.where((group[:, None] == jnp.arange(GROUPS))[:, :, None], x[:, None, :], 0.0).max(0),
        lambda x, group: jnp.where((group % 2 == 0)[:, None], x, 0.0).sum(0),
    ],
)
def test_other_sums_with_a_condition(fun: Any) -> None:
    assert not all_found(KIND, fun, *ROWS, target="tpu:v5e:1x1")


def test_the_code_for_a_condition_computes_the_same() -> None:
    x, group = np.random.default_rng(0).random((512, 128), np.float32), np.arange(512) % GROUPS
    mask = group[:, None] == np.arange(GROUPS)
    assert np.allclose(masked(x, group), jnp.einsum("ab,ac->bc", mask.astype(jnp.float32), x), rtol=1e-5)
