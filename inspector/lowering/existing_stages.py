"""Opens programs that are traced or lowered already: JAX's stages, exports, StableHLO and HLO modules."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import time
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType

from inspector import platforms
from inspector._jax.compiling import attached_devices, configuration
from inspector._jax.lowering import stages
from inspector._jax.lowering.pallas_overrides import with_changes
from inspector._jax.lowering.reevaluation import context as reevaluation_context
from inspector._jax.lowering.reevaluation import reevaluated_call
from inspector._jax.lowering.traced import JaxprFacts, MeshFacts
from inspector._jax.modules import isolated_reading, stablehlo
from inspector._jax.modules.hlo import SourceHlo
from inspector._jax.modules.module_contents import Contents
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import Options
from inspector.compilation.placement import placed
from inspector.compilation.program import Argument, Program, Result
from inspector.errors import LoweringError, ModuleError, ParameterError, Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.pallas import MAX_STEPS
from inspector.lowering.arguments import argument_names, result_name
from inspector.lowering.assemble import assemble
from inspector.lowering.bindings import Call, StageBinding
from inspector.lowering.hlo_only import not_convertible, without_stablehlo
from inspector.lowering.languages import hlo_module
from inspector.lowering.module_files import Choice, chosen_module, read_module
from inspector.lowering.module_settings import Settled, settle
from inspector.lowering.pallas import Overrides
from inspector.lowering.what_if import changed_call
from inspector.stages.lowered import Lowered, relowering_of, what_if_of
from inspector.support import deferred
from inspector.support.notebook import short

_WHOLE = Choice()


def check_opened(value: Any) -> None:
    """Checks that a value is a stage, a saved program or a module.

    Raises:
      ParameterError: it is not. The message lists what can be lowered, or the functions that the value holds.
    """
    kinds = (
        stages.Traced,
        stages.Lowered,
        Program,
        CompiledProgram,
        Lowered,
        jax.export.Exported,
        str,
        bytes,
        bytearray,
        os.PathLike,
    )
    if not isinstance(value, kinds) and not hasattr(value, "as_serialized_hlo_module_proto"):
        if functions := _functions_of(value):
            raise ParameterError(
                f"A {type(value).__name__} is not a function, but has functions as fields: {', '.join(functions)}. Pass one of them"
                f" and then its arguments, such as {type(value).__name__.lower()}.{functions[-1]}."
            )
        raise ParameterError(
            f"Cannot lower a value of type {type(value).__name__}. Expected a function followed by its arguments, a"
            " jax.stages.Traced or Lowered, a jax.export.Exported, an inspector Lowered or Compiled, or StableHLO or"
            " HLO as text, bytes or a path."
        )


def _functions_of(value: Any) -> list[str]:
    """Returns the callable fields of a named tuple or a dataclass, such as `init` and `apply` of a transformation."""
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    names = getattr(value, "_fields", None) or [field.name for field in fields]
    return [name for name in names if callable(getattr(value, name, None))]


def open_lowered(value: Any, platform: str | None, overrides: Overrides, choice: Choice = _WHOLE) -> Lowered:
    """Opens a value that is not a function. The value must have passed `check_opened`.

    Args:
      value: the value.
      platform: the platform to lower for; None for the attached one.
      overrides: changes to the call and to Pallas kernels.
      choice: the module and function of a file to open.
    """
    if isinstance(value, Lowered) and overrides.what_if and (again := relowering_of(value)) is not None:
        overrides.refuse("a Lowered is lowered already, and so are its kernels")
        what_if = what_if_of(value).merge(overrides.what_if)
        return again.lower(platform or value.program.platform, again.chip, what_if)
    if overrides.what_if.changes_arguments:
        raise ParameterError(
            f"A {type(value).__name__} has fixed shapes and dtypes, which dtype, batch and shape cannot"
            " change. Pass the function and its arguments."
        )
    if overrides.what_if.checkpoint:
        raise ParameterError(
            f"The checkpoints of a {type(value).__name__} are part of its trace, so checkpoint cannot change them. Pass the"
            " function and its arguments."
        )
    if isinstance(value, stages.Traced):
        return from_traced(value, None, platform, None, overrides)
    overrides.refuse(f"a {type(value).__name__} is lowered already, and so are its kernels")
    if isinstance(value, stages.Lowered):
        return _open_stage(value, platform, overrides)
    if overrides.what_if:
        raise ParameterError(
            f"A {type(value).__name__} comes without its function, so it cannot be lowered for another call."
            " Pass the function and its arguments."
        )
    if isinstance(value, CompiledProgram) and value.program.no_stablehlo is not None:
        return _open_hlo(value)
    if isinstance(value, (Program, CompiledProgram)):
        return _open_program(value if isinstance(value, Program) else value.program, platform)
    if isinstance(value, Lowered):
        _check_platform(value.program, platform)
        return value
    if isinstance(value, jax.export.Exported):
        return _open_exported(value, platform)
    if hasattr(value, "as_serialized_hlo_module_proto"):
        return _open_module(value.as_serialized_hlo_module_proto(), "HLO", platform)
    module = chosen_module(read_module(value), choice)
    data = hlo_module(module.data) if module.language == "HLO" and isinstance(module.data, bytes) else module.data
    return _open_module(data, module.language, platform, choice)


def _open_stage(lowered: stages.Lowered, platform: str | None, overrides: Overrides) -> Lowered:
    """Opens a `jax.stages.Lowered`. Lowers its jaxpr again for another platform or another call."""
    own = stages.platform_of(lowered)
    if platform in (None, own) and not overrides.what_if and overrides.reevaluation is None:
        return _from_lowered(lowered, stages.facts_behind(lowered, MAX_STEPS), None, own)
    traced = stages.traced_again(lowered)
    if traced is None:
        raise ParameterError(
            f"A jax.stages.Lowered is lowered for {own} already and does not keep its function, so platform"
            " cannot change it. Pass the function itself."
        )
    return from_traced(traced, None, platform, _call_of(stages.lowered_facts(lowered)), overrides)


def _call_of(facts: stages.LoweredFacts) -> Call:
    names = argument_names(None, len(facts.arguments))
    paths = tuple(names(argument.path) for argument in facts.arguments)
    return Call(paths, StageBinding(facts.name, facts.in_tree, facts.out_shape))


def _open_program(program: Program, platform: str | None) -> Lowered:
    """Opens a program that was lowered before, possibly in another process, with its arguments and results."""
    _check_platform(program, platform)
    program.check_compilable()
    return assemble(program, isolated_reading.read(program.module, "StableHLO"), None, None)


def _open_hlo(compiled: CompiledProgram) -> Lowered:
    """Opens a compiled program that has no StableHLO."""
    assert compiled.program.no_stablehlo is not None, "as the caller checked"
    source = SourceHlo(compiled.hlo.partition("\n")[0], compiled.hlo_proto)
    lowered = without_stablehlo(source, compiled.hlo, compiled.program.platform, compiled.program.no_stablehlo)
    return deferred.replace(lowered, program=compiled.program)


def _check_platform(program: Program, platform: str | None) -> None:
    if platform not in (None, program.platform):
        raise ParameterError(
            f"{program.name} is lowered for {program.platform}; platform={short(platform)} cannot change it. Lower the function again."
        )


def _open_module(
    module: bytes | str, language: isolated_reading.Language, platform: str | None, choice: Choice = _WHOLE
) -> Lowered:
    platform = platforms.named(platform or attached_devices.attached_platform()).name
    try:
        contents = isolated_reading.read(
            module, language, choice.entry if language == "StableHLO" else None, without_hlo=True
        )
    except ModuleError as e:
        if language != "HLO":
            raise
        read = isolated_reading.read_hlo(module)  # raises the error of a module that cannot be read either
        return without_stablehlo(read.source, read.text, platform, not_convertible(e, read.source))
    if contents.no_hlo:
        return _text_only(contents, platform)
    settled = settle(contents, platform)
    return assemble(_module_program(settled, platform), settled.contents, None, None, notes=settled.notes)


def _text_only(contents: Contents, platform: str) -> Lowered:
    """Returns StableHLO that XLA cannot convert to HLO as a `Lowered` that can be shown as text."""
    facts = contents.facts
    why = Unavailable(_without_position(contents.no_hlo), "only the StableHLO is available")
    sizes = [math.prod(sizes) for _, sizes, _ in facts.meshes]
    partitions = facts.num_partitions or (sizes[0] if len(set(sizes)) == 1 else 1)
    options = Options(num_replicas=facts.num_replicas or 1, num_partitions=partitions)
    settled = Settled(contents, options, None, frozenset(), is_optimized=False, notes=())
    program = dataclasses.replace(_module_program(settled, platform), no_hlo=why)
    lowered = assemble(program, contents, None, None)
    return deferred.replace(lowered, hlo=why, hlo_proto=b"")


_AT = re.compile(r"UNKNOWN: -:(\d+):(\d+): error: (.*)")


def _without_position(error: str) -> str:
    """Returns the first line of MLIR's error, with the position in words at its end."""
    first = error.partition("\n")[0].rstrip(".")
    text = _AT.sub(lambda match: f"{match[3]} (line {match[1]}, column {match[2]})", first)
    return text[0].lower() + text[1:] if text.startswith("The ") else text


