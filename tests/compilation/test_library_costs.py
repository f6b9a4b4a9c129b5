"""Operations of library calls: leading terms of the textbook, exact counts of small cases, and compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.cost.dot_algorithms import product_flops, products
from inspector.analysis.cost.kernel_time import KernelTimes
from inspector.compilation.cost import costs
from inspector.compilation.library_costs import library_flops
from inspector.errors import About, Unavailable
from inspector.hlo.module import Instruction
from inspector.hlo.reading.single_instructions import singles
from inspector.platforms import Peak, Rate
from inspector.stages.compiled import instruction_costs
from tests.kernels import struct
from tests.modules import module_of

NONE = Unavailable("none")
CPU = Peak(
    "toy", {"f32": 1000.0}, 1e9, NONE, NONE, NONE, "matrix", vector=Rate(100.0, "vector"), comparisons=Rate(10.0, "sorts")
)  # fmt: skip


def call(target: str, result: str, *operands: str, config: str = "") -> Instruction:
    parameters = "\n".join(f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(operands))
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    text = (
        f"HloModule m\nENTRY e {{\n{parameters}\n"
        f'  ROOT c = {result} custom-call({names}), custom_call_target="{target}", backend_config="{config}"\n}}\n'
    )
    return module_of(text).entry.root


def flops(target: str, result: str, *operands: str, config: str = "") -> float:
    found = library_flops(call(target, result, *operands, config=config))
    assert found is not None
    return float(found)


N = 1000
A = f"f32[{N},{N}]{{0,1}}"
TALL = f"f32[{N},{N // 4}]{{0,1}}"
WIDE = f"f32[{N // 4},{N}]{{0,1}}"


@pytest.mark.parametrize(
    ("target", "result", "operands", "config", "expected"),
    [
        ("lapack_spotrf_ffi", f"({A}, s32[])", (A,), "", N**3 / 3),
        ("cusolver_potrf_ffi", f"({A}, s32[])", (A,), "", N**3 / 3),
        ("__cusolver$cholesky", f"({A}, s8[9], s32[])", (A,), "", N**3 / 3),
        ("lapack_sgetrf_ffi", f"({A}, s32[{N}], s32[])", (A,), "", 2 * N**3 / 3),
        ("lapack_sgetrf_ffi", f"({TALL}, s32[250], s32[])", (TALL,), "", (N - N / 12) * (N / 4) ** 2),
        ("lapack_sgetrf_ffi", f"({WIDE}, s32[250], s32[])", (WIDE,), "", (N - N / 12) * (N / 4) ** 2),
        ("lapack_sgeqrf_ffi", f"({A}, f32[{N}])", (A,), "", 4 * N**3 / 3),
        ("hipsolver_geqrf_ffi", f"({TALL}, f32[250])", (TALL,), "", 2 * (N - N / 12) * (N / 4) ** 2),
        ("lapack_sgeqrf_ffi", f"({WIDE}, f32[250])", (WIDE,), "", 2 * (N - N / 12) * (N / 4) ** 2),
        ("lapack_sorgqr_ffi", A, (A, f"f32[{N}]"), "", 4 * N**3 / 3),
        ("lapack_sorgqr_ffi", TALL, (TALL, "f32[250]"), "", 2 * (N - N / 12) * (N / 4) ** 2),
        ("lapack_sormqr_ffi", A, (TALL, "f32[250]", A), "", 2 * N * 250 * (2 * N - 250)),
        ("lapack_strsm_ffi", TALL, (A, TALL), "{side = 76 : ui8, uplo = 85 : ui8}", N * N * N / 4),
        ("lapack_strsm_ffi", WIDE, (A, WIDE), "{side = 82 : ui8, uplo = 85 : ui8}", N * N * N / 4),
        ("__cublas$triangularSolve", f"({WIDE}, s8[9])", (A, WIDE), "", N * N * N / 4),
        ("lapack_sgehrd_ffi", f"({A}, f32[{N - 1}], s32[])", (A,), "", 10 * N**3 / 3),
        ("lapack_ssytrd_ffi", f"({A}, f32[{N}], f32[{N - 1}], f32[{N - 1}], s32[])", (A,), "", 4 * N**3 / 3),
        ("lapack_ssyevd_ffi", f"({A}, f32[{N}], s32[])", (A,), "{mode = 86 : ui8}", 9 * N**3),
        ("lapack_ssyevd_ffi", f"({A}, f32[{N}], s32[])", (A,), "{mode = 78 : ui8}", 4 * N**3 / 3),
        ("lapack_sgesdd_ffi", f"({A}, f32[{N}], {A}, {A}, s32[])", (A,), "{mode = 65 : ui8}", 22 * N**3),
        ("lapack_sgesdd_ffi", f"({A}, f32[{N}], {A}, {A}, s32[])", (A,), "{mode = 78 : ui8}", 8 * N**3 / 3),
        (
            "lapack_sgesdd_ffi", f"({TALL}, f32[250], {A}, f32[250,250], s32[])", (TALL,), "{mode = 65 : ui8}",
            4 * N**2 * 250 + 22 * 250**3,  # with a factorization first, which takes fewer operations here
        ),
        (
            "cusolver_gesvdj_ffi", f"({TALL}, f32[250], {TALL}, f32[250,250], s32[])", (TALL,), "{compute_uv = true}",
            6 * N * 250**2 + 20 * 250**3,
        ),
        ("lapack_sgeev_ffi", f"(f32[{N}], f32[{N}], {A}, {A}, s32[])", (A,), "{compute_left = 78 : ui8, compute_right = 86 : ui8}", 25 * N**3),
        ("lapack_sgeev_ffi", f"(f32[{N}], f32[{N}], {A}, {A}, s32[])", (A,), "{compute_left = 78 : ui8, compute_right = 78 : ui8}", 10 * N**3),
        ("lapack_sgees_ffi", f"({A}, {A}, f32[{N}], f32[{N}], s32[], s32[])", (A,), "{mode = 86 : ui8}", 25 * N**3),
    ],
)  # fmt: skip
def test_leading_terms(target: str, result: str, operands: tuple[str, ...], config: str, expected: float) -> None:
    assert flops(target, result, *operands, config=config) == pytest.approx(expected, rel=0.01)


def test_exact_counts_of_a_small_factorization() -> None:
    """Cholesky of 2 x 2: two roots and a quotient as multiplications, and a product and a difference."""
    assert flops("lapack_spotrf_ffi", "(f32[2,2], s32[])", "f32[2,2]") == pytest.approx(5)
    # LU of 2 x 2: a quotient, a product and a difference; the formula counts the lowest terms differently.
    assert flops("lapack_sgetrf_ffi", "(f32[2,2], s32[2], s32[])", "f32[2,2]") == pytest.approx(3, abs=2)
    assert flops("lapack_strsm_ffi", "f32[2,1]", "f32[2,2]", "f32[2,1]") == pytest.approx(3 + 1)


def test_batches_and_complex_numbers() -> None:
    one = flops("lapack_spotrf_ffi", f"({A}, s32[])", A)
    assert flops("lapack_spotrf_ffi", f"(f32[2,3,{N},{N}], s32[2,3])", f"f32[2,3,{N},{N}]") == 6 * one
    whole = f"c64[{N},{N}]"
    assert flops("lapack_cpotrf_ffi", f"({whole}, s32[])", whole) == pytest.approx(4 * one, rel=0.01)
    real = flops("lapack_ssyevd_ffi", f"({A}, f32[{N}], s32[])", A)
    assert flops("lapack_cheevd_ffi", f"({whole}, f32[{N}], s32[])", whole) == 4 * real


@pytest.mark.parametrize(
    ("target", "operands"), [("lapack_sother_ffi", (A,)), ("mine", (A,)), ("lapack_spotrf_ffi", ("f32[4]",)), ("lapack_spotrf_ffi", ())]
)  # fmt: skip
def test_other_calls_are_unknown(target: str, operands: tuple[str, ...]) -> None:
    assert library_flops(call(target, "f32[4]", *operands)) is None


def test_iterations_are_about() -> None:
    found = library_flops(call("lapack_ssyevd_ffi", f"({A}, f32[{N}], s32[])", A))
    assert isinstance(found, About)
    assert found.reason == "1 iterative routine counted by the formula of a textbook algorithm"
    exact = library_flops(call("lapack_spotrf_ffi", f"({A}, s32[])", A))
    assert not isinstance(exact, About)


def test_the_time_is_that_of_products() -> None:
    root = call("lapack_spotrf_ffi", f"({A}, s32[])", A)
    found = costs(root.module, singles(root.module), NONE)
    cost = found["c"]
    assert (cost.main_memory_bytes, cost.transcendentals) == (2 * 4 * N**2 + 4, 0.0)
    ((algorithm, counted),) = product_flops(root, found, CPU)
    assert (str(algorithm), counted) == ("f32", cost.flops)
    time = KernelTimes(root.module, products(root.module), found, CPU).of(root)
    assert (time.unit, time.seconds) == ("matrix unit", float(cost.flops) / 1000)  # type: ignore[arg-type]
    double = call("lapack_dpotrf_ffi", f"(f64[{N},{N}], s32[])", f"f64[{N},{N}]")
    found = costs(double.module, singles(double.module), NONE)
    slower = KernelTimes(double.module, products(double.module), found, CPU).of(double)
    assert isinstance(slower.seconds, About)
    assert float(slower.seconds) == 2 * time.seconds  # type: ignore[operator]


def test_tensor_units_of_gpus_do_not_factorize() -> None:
    root = call("cusolver_potrf_ffi", f"({A}, s32[])", A)
    found = costs(root.module, singles(root.module), NONE)
    gpu = Peak("toy", {"tf32": 100.0, "f32": 10.0, "bf16": 200.0}, 1e9, NONE, NONE, NONE, "matrix")
    ((algorithm, _),) = product_flops(root, found, gpu)
    assert str(algorithm) == "f32"


def test_the_largest_elements_take_a_comparison_each() -> None:
    root = call("TopK", "(f32[4,2], s32[4,2])", "f32[4,100]")
    found = costs(root.module, singles(root.module), NONE)
    assert found["c"].flops == 400
    time = KernelTimes(root.module, products(root.module), found, CPU).of(root)
    assert (time.unit, time.seconds, time.source) == ("comparisons", 40.0, "sorts")


def test_a_pallas_kernel_for_gpus_states_why_it_has_no_cost() -> None:
    root = call("__gpu$xla.gpu.triton", "f32[4]", "f32[4]")
    found = costs(root.module, singles(root.module), [{"flops": -1.0}] * len(singles(root.module)))["c"].flops
    assert isinstance(found, Unavailable)
    assert found.reason == (
        "XLA reports no cost for a call to '__gpu$xla.gpu.triton'; JAX does not pass the cost_estimate of a Pallas kernel for GPUs"
        " to XLA"
    )


@pytest.mark.parametrize(
    ("fun", "target"),
    [
        (jnp.linalg.cholesky, "lapack_spotrf_ffi"), (jnp.linalg.qr, "lapack_sorgqr_ffi"), (jnp.linalg.svd, "lapack_sgesdd_ffi"),
        (jnp.linalg.eigh, "lapack_ssyevd_ffi"), (jnp.linalg.inv, "lapack_strsm_ffi"), (jnp.linalg.eig, "lapack_sgeev_ffi"),
        (jax.scipy.linalg.schur, "lapack_sgees_ffi"), (jax.scipy.linalg.hessenberg, "lapack_sgehrd_ffi"),
        (lambda a: jax.lax.top_k(a, 3), "TopK"),
    ],
)  # fmt: skip
def test_compiled_programs_have_no_unknown_call(fun: Callable[..., Any], target: str) -> None:
    compiled = inspector.lower(fun, struct(12, 12, dtype=np.float32)).compile(target="cpu:1")
    calls = [each for each in compiled.module().instructions() if each.opcode == "custom-call"]
    assert target in {each.custom_call_target for each in calls}
    found = instruction_costs(compiled)
    assert not [each.name for each in calls if isinstance(found[each.name].flops, Unavailable)]
    assert not isinstance(compiled.roofline(CPU).total.least_s, Unavailable)
