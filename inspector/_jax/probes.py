"""One probe for each private use of JAX and jaxlib behind the wall: checks that the symbol exists in the form that we need.

Private names move between releases. A probe reports which name moved before one of our functions fails in
the middle of something else. Probes inspect modules and signatures only: they start no device and neither
trace nor compile. Used by the report on an installation and by the test that runs on every JAX version.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator, Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """One use of a private symbol.

    Attributes:
      path: dotted path of the module and its attributes.
      purpose: the feature that needs the symbol.
      parameters: parameters that it must accept, if it is a Python function.
      unless: another path that replaces this one, for symbols that only some releases have.
    """

    path: str
    purpose: str
    parameters: tuple[str, ...] = ()
    unless: str = ""

    def missing(self) -> str | None:
        """Returns a description of the problem, or None if the symbol is as we need it."""
        if self.unless and not isinstance(_resolve(self.unless), _Missing):
            return None
        symbol = _resolve(self.path)
        if isinstance(symbol, _Missing):
            return f"{symbol.path} is missing; needed for {self.purpose}"
        absent = [p for p in self.parameters if p not in _parameters(symbol)]
        if absent:
            return f"{self.path} has no parameter {', '.join(absent)}; needed for {self.purpose}"
        return None


def probe_all() -> dict[str, str | None]:
    """Returns the problem of each private use by its path; None for a symbol that is as we need it."""
    return {path: probe.missing() for path, probe in PROBES.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class _Missing:
    path: str


def _resolve(path: str) -> object:
    """Returns the object at a dotted path: its longest importable module, then attributes."""
    parts = path.split(".")
    symbol: object = importlib.import_module(parts[0])
    for index, name in enumerate(parts[1:], start=1):
        prefix = ".".join(parts[: index + 1])
        try:
            symbol = getattr(symbol, name)
        except AttributeError:
            try:
                symbol = importlib.import_module(prefix)
            except ImportError:
                return _Missing(prefix)
    return symbol


def _parameters(function: object) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return {}


def _all() -> Iterator[Probe]:
    src, mlir = "jax._src", "jax._src.interpreters.mlir"
    yield Probe(
        f"{src}.compiler.get_compile_options", "making compile options as JAX does",
        ("num_replicas", "num_partitions", "device_assignment", "env_options_overrides", "detailed_logging", "backend"),
    )  # fmt: skip
    yield Probe(f"{src}.compiler.use_detailed_logging", "choosing detailed logging as JAX does", ("module",))
    yield Probe(f"{src}.config.config.values", "passing JAX's configuration to workers")
    yield Probe(f"{src}.config.update", "applying a configuration in a worker", ("name", "val"))
    yield Probe(f"{src}.config.traceback_filtering", "showing where a tracing error was raised")
    yield Probe(f"{src}.config.use_shardy_partitioner.value", "detecting the partitioner used for lowering")
    for name, purpose in (
        ("_pp_eqn", "printing jaxprs with the equation of each line"),
        ("pp_eqn", "printing jaxprs with the equation of each line"),
        ("pp_eqn_rules", "printing jaxprs as JAX prints them"),
        ("pp_toplevel_jaxpr", "printing jaxprs"),
        ("jaxprs_in_params", "finding inner jaxprs"),
        ("remove_named_axis_effects", "lowering under an axis environment"),
    ):
        yield Probe(f"{src}.core.{name}", purpose)
    # Merged with Jaxpr in JAX 0.11, where `open_jaxpr` has nothing to open.
    yield Probe(f"{src}.core.ClosedJaxpr", "lowering under an axis environment", unless=f"{src}.core.Jaxpr.consts")
    yield Probe(f"{src}.effects.ordered_effects.filter_in", "lowering effects under an axis environment")
    yield Probe(
        f"{mlir}.lower_jaxpr_to_module", "lowering under an axis environment",
        ("module_name", "jaxpr", "platforms", "axis_context", "donated_args", "lowering_parameters"),
    )  # fmt: skip
    yield Probe(f"{mlir}.LoweringParameters", "lowering under an axis environment", ("override_lowering_rules",))
    yield Probe(f"{mlir}.make_ir_context", "creating MLIR types as JAX does")
    yield Probe(f"{src}.interpreters.pxla.axis_groups", "replica groups of an axis environment")
    reasons = "the reasons for traces and compiles"
    yield Probe(f"{src}.interpreters.partial_eval.logger.log", reasons, ("level", "msg"))
    yield Probe(f"{src}.interpreters.partial_eval.explain", reasons, ("keys", "fun", "in_avals", "debug_info"))
    yield Probe(f"{src}.interpreters.partial_eval.diff_tracing_ctx", reasons, ("new_ctx", "old_ctx"))
    yield Probe(f"{src}.interpreters.partial_eval.diff_trees", reasons, ("new_tree", "old_tree"))
    yield Probe(f"{src}.interpreters.partial_eval.trace_to_jaxpr.cache_keys", reasons)
    for name in ("_cached_lowering_to_hlo", "_cached_compilation"):
        yield Probe(f"{src}.interpreters.pxla.{name}.cache_keys", reasons)
    yield Probe(
        f"{src}.interpreters.pxla.UnloadedMeshExecutable.from_hlo", reasons,
        ("name", "global_in_avals", "in_shardings", "kept_var_idx", "all_args_info"),
    )  # fmt: skip
    yield Probe(f"{src}.pjit._pjit_call_impl_python", reasons, ("jaxpr",))
    yield Probe(f"{src}.interpreters.pxla.SemanticallyEqualShardings", reasons, ("shardings", "avals"))
    yield Probe(f"{src}.interpreters.pxla.MeshComputation.compile", reasons, ("self", "device_assignment"))
    yield Probe(f"{src}.core.ShapedArray", reasons)
    yield Probe(f"{src}.source_info_util.is_user_filename", reasons)
    yield Probe(f"{src}.config.trace_context", reasons)
    for primitive in ("axis_index_p", "ppermute_p", "ragged_all_to_all_p"):
        yield Probe(f"{src}.lax.parallel.{primitive}", "lowering this primitive for replicas")
    checkpoints = "tracing with other checkpoints"
    yield Probe(f"{src}.ad_checkpoint.remat_p.bind", checkpoints)
    yield Probe(f"{src}.lax.control_flow.loops.scan_p.bind", checkpoints)
    yield Probe(f"{src}.core.eval_jaxpr", checkpoints, ("jaxpr", "consts"))
    yield Probe(f"{src}.core.new_jaxpr_eqn", checkpoints, ("invars", "outvars", "primitive", "params", "effects"))
    yield Probe(f"{src}.core.Var", checkpoints)
    for name in ("UNSPECIFIED", "UnspecifiedValue"):
        yield Probe(f"{src}.named_sharding.{name}", "distinguishing specified from unspecified shardings")
    yield Probe(f"{src}.pretty_printer.text", "printing jaxprs that have multi-line parameters", ("text",))
    yield Probe(f"{src}.pretty_printer.source_map", "printing jaxprs with the equation of each line")
    yield Probe(f"{src}.sharding_impls.GSPMDSharding.devices_indices_map", "splitting inputs over devices")
    yield Probe(f"{src}.source_info_util.new_name_stack", "naming operations as lowering does")
    yield Probe(f"{src}.source_info_util.user_context", "rematerializing a forward pass", ("name_stack",))
    yield Probe(f"{src}.core.Primitive.get_bind_params", "rematerializing a forward pass", ("params",))
    yield Probe(f"{src}.core.JaxprEqnContext.manager", "rematerializing a forward pass")
    yield Probe(f"{src}.source_info_util.register_exclusion", "removing inspector's frames from source locations")
    yield Probe(f"{src}.source_info_util.user_frames", "source lines of equations", ("traceback",))
    yield Probe(f"{src}.xla_bridge.backends_are_initialized", "checking if JAX has started a device")
    yield Probe(f"{src}.xla_bridge._plugins_registered", "starting workers without plugins")
    yield Probe(f"{src}.traceback_util.filter_traceback", "showing a tracing error as JAX does")
    yield Probe(f"{src}.array.ArrayImpl", "distinguishing real arrays from placeholders")
    for name in ("DeviceAssignment.create", "OpSharding"):
        yield Probe(f"jaxlib.xla_client.{name}", "calling the runtime API of jaxlib")
    yield from _stages()
    yield from _pallas()
    yield from _jaxlib()
    yield from _persistent_cache()
    yield from _absent()


def _absent() -> Iterator[Probe]:
    purpose = "compiling for devices that are not attached"
    yield Probe("jax._src.xla_bridge.make_pjrt_tpu_topology", purpose, ("topology_name",))
    yield Probe("jaxlib._jax.get_default_c_api_topology", purpose)
    yield Probe("jaxlib._jax.DeviceTopology._make_compile_only_devices", purpose)
    yield Probe("jaxlib._jax.CompileOnlyPyClient.compile", purpose)
    isolated = "compiling for attached devices in another process"
    yield Probe("jaxlib._jax.get_topology_for_devices", isolated)
    for name in ("serialize", "deserialize"):  # not before JAX 0.11, which still had a ClosedJaxpr
        yield Probe(f"jaxlib._jax.DeviceTopology.{name}", isolated, unless="jax._src.core.ClosedJaxpr")
    for name in ("load_pjrt_plugin_dynamically", "pjrt_plugin_loaded"):
        yield Probe(f"jaxlib.xla_client.{name}", purpose)


def _persistent_cache() -> Iterator[Probe]:
    src, what = "jax._src", "explaining JAX's persistent cache"
    for name in (
        "compilation_cache_dir", "enable_compilation_cache", "compilation_cache_check_contents",
        "compilation_cache_expect_pgle", "compilation_cache_include_metadata_in_key", "compilation_cache_max_size",
        "enable_pgle", "pgle_profiling_runs", "persistent_cache_min_compile_time_secs",
        "persistent_cache_min_entry_size_bytes", "remove_custom_partitioning_ptr_from_cache_key",
        "share_binary_between_hosts", "share_binary_between_hosts_timeout_ms",
    ):  # fmt: skip
        yield Probe(f"{src}.config.{name}.value", what)
    for name in (
        "_cache", "_cache_checked", "_cache_initialized", "_cache_used", "_UNSUPPORTED_RUNTIMES", "VerificationCache._path",
        "decompress_executable", "extract_executable_and_time",
    ):  # fmt: skip
        yield Probe(f"{src}.compilation_cache.{name}", what)
    yield Probe(
        f"{src}.compilation_cache.get_cache_key", "computing cache keys as JAX does",
        ("module", "devices", "compile_options", "backend"),
    )  # fmt: skip
    yield Probe(
        f"{src}.interpreters.pxla.create_compile_options", "computing cache keys as JAX does",
        ("computation", "tuple_args", "allow_prop_to_inputs", "allow_prop_to_outputs", "backend", "np_dev"),
    )  # fmt: skip
    for name in ("get_prop_to_input_output", "maybe_concretize_mesh"):
        yield Probe(f"{src}.interpreters.pxla.{name}", "computing cache keys as JAX does")
    yield Probe(f"{src}.interpreters.mlir.refine_polymorphic_shapes", "computing cache keys as JAX does")
    yield Probe(
        f"{src}.interpreters.pxla.MeshComputation.__init__", "reading the arguments that a Lowered passes to its compile",
        ("device_assignment", "compiler_options_kvs"),
    )  # fmt: skip
    for name in ("_hash_serialized_compile_options", "_hash_devices", "custom_hook"):
        yield Probe(f"{src}.cache_key.{name}", "splitting cache keys into their components")
    yield Probe(f"{src}.cache_key._hash_accelerator_config", "sharing compiles between processes", ("accelerators",))
    yield Probe(f"{src}.compiler._cache_write", what, ("compile_time_secs",))
    yield Probe(f"{src}.compiler._compile_and_share_module.modules_cache", what)
    for name in ("client", "process_id"):
        yield Probe(f"{src}.distributed.global_state.{name}", what)
    for name in ("_CACHE_SUFFIX", "filelock", "LRUCache"):
        yield Probe(f"{src}.lru_cache.{name}", what)
    for name in ("Path", "epath_installed"):
        yield Probe(f"{src}.path.{name}", what)
    yield Probe("jaxlib.mlir.ir.WalkResult.ADVANCE", "finding addresses in modules")


def _stages() -> Iterator[Probe]:
    yield Probe("jax.stages.Lowered._lowering", "reading a jax.stages.Lowered")
    yield Probe("jax.stages.ArgInfo._aval", "reading weak types of arguments")
    yield Probe(
        "jax._src.interpreters.pxla.MeshComputation",
        "reading donated arguments, the platform and the devices",
        ("donated_invars", "const_args", "platforms", "device_assignment"),
    )
    for name in ("in_avals", "debug_info"):
        yield Probe(f"jax._src.interpreters.pxla.AllArgsInfo.{name}", "finding unused arguments and the traced jaxpr")
    yield Probe(
        "jax._src.interpreters.pxla.UnloadedMeshExecutable.from_hlo",
        "reading the arguments that a Lowered passes to its compile",
        ("in_shardings", "out_shardings", "host_callbacks", "keepalive", "kept_var_idx"),
    )  # fmt: skip
    for name in ("static_argnums", "static_argnames", "donate_argnums"):
        yield Probe(f"jax._src.pjit.PjitInfo.{name}", "reading which arguments jit treats as static")
    for path in ("jax._src.pjit.jit_trace", "jax.stages.Traced.lower"):
        yield Probe(path, "intercepting the function that a wrapper passes to jit")
    yield Probe("jax.numpy.sin._jit_info", "reading which arguments jit treats as static")


def _pallas() -> Iterator[Probe]:
    kernels, replacing = "jax._src.pallas.core", "overriding the compiler parameters of a kernel"
    yield Probe(
        f"{kernels}.GridMapping", "reading the grid of Pallas kernels",
        ("grid", "block_mappings", "index_map_avals", "scratch_avals", "vmapped_dims", "num_index_operands", "num_inputs"),
    )  # fmt: skip
    yield Probe(
        f"{kernels}.BlockMapping", "reading the blocks of Pallas kernels",
        ("block_shape", "transformed_block_aval", "index_map_jaxpr", "array_aval", "origin", "pipeline_mode"),
    )  # fmt: skip
    yield Probe("jax._src.pallas.mpmd.mpmd_map_p", "listing kernels of pl.kernel")
    for name in ("eval_jaxpr", "Literal"):
        yield Probe(f"jax._src.core.{name}", "evaluating index maps of Pallas kernels")
    chips = "jax._src.pallas.mosaic.tpu_info"
    for name in ("registry", "get_tpu_info", "get_tpu_info_for_chip", "chip_version_from_device_kind", "is_tpu_device"):
        yield Probe(f"{chips}.{name}", "lowering kernels for a TPU that is not attached")
    yield Probe("jax._src.interpreters.pxla.get_default_device", "lowering kernels for a device that is not attached")
    yield Probe("jax._src.core.DebugInfo.safe_arg_names", "naming a Pallas kernel's operands")
    yield Probe("jax._src.core.Jaxpr.replace", replacing)
    yield Probe("jax._src.core.JaxprEqn.replace", replacing)
    yield Probe("jax.stages.Traced._params", replacing)
    yield Probe("jax.stages.Traced._lojax", replacing)
    anywhere = "lowering attached arrays for a mesh of devices that are not attached"
    yield Probe("jax.stages.Traced._meta_tys_flat", anywhere)
    yield Probe("jax._src.pjit.MetaTy.replace", anywhere)


def _jaxlib() -> Iterator[Probe]:
    yield Probe("jaxlib.version.__version__", "comparing versions of executables")
    for name in ("initialize", "registrations"):
        yield Probe(f"jaxlib.cpu._lapack.{name}", "running linear algebra in a process that has lowered nothing")
    for name in ("CompileOptions.ParseFromString", "CompileOptions.SerializeAsString", "DeviceList"):
        yield Probe(f"jaxlib.xla_client.{name}", "compiling")
    for name in ("Client.compile_and_load", "Client.deserialize_executable"):
        yield Probe(f"jaxlib._jax.{name}", "compiling")
    for name in ("ProfileOptions", "ProfilerSession"):
        yield Probe(f"jaxlib._profiler.{name}", "profiling programs, and timing compiler passes on the CPU")
    yield Probe("jaxlib._profiler.ProfilerSession.stop", "reading the profile of a program")
    yield Probe("jaxlib._jax.hlo_module_cost_analysis", "counting operations before code generation")
    for name in (
        "hlo_modules", "get_compiled_memory_stats", "cost_analysis", "serialize", "execute_sharded",
        "get_parameter_shardings", "get_output_shardings",
    ):  # fmt: skip
        yield Probe(f"jaxlib._jax.LoadedExecutable.{name}", "reading and running executables")
    for name in ("consume_token", "disassemble_into_single_device_arrays"):
        yield Probe(f"jaxlib._jax.ExecuteResults.{name}", "reading results")
    for name in ("mlir_module_to_xla_computation", "hlo_to_stablehlo"):
        yield Probe(f"jaxlib._jax.mlir.{name}", "converting between StableHLO and HLO")
    for name in (
        "HloModule.from_serialized_hlo_module_proto", "XlaComputation.program_shape", "hlo_module_to_dot_graph",
        "hlo_module_from_text", "ProgramShape.result_shape", "Shape.is_array", "Shape.is_tuple", "Shape.layout", "Shape.rank",
        "Shape.tuple_shapes", "Layout.minor_to_major",
    ):  # fmt: skip
        yield Probe(f"jaxlib._hlo.{name}", "reading HLO")
    for name in (
        "ArrayAttr.get", "BoolAttr.get", "Context", "DenseElementsAttr.get", "DenseIntElementsAttr.get", "DialectRegistry",
        "DictAttr.get", "FunctionType", "InsertionPoint", "IntegerAttr", "IntegerType.get_signless",
        "IntegerType.get_unsigned", "Location.unknown", "Module.parse", "Operation.create", "RankedTensorType.get",
        "StringAttr.get", "Type", "TypeAttr", "WalkResult.INTERRUPT",
    ):  # fmt: skip
        yield Probe(f"jaxlib.mlir.ir.{name}", "reading and writing StableHLO")
    yield Probe("jaxlib.mlir.ir.Attribute.parse", "parsing attributes that MLIR printed")
    for name in (
        "ArrayAttr", "BoolAttr", "DenseElementsAttr", "DenseI32ArrayAttr", "DenseI64ArrayAttr", "DictAttr", "FlatSymbolRefAttr",
        "MLIRError", "MemRefType", "StringAttr", "VectorType",
    ):  # fmt: skip
        yield Probe(f"jaxlib.mlir.ir.{name}", "reading the bodies of Pallas kernels")
    yield Probe("jaxlib.mlir._mlir_libs._tpu_ext.register_dialect", "reading the bodies of Pallas kernels")
    for name in (
        "stablehlo.CollectivePermuteOp", "stablehlo.CustomCallOp", "stablehlo.constant", "stablehlo.convert", "stablehlo.divide",
        "stablehlo.remainder", "stablehlo.replica_id",
    ):  # fmt: skip
        yield Probe(f"jaxlib.mlir.dialects.{name}", "reading and writing StableHLO")
    for name in (
        "_chlo.register_dialect", "_jax_mlir_ext.register_dialects", "_mlirHlo.register_mhlo_dialect", "_sdy.MeshAttr",
        "_sdy.MeshAxisAttr", "_sdy.register_dialect", "_sdyMpmd.register_dialect",
        "_stablehlo.deserialize_portable_artifact", "_stablehlo.serialize_portable_artifact",
        "_stablehlo.get_minimum_version", "_stablehlo.get_current_version", "_stablehlo.register_dialect",
    ):  # fmt: skip
        yield Probe(f"jaxlib.mlir._mlir_libs.{name}", "reading StableHLO with JAX's dialects")


PROBES: Mapping[str, Probe] = {probe.path: probe for probe in _all()}
"""Every private use by its path."""