def _module_program(settled: Settled, platform: str) -> Program:
    facts = settled.contents.facts
    return Program(
        name=facts.name,
        module=settled.contents.stablehlo,
        arguments=tuple(
            Argument(f"arg{i}", shape, _numpy_dtype(t), i, i in settled.donated, memory_kind=facts.parameter_memories[i])
            for i, (shape, t) in enumerate(facts.parameters)
        ),
        results=tuple(
            Result(f"[{i}]" if len(facts.results) > 1 else "", shape, _numpy_dtype(t), memory_kind=facts.result_memories[i])
            for i, (shape, t) in enumerate(facts.results)
        ),
        options=settled.options,
        mesh=settled.mesh,
        platform=platform,
        is_optimized=settled.is_optimized,
    )  # fmt: skip


def _open_exported(exported: Any, platform: str | None) -> Lowered:
    if any(not isinstance(d, int) for aval in exported.in_avals for d in aval.shape):
        raise ParameterError(
            f"{exported.fun_name} is exported with symbolic dimensions. Lower it at concrete shapes:"
            " lower(jax.jit(exported.call), *args)."
        )
    if len(exported.platforms) > 1:
        raise ParameterError(
            f"{exported.fun_name} is exported for {exported.platforms}. Export it for one platform, or lower"
            " jax.jit(exported.call) with example arguments."
        )
    if platform is not None and platforms.named(platform).lowering not in exported.platforms:
        raise ParameterError(f"{exported.fun_name} is exported for {exported.platforms[0]}, not for {platform}.")
    return _open_module(exported.mlir_module_serialized, "StableHLO", exported.platforms[0])


