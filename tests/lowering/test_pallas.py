"""Pallas kernels of a lowered function: their attributes, and replaced compiler parameters."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import inspector
from inspector.errors import FlagTypeError, LoweringError, OptionError, ParameterError, Unavailable, UnknownFlagError
from inspector.hlo.pallas import MAX_STEPS, BlockDimension, CostEstimate, ScratchOperand
from inspector.lowering.pallas import fields
from inspector.stages.kernel import Kernel
from tests.absent import needs_gpu, needs_tpu
from tests.kernels import line, matmul, on_cores, on_sparse_cores, piped, scale, struct

SQUARE = struct(512, 512)
deprecated_in_0_12 = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
told_of_copies = pytest.mark.filterwarnings("ignore:Destination semaphore is ignored")  # JAX 0.12, of `sync_copy`
LIMIT = 7654321


def lowered(fun: Any, *args: Any, **options: Any) -> inspector.Lowered:
    return inspector.lower(fun, *args, platform="tpu", **options)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return lowered(lambda x, y: matmul(x, y, bm=256), SQUARE, SQUARE).kernels[0]


def test_attributes_of_a_kernel(kernel: Kernel) -> None:
    assert (kernel.number, kernel.name, kernel.grid, kernel.step_count) == (0, "matmul", (2, 4, 4), 32)
    assert kernel.backend == "mosaic_tpu"
    assert not kernel.interpret
    assert kernel.dimension_semantics == ("parallel", "parallel", "arbitrary")
    assert kernel.cost == CostEstimate(2 * 512**3, 0, 3 * 4 * 512**2)
    assert kernel.scratch == (ScratchOperand("sum_ref", (256, 128), "float32", 32, "vmem"),)
    assert [(o.name, o.role, o.shape, o.block_shape, o.dtype, o.block_bytes) for o in kernel.operands] == [
        ("x_ref", "input", (512, 512), (256, 128), "float32", 256 * 128 * 4),
        ("y_ref", "input", (512, 512), (128, 128), "float32", 128 * 128 * 4),
        ("o_ref", "output", (512, 512), (256, 128), "float32", 256 * 128 * 4),
    ]
    assert repr(kernel) == "<Kernel 0 matmul: grid 2 x 4 x 4, 2 inputs, 1 outputs>"


def test_where_it_stands(kernel: Kernel) -> None:
    assert kernel.function.startswith("matmul")
    assert "kernels.py:" in kernel.function
    frames = kernel.origins[0].frames
    assert frames[0].file.endswith("kernels.py")
    assert frames[-1].file == __file__


def test_variadic_parameters_are_named_after_the_arguments_of_the_callers() -> None:
    def body(*refs: Any) -> None:
        refs[2][...] = refs[0][...] + refs[1][...]

    @jax.custom_vjp
    def inner(a: Any, b: Any) -> Any:  # JAX does not keep the names of these
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), interpret=True)(a, b)

    inner.defvjp(lambda a, b: (inner(a, b), None), lambda _, g: (g, g))
    x = struct(8, 128)
    names = [
        [operand.name for operand in inspector.lower(fun, *arguments).kernels[0].operands]
        for fun, arguments in [
            (jax.jit(lambda left, right: inner(left, right)), (x, x)),
            (jax.jit(lambda left, right: inner(left + 1, right)), (x, x)),
            (jax.jit(lambda left: inner(left, left)), (x,)),
        ]
    ]
    assert names == [["left", "right", "refs[2]"], ["refs[0]", "right", "refs[2]"], ["refs[0]", "refs[1]", "refs[2]"]]


def test_blocks_of_every_step_follow_the_index_map(kernel: Kernel) -> None:
    ids = kernel.program_ids
    assert isinstance(ids, np.ndarray)
    assert ids.tolist() == [[i, j, k] for i in range(2) for j in range(4) for k in range(4)]
    x, y, o = (operand.indices for operand in kernel.operands)
    assert np.array_equal(x, ids[:, [0, 2]])  # type: ignore[arg-type]
    assert np.array_equal(y, ids[:, [2, 1]])  # type: ignore[arg-type]
    assert np.array_equal(o, ids[:, [0, 1]])  # type: ignore[arg-type]
    assert np.array_equal(kernel.operands[0].starts, ids[:, [0, 2]] * [256, 128])


def test_a_lowered_with_kernels_is_a_value() -> None:
    one, two = (lowered(matmul, SQUARE, SQUARE) for _ in range(2))
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.kernels == two.kernels
    assert hash(one.kernels) == hash(two.kernels)


def test_none_where_there_is_none() -> None:
    assert inspector.lower(lambda x: x + 1, struct(3)).kernels == ()
    assert inspector.lower("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }").kernels == ()


def test_kernels_everywhere_are_found_in_the_order_of_the_program() -> None:
    def fun(x: Any) -> Any:
        x = scale(x, rows=16)
        x = jax.lax.scan(lambda c, _: (jax.jit(lambda a: matmul(a, a))(c), None), x, None, length=3)[0]
        x = jax.lax.cond(x[0, 0] > 0, scale, lambda a: scale(a, rows=32), x)
        return jax.checkpoint(lambda a: scale(a, rows=64))(x)

    kernels = lowered(fun, SQUARE).kernels
    assert [(k.number, k.name, k.grid) for k in kernels] == [
        (0, "scale", (32,)), (1, "matmul", (4, 4, 4)), (2, "scale", (16,)), (3, "scale", (64,)), (4, "scale", (8,)),
    ]  # fmt: skip
    assert "while/body" in kernels[1].origins[0].op_name


def test_a_kernel_of_a_function_called_twice_is_one_with_two_origins() -> None:
    twice = jax.jit(scale)
    kernels = lowered(lambda x: twice(twice(x)), SQUARE).kernels
    assert len(kernels) == 1
    assert len(kernels[0].origins) == 2 or kernels[0].origins[0].op_name.count("scale") >= 1


def test_inside_of_shard_map_the_arrays_are_those_of_a_shard() -> None:
    mesh = AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,))
    fun = jax.shard_map(scale, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    kernel = lowered(fun, SQUARE).kernels[0]
    assert (kernel.grid, kernel.operands[0].shape) == ((16,), (128, 512))


def test_kernels_see_the_chip_that_they_are_lowered_for() -> None:
    """A one-dimensional block of 64 words is one that only a TPU's tiling can judge."""
    mesh = AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,))
    fun = jax.shard_map(line, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    assert lowered(line, struct(4096)).kernels[0].grid == (4,)
    assert lowered(fun, struct(4 * 4096)).kernels[0].grid == (4,)
    seen = []
    for chip in ("v4", "v5e", "v6e", "tpu7x"):
        lowered(lambda x: (seen.append(pltpu.get_tpu_info().chip_version), line(x))[1], struct(4096), chip=chip)
    assert [str(version) for version in seen] == ["v4", "v5e", "v6e", "7x"]


def test_under_an_axis_environment_too() -> None:
    result = lowered(
        lambda x: jax.lax.psum(scale(x), "i"), SQUARE, axis_env=[("i", 4)],
        compiler_params={"scale": {"vmem_limit_bytes": 1 << 20}},
    )  # fmt: skip
    assert dict(result.kernels[0].params)["vmem_limit_bytes"] == 1 << 20


def test_a_mapped_kernel_names_the_dimension_that_vmap_added() -> None:
    kernel = lowered(jax.vmap(scale), struct(3, 16, 128)).kernels[0]
    assert (kernel.grid, kernel.vmapped) == ((3, 2), (0,))
    assert kernel.operands[0].dimensions[0] == BlockDimension("squeezed", 1)
    assert kernel.operands[0].indices.tolist() == [[b, i, 0] for b in range(3) for i in range(2)]  # type: ignore[union-attr]


def test_index_maps_that_compute() -> None:
    def fun(x: Any) -> Any:
        return pl.pallas_call(
            lambda x_ref, o_ref: None,
            out_shape=struct(64, 128),
            grid=(2, 4),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: ((i * 4 + j) // 2, jnp.where(j > 1, 0, 0)))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j: (7 - (i * 4 + j), 0)),
        )(x)

    x, o = lowered(fun, struct(64, 128)).kernels[0].operands
    assert x.indices.tolist() == [[s // 2, 0] for s in range(8)]  # type: ignore[union-attr]
    assert o.indices.tolist() == [[7 - s, 0] for s in range(8)]  # type: ignore[union-attr]


def test_an_index_map_that_reads_a_scalar_operand_is_unavailable_and_one_that_does_not_is_known() -> None:
    def fun(rows: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, rows: (rows[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, rows: (i, 0)),
        )
        return pl.pallas_call(lambda r, x, o: None, grid_spec=spec, out_shape=struct(32, 128))(rows, x)

    kernel = lowered(fun, struct(4, dtype=jnp.int32), struct(64, 128)).kernels[0]
    assert isinstance(kernel.operands[0].starts, Unavailable)
    assert "scalar operand" in kernel.operands[0].starts.reason
    assert kernel.operands[1].indices.tolist() == [[i, 0] for i in range(4)]  # type: ignore[union-attr]
    assert kernel.prefetch == (ScratchOperand("r", (4,), "int32", 32, "smem"),)


def test_element_blocks_start_at_their_offset() -> None:
    def fun(x: Any) -> Any:
        return pl.pallas_call(
            lambda x_ref, o_ref: None,
            out_shape=struct(32, 128),
            grid=(4,),
            in_specs=[pl.BlockSpec((pl.Element(16, (4, 4)), pl.Element(128)), lambda i: (i * 8, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        )(x)

    x = lowered(fun, struct(32, 128)).kernels[0].operands[0]
    assert x.dimensions[0] == BlockDimension("element", 16, (4, 4))
    assert x.starts.tolist() == [[-4, 0], [4, 0], [12, 0], [20, 0]]  # type: ignore[union-attr]


def test_a_huge_grid_is_looked_at_as_far_as_its_limit() -> None:
    kernel = lowered(lambda x: scale(x, rows=8), struct(8 * (MAX_STEPS + 5), 128)).kernels[0]
    assert kernel.step_count == MAX_STEPS + 5
    assert kernel.program_ids.shape == (MAX_STEPS, 1)  # type: ignore[union-attr]
    assert kernel.operands[0].indices.shape == (MAX_STEPS, 2)  # type: ignore[union-attr]


def test_scratch_and_aliases() -> None:
    def fun(x: Any) -> Any:
        return pl.pallas_call(
            lambda x, o, v, s, d: None,
            out_shape=struct(8, 128),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec(memory_space=pl.ANY),
            scratch_shapes=[pltpu.VMEM((8, 128), jnp.bfloat16), pltpu.SMEM((2,), jnp.int32), pltpu.SemaphoreType.DMA],
            input_output_aliases={0: 0},
        )(x)

    kernel = lowered(fun, struct(8, 128)).kernels[0]
    assert kernel.aliases == ((0, 0),)
    assert kernel.grid == ()
    assert kernel.program_ids.shape == (1, 0)  # type: ignore[union-attr]
    assert not kernel.operands[0].is_windowed
    assert [(s.memory_space, s.size_bytes) for s in kernel.scratch] == [
        ("vmem", 2048),
        ("smem", 8),
        ("semaphore_mem", 0),
    ]
    assert isinstance(kernel.cost, Unavailable)


def test_scoped_allocations_of_a_body_are_read() -> None:
    (kernel,) = lowered(piped, struct(256, 128)).kernels
    assert kernel.grid == ()
    windows = [(s.shape, s.dtype) for s in kernel.scoped if s.memory_space == "vmem"]
    assert windows == [((2, 64, 128), "float32")] * 2  # double-buffered blocks of the pipeline
    assert [s.memory_space for s in kernel.scoped].count("semaphore_mem") == 2


def test_a_kernel_on_a_mesh_of_cores() -> None:
    (kernel,) = lowered(on_cores, struct(256, 128)).kernels
    assert (kernel.name, kernel.grid, kernel.cores) == ("on_cores", (1,), (("core", 1, "parallel"),))
    assert kernel.dimension_semantics == ("parallel",)
    assert [(o.name, o.role, o.shape, o.memory_space) for o in kernel.operands] == [
        ("x_ref", "input", (256, 128), "any"),
        ("o_ref", "output", (256, 128), "any"),
    ]
    assert [o.starts.tolist() for o in kernel.operands] == [[[0, 0]], [[0, 0]]]  # type: ignore[union-attr]
    assert [list(kernel.table()["copied_bytes"]), kernel.remarks()] == [[0, 0], ()]
    assert "kernels.py:" in kernel.function
    assert kernel.origins[0].op_name.endswith("mpmd_map")


@told_of_copies
def test_a_kernel_on_sparse_cores() -> None:
    params = {"on_sparse_cores": {"use_tc_tiling_on_sc": True}}
    (kernel,) = lowered(on_sparse_cores, struct(32, 128), chip="v5p", compiler_params=params).kernels
    assert kernel.cores == (("c", 2, "core_parallel"), ("s", 16, "subcore_parallel"))
    assert (kernel.step_count, kernel.core_type) == (32, "sc_vector_subcore")
    assert kernel.remarks() == ()  # what it writes where, no index map says
    assert kernel.overridden == ("use_tc_tiling_on_sc",)
    assert "runs on SparseCores" in str(kernel.vmem("v5p"))


@told_of_copies
@needs_tpu
@pytest.mark.slow
def test_a_kernel_on_sparse_cores_compiles() -> None:
    compiled = lowered(on_sparse_cores, struct(32, 128), chip="v5p").compile(target="tpu:v5p")
    assert any(i.custom_call_target == "tpu_custom_call" for i in compiled.module().instructions())
    assert not pltpu.is_tpu_device()  # of this process nothing has changed


def test_a_kernel_on_cores_takes_parameters() -> None:
    tuned = lowered(on_cores, struct(256, 128), compiler_params={"on_cores": {"vmem_limit_bytes": LIMIT}})
    assert dict(tuned.kernels[0].params)["vmem_limit_bytes"] == LIMIT
    assert str(LIMIT) in tuned.stablehlo
    with pytest.raises(OptionError, match=r"allow_input_fusion has 2 values .* but the kernel has 1 inputs"):
        lowered(on_cores, struct(256, 128), compiler_params={0: {"allow_input_fusion": [True, True]}})


@pytest.mark.parametrize("fun", [piped, on_cores])
def test_kernels_that_ask_for_their_chip_are_interpreted_without_one(fun: Any) -> None:
    x = np.linspace(-3, 3, 256 * 128, dtype=np.float32).reshape(256, 128)
    result = inspector.lower(fun, x, platform="cpu", interpret=True)
    assert result.kernels[0].interpret
    assert np.array_equal(result.compile(target="cpu").run(x, repeat=1).outputs[0], x + 1)
    with pytest.raises(LoweringError, match=r"compiles for a TPU or a GPU only.* interpret=True"):
        inspector.lower(fun, x, platform="cpu")


def test_a_function_lowered_for_the_cpu_sees_no_tpu() -> None:
    def fun(x: Any) -> Any:
        try:
            pltpu.get_tpu_info()
        except ValueError:
            return x + 1
        return scale(x)

    for _ in range(2):  # whatever JAX has traced it for before
        assert inspector.lower(fun, SQUARE, platform="cpu").kernels == ()
        assert len(lowered(fun, SQUARE).kernels) == 1


def test_a_trace_for_one_chip_is_not_reused_for_another() -> None:
    @jax.jit
    def fun(x: Any) -> Any:
        return scale(x, rows={"v5e": 8, "v6e": 16}[str(pltpu.get_tpu_info().chip_version)])

    found = {chip: lowered(fun, SQUARE, chip=chip).kernels[0].grid for chip in ("v5e", "v6e")}
    assert found == {"v5e": (64,), "v6e": (32,)}
    assert lowered(fun, SQUARE, chip="v5e").kernels[0].grid == (64,)


# ---------------------------------------------------------------- other compiler parameters


def test_parameters_replace_those_of_the_program() -> None:
    def fun(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jax.jit(lambda a: matmul(a, a))(scale(c)), None), x, None, length=2)[0]

    plain = lowered(fun, SQUARE)
    tuned = lowered(fun, SQUARE, compiler_params={"matmul": {"vmem_limit_bytes": LIMIT}})
    scale_, matmul_ = tuned.kernels
    assert dict(matmul_.params)["vmem_limit_bytes"] == LIMIT
    assert matmul_.overridden == ("vmem_limit_bytes",)
    assert matmul_.dimension_semantics == ("parallel", "parallel", "arbitrary")
    assert scale_ == plain.kernels[0]
    assert f"vmem_limit_bytes={LIMIT}" in str(tuned.jaxpr)
    # What XLA gets: the number in the custom call's own configuration.
    assert str(LIMIT) in tuned.stablehlo
    assert str(LIMIT) not in plain.stablehlo
    assert plain.program.digest != tuned.program.digest


def test_the_same_value_as_before_changes_nothing_that_xla_gets() -> None:
    own = {0: {"dimension_semantics": ["parallel", "parallel", "arbitrary"]}}
    plain, same = (lowered(matmul, SQUARE, SQUARE, compiler_params=params) for params in (None, own))
    assert same.stablehlo_listing.text == plain.stablehlo_listing.text
    assert same.kernels[0].params == plain.kernels[0].params


def test_a_number_overrides_a_name_and_a_name_overrides_all() -> None:
    def fun(x: Any) -> Any:
        return matmul(scale(scale(x, rows=16)), x)

    wanted: Mapping[str | int, Mapping[str, Any]] = {
        1: {"vmem_limit_bytes": 1}, "scale": {"vmem_limit_bytes": 2}, "*": {"vmem_limit_bytes": 3, "skip_device_barrier": True},
    }  # fmt: skip
    kernels = lowered(fun, SQUARE, compiler_params=wanted).kernels
    assert [dict(k.params)["vmem_limit_bytes"] for k in kernels] == [2, 1, 3]
    assert all(dict(k.params)["skip_device_barrier"] is True for k in kernels)


@pytest.mark.parametrize(
    ("wanted", "error", "text"),
    [
        ({"mm": {}}, OptionError, "a Pallas kernel 'mm', which the function does not have. Its kernels, by name or number: 'matmul' (0)"),
        ({"matmul": {"vmem": 1}}, UnknownFlagError, "has no field 'vmem'. It has: dimension_semantics, "),
        ({"matmul": {"vmem_limit_bytes": "16M"}}, FlagTypeError, "vmem_limit_bytes got '16M' of type str. Expected int | None."),
        ({"matmul": {"vmem_limit_bytes": True}}, FlagTypeError, "vmem_limit_bytes got True of type bool. Expected int | None."),
        ({"matmul": {"vmem_limit_bytes": 0}}, OptionError, "vmem_limit_bytes is 0. Expected a positive number of bytes."),
        ({0: {"dimension_semantics": ("parallel",)}}, OptionError, "has 1 values ('parallel',), but the kernel has 3 grid dimensions."),
        ({0: {"dimension_semantics": ("x",) * 3}}, FlagTypeError, "one of 'parallel', 'core_parallel', 'subcore_parallel', 'arbitrary'."),
        ({0: {"allow_input_fusion": (True,)}}, OptionError, "has 1 values (True,), but the kernel has 2 inputs."),
        ({0: {"has_side_effects": "maybe"}}, FlagTypeError, "Expected bool | str, one of 'pure', "),
        ({0: {"flags": [1]}}, FlagTypeError, "flags got [1] of type list. Expected dict[str, Any] | None."),
        ({0: {"disable_bounds_checks": 1}}, FlagTypeError, "disable_bounds_checks got 1 of type int. Expected bool."),
        ({"vmem_limit_bytes": 1}, OptionError, "Expected fields by kernel, its name, its number or '*' for all, such as"),
        (pltpu.CompilerParams(), OptionError, "compiler_params is CompilerParams("),
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused_before_compiling(wanted: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        lowered(matmul, SQUARE, SQUARE, compiler_params=wanted)
    assert text in str(raised.value)


def test_a_chip_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="chip is 'v55', expected one of v4, v5e, v5p, v6e, tpu7x, p100"):
        lowered(scale, SQUARE, chip="v55")


def test_enums_may_be_members_or_text() -> None:
    one = lowered(scale, SQUARE, compiler_params={0: {"has_side_effects": "side_effecting"}})
    two = lowered(scale, SQUARE, compiler_params={0: {"has_side_effects": pltpu.SideEffectType.SIDE_EFFECTING}})
    assert one.kernels == two.kernels
    assert dict(one.kernels[0].params)["has_side_effects"] == "side_effecting"


def test_parameters_for_a_lowered_stage_are_refused() -> None:
    done = jax.jit(scale).trace(SQUARE).lower(lowering_platforms=("tpu",))
    with pytest.raises(ParameterError, match="compiler_params cannot be applied: a Lowered is lowered already"):
        inspector.lower(done, compiler_params={0: {}})


def test_a_traced_function_can_still_be_changed() -> None:
    traced = jax.jit(scale).trace(SQUARE)
    result = inspector.lower(traced, platform="tpu", compiler_params={0: {"vmem_limit_bytes": LIMIT}})
    assert dict(result.kernels[0].params)["vmem_limit_bytes"] == LIMIT
    assert inspector.lower(traced, platform="tpu").kernels[0].params == ()


def test_the_interpreter_runs_the_kernel_on_the_cpu() -> None:
    x = np.arange(256 * 256, dtype=np.float32).reshape(256, 256) % 7
    y = np.arange(256 * 256, dtype=np.float32).reshape(256, 256) % 5
    result = inspector.lower(matmul, x, y, platform="cpu", interpret=True)
    assert result.kernels[0].interpret
    assert result.kernels[0].backend == "mosaic_tpu"
    is_wrong = jax.__version_info__[:2] == (0, 11)
    assert any("interpreter of JAX 0.11 computes wrong values" in note for note in result.notes) == is_wrong
    outputs = result.compile(target="cpu").run(x, y, repeat=1).outputs
    assert np.array_equal(outputs[0], x @ y) or is_wrong  # small integers, exact in float32


def test_an_interpreted_kernel_equals_the_interpret_mode_of_the_user() -> None:
    x = np.linspace(-3, 3, 64 * 128, dtype=np.float32).reshape(64, 128)
    ours = inspector.lower(scale, x, platform="cpu", interpret=True).compile(target="cpu").run(x, repeat=1).outputs[0]
    assert np.array_equal(ours, jax.jit(lambda a: scale(a, interpret=True))(x))


def test_a_compiled_kernel_does_not_lower_for_the_cpu_and_gives_a_remedy() -> None:
    with pytest.raises(inspector.InspectorError, match=r"interpret=True.*platform='tpu'"):
        inspector.lower(scale, SQUARE, platform="cpu")


# ---------------------------------------------------------------- on GPUs


@pytest.fixture
def without_mosaic_on_gpus() -> Iterator[None]:
    """JAX before 0.12 takes Mosaic for kernels without parameters, where what that needs is installed."""
    name = "jax_pallas_use_mosaic_gpu"
    before = getattr(jax.config, name, None)
    if before is not None:
        jax.config.update(name, False)
    yield
    if before is not None:
        jax.config.update(name, before)


@deprecated_in_0_12
@pytest.mark.usefixtures("without_mosaic_on_gpus")
def test_a_kernel_without_parameters_lowers_for_gpus_by_triton() -> None:
    kernel = inspector.lower(scale, SQUARE, platform="gpu").kernels[0]
    assert kernel.backend == "triton"
    assert "for GPUs, which have no VMEM" in str(kernel.vmem("v5e"))
    assert lowered(scale, SQUARE).kernels[0].backend == "mosaic_tpu"


def mosaic_gpu_kernel(x: Any) -> Any:
    plgpu = pytest.importorskip("jax.experimental.pallas.mosaic_gpu", exc_type=ImportError)
    if "out_type" not in inspect.signature(plgpu.kernel).parameters:
        pytest.skip("an earlier form of plgpu.kernel")

    def body(x_ref: Any, o_ref: Any, out_smem: Any) -> None:
        out_smem[...] = x_ref[...] + 1
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(out_smem, o_ref)
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM(x.shape, x.dtype)]
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return plgpu.kernel(body, out_type=result, scratch_types=scratch, grid=(2,), grid_names=("g",))(x)


def test_a_kernel_for_mosaic_on_gpus_is_listed() -> None:
    (kernel,) = inspector.lower(mosaic_gpu_kernel, struct(128, 128), platform="gpu", chip="h100").kernels
    assert (kernel.grid, kernel.cores, kernel.backend) == ((2,), (("g", 2, "parallel"),), "mosaic_gpu")
    assert {(o.memory_space, o.is_windowed) for o in kernel.operands} == {("gmem", False)}
    assert "for GPUs, which have no VMEM" in str(kernel.vmem("v5e"))


@needs_gpu
def test_a_mosaic_gpu_kernel_gives_the_reason_why_it_does_not_compile() -> None:
    lowered = inspector.lower(mosaic_gpu_kernel, struct(128, 128), platform="gpu", chip="h100")
    if importlib.util.find_spec("jax_cuda12_plugin") or importlib.util.find_spec("jax_cuda13_plugin"):
        pytest.skip("Mosaic's runtime is here")
    with pytest.raises(inspector.InspectorError, match=r"Mosaic GPU, whose runtime .* for 'attached'"):
        lowered.compile(target="gpu:h100:1")


def test_tpu_and_gpu_kernels_give_the_reason_why_they_do_not_lower_for_the_other() -> None:
    with pytest.raises(
        LoweringError, match=r"'matmul' has the compiler parameters of mosaic_tpu and cannot be lowered for gpu"
    ):
        inspector.lower(matmul, SQUARE, SQUARE, platform="gpu")
    with pytest.raises(
        LoweringError, match=r"'scale' has the compiler parameters of triton and cannot be lowered for tpu"
    ):
        lowered(lambda x: scale(x, compiler_params=triton.CompilerParams()), SQUARE)


@deprecated_in_0_12
@pytest.mark.usefixtures("without_mosaic_on_gpus")
def test_parameters_of_the_other_backend_make_it_lower_there() -> None:
    def fun(x: Any) -> Any:
        return scale(x, compiler_params=pltpu.CompilerParams())

    kernel = inspector.lower(fun, SQUARE, platform="gpu", compiler_params={"scale": {"num_warps": 8}}).kernels[0]
    assert (kernel.backend, dict(kernel.params)["num_warps"]) == ("triton", 8)
    with pytest.raises(OptionError, match=r"num_warps is 3\. Expected a power of two\."):
        inspector.lower(fun, SQUARE, platform="gpu", compiler_params={"scale": {"num_warps": 3}})


@pytest.mark.slow
@needs_gpu
@deprecated_in_0_12
@pytest.mark.usefixtures("without_mosaic_on_gpus")
def test_a_triton_kernel_compiles_for_a_gpu_that_is_not_here() -> None:
    compiled = inspector.lower(scale, SQUARE, platform="gpu", chip="h100").compile(target="gpu:h100:1")
    assert 'custom_call_target="__gpu$xla.gpu.triton"' in compiled.hlo


# ---------------------------------------------------------------- the fields themselves


def test_every_documented_field_is_there_or_unavailable_with_the_reason() -> None:
    found = {field.name: field for field in fields("mosaic_tpu")}
    own = {field.name for field in dataclasses.fields(pltpu.CompilerParams)}
    assert own <= found.keys()
    assert {name for name, field in found.items() if field.available is not True} == found.keys() - own
    assert "kernel_type" in found
    assert found["vmem_limit_bytes"].type == "int | None"
    assert "VMEM" in found["vmem_limit_bytes"].description
    assert found["dimension_semantics"].choices == ("parallel", "core_parallel", "subcore_parallel", "arbitrary")
    assert found["shape_invariant_numerics"].default is True


def test_every_field_accepts_its_default() -> None:
    """The checks of types take what JAX's own class has."""
    for field in fields("mosaic_tpu"):
        if field.available is True:
            result = lowered(scale, SQUARE, compiler_params={0: {field.name: field.default}})
            assert dict(result.kernels[0].params)[field.name] == field.default


def test_a_backend_that_cannot_be_imported_has_no_fields() -> None:
    for backend in ("triton", "mosaic_gpu"):
        assert all(field.available is True for field in fields(backend))  # type: ignore[arg-type]
    assert [field.name for field in fields("triton")] == ["num_warps", "num_stages"]