def from_traced(
    traced: stages.Traced, fun: Any, platform: str | None, call: Call | None = None, overrides: Overrides | None = None
) -> Lowered:
    """Lowers a traced function.

    Args:
      traced: the traced function.
      fun: the function, for its source; None if not known.
      platform: the platform to lower for; None for JAX's default backend.
      call: the call that was traced, if known.
      overrides: changes to the call and to its Pallas kernels.
    """
    platform = platform or attached_devices.attached_platform()
    overrides = overrides or Overrides()
    traced = stages.with_arguments_anywhere(with_changes(traced, overrides.choose))
    if overrides.what_if:
        traced = changed_call(traced, call.paths if call else _paths_of(traced), overrides.what_if)
    names = (platforms.named(platform).lowering,)
    again = overrides.reevaluation
    with reevaluation_context(again):
        if again is not None:
            traced, overrides.logged = reevaluated_call(traced, again)
        started = time.perf_counter()
        lowered = traced.lower(lowering_platforms=names)
        timings = {"lower_s": time.perf_counter() - started}
    given = stages.given_shardings(traced)
    result = _from_lowered(lowered, stages.traced_facts(traced, MAX_STEPS), fun, platform, call, overrides, given)
    return deferred.replace(result, timings=timings)


def _from_lowered(
    lowered: stages.Lowered, jaxpr: JaxprFacts | None, fun: Any, platform: str, call: Call | None = None,
    overrides: Overrides | None = None, given: Sequence[str] = (),
) -> Lowered:  # fmt: skip
    """Returns the lowered program. `given` has the shardings of all arrays of the call, also of those that JAX dropped."""
    facts = stages.lowered_facts(lowered)
    if facts.hoisted:
        raise LoweringError(
            f"The lowered module has {facts.hoisted} parameters that are not arguments of the function (hoisted constants),"
            " which inspector cannot pass. Set jax_use_simplified_jaxpr_constants=False."
        )
    call = call or _call_of(facts)
    contents, shardings = stages.contents(lowered), dict(enumerate(given))
    mesh = _partition_mesh(facts, contents.facts, jaxpr)
    num_partitions = max(facts.device_count, mesh.size if mesh else 1, contents.facts.num_partitions or 1)
    device_ids = _device_ids(facts, num_partitions, platform)
    tokens = len(contents.facts.results) - len(facts.results)  # of ordered effects, which come first
    program = Program(
        name=facts.name,
        module=contents.stablehlo,
        arguments=tuple(
            Argument(
                path,
                a.shape,
                a.dtype,
                a.parameter,
                a.donated,
                a.weak_type,
                shardings.get(number, "") if a.parameter is None else a.sharding,
                "" if a.parameter is None else contents.facts.parameter_memories[a.parameter],
            )
            for number, (path, a) in enumerate(zip(call.paths, facts.arguments, strict=True))
        ),
        results=tuple(
            Result(call.result_names.get(name := result_name(r.path), name), r.shape, r.dtype, r.sharding, kind)
            for r, kind in zip(facts.results, contents.facts.result_memories[tokens:], strict=True)
        ),
        options=Options(
            num_replicas=1,
            num_partitions=num_partitions,
            use_spmd_partitioning=True,
            use_shardy_partitioner=configuration.uses_shardy(),
            allow_spmd_sharding_propagation_to_parameters=facts.propagate_to_parameters,
            allow_spmd_sharding_propagation_to_output=facts.propagate_to_results,
        ),
        mesh=placed(mesh, device_ids),
        platform=platform,
        host_callbacks=facts.callbacks is not None,
        callbacks=facts.callbacks,
        binding=call.binding,
        device_ids=device_ids,
    )
    return assemble(
        program, contents, jaxpr, fun, out_shape=facts.out_shape, overrides=overrides,
        notes=(*call.notes, *_mesh_notes(facts.meshes), *(overrides.notes if overrides else ())),
    )  # fmt: skip


def _paths_of(traced: stages.Traced) -> tuple[str, ...]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(traced.args_info)
    names = argument_names(None, len(traced.args_info[0]))
    return tuple(names(path) for path, _ in leaves)


def _mesh_notes(facts: Sequence[MeshFacts]) -> tuple[str, ...]:
    """Returns a note for users who replaced `Mesh` by `AbstractMesh`: its axis types differ, and so may the program."""
    if AxisType.Explicit not in AbstractMesh((1,), ("i",)).axis_types:
        return ()  # this JAX makes them Auto by default, so other types were chosen by the user
    meshes = [mesh for mesh in facts if math.prod(mesh.axis_sizes) > 1]
    if not meshes or not all(mesh.is_abstract for mesh in meshes):
        return ()
    if any(mesh.axis_types != {AxisType.Explicit.name} for mesh in meshes):
        return ()
    note = (
        "the axes of an AbstractMesh are Explicit axes by default and those of a Mesh are Auto, so the programs may differ; for"
        f" Auto axes, use AbstractMesh(..., axis_types=(AxisType.Auto,) * {len(meshes[0].axis_names)})"
    )
    return (note,)


def _partition_mesh(
    facts: stages.LoweredFacts, module_facts: stablehlo.ModuleFacts, jaxpr: JaxprFacts | None
) -> Mesh | None:
    """Returns the JAX mesh of the partitions: that of the shardings, or else that of a `shard_map`."""
    inner = () if jaxpr is None or jaxpr.mesh is None else (jaxpr.mesh,)
    for mesh in (*facts.meshes, *inner):
        if math.prod(mesh.axis_sizes) > 1:
            return Mesh(mesh.axis_names, mesh.axis_sizes, "partition")
    for names, sizes, ids in module_facts.meshes:
        if math.prod(sizes) > 1:
            return Mesh(names, sizes, "partition", ids)
    return None


def _device_ids(facts: stages.LoweredFacts, num_partitions: int, platform: str) -> tuple[int, ...] | None:
    """Returns the ids of the devices that the function names, by partition; None if it names none.

    Devices of another platform in their default order do not count as named: a mesh of the first CPUs can stand for any
    TPUs.
    """
    ids = facts.device_ids
    if ids is None or len(ids) != num_partitions:
        return None
    is_usual = facts.device_platform != platforms.named(platform).name and ids == tuple(range(len(ids)))
    return None if is_usual else ids


def _numpy_dtype(mlir_type: str) -> str:
    return stablehlo.NUMPY_DTYPES.get(mlir_type, mlir_type)
