"""JAX's CUDA plugin on a machine without a GPU (`ahead_of_time.Plugin`): its library, compiler tools and GPU descriptions.

XLA compiles for a GPU from its description, a `stream_executor.GpuTargetConfigProto`. The library of the plugin for JAX
0.12 contains these descriptions; `gpu_configs/` contains the same ones (OpenXLA, Apache 2.0) for plugins without
them. This module imports nothing from the plugin's package, because that import looks for a driver.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from jaxlib import _jax, xla_client

from inspector._jax.compiling.report import Early, EarlyReport, Report
from inspector._jax.compiling.slices import Slice
from inspector._jax.libraries.descriptors import installed_descriptors
from inspector._jax.libraries.library import cached_of
from inspector._jax.values import Facts
from inspector.errors import CompilationError, TargetError, Unavailable
from inspector.platforms import CUDA, Chip
from inspector.support import deferred, packages
from inspector.support.install_commands import install_command, sentence

if TYPE_CHECKING:
    from inspector._jax.compiling.compiler import Compiler, Watch

_FOLDER = Path(__file__).parent / "gpu_configs"
_BEGIN = re.compile(rb"gpu_device_info\s*:?\s*\{")
_GENERATIONS = ("cuda13", "cuda12")

_DATA_FOLDER_FLAG = "xla_gpu_cuda_data_dir"

# Fragments of XLA's error messages, and the reason for each.
_LACKING = {
    "No FFI handler registered for": "calls one of NVIDIA's libraries (cuSOLVER, cuDNN ...)",
    "_mosaic_gpu": "has a Pallas kernel for Mosaic GPU, whose runtime is a part of JAX's CUDA packages",
}

_EXTRA = "jax-inspector[cuda]"


def missing() -> Unavailable | None:
    """Returns why no GPU can be compiled for on this machine, None if one can. Loads nothing."""
    library = plugin_library()
    return library if isinstance(library, Unavailable) else None


def shortcoming() -> str:
    """Reports that machine code is missing, if there is no assembler; "" otherwise. Loads nothing."""
    tools = toolkit()
    return f"{tools.reason}. {sentence(tools.remedy)}" if isinstance(tools, Unavailable) else ""


def refusal(chip: Chip) -> str:
    """Returns why the installed CUDA does not compile for a GPU, "" if it does. Loads nothing."""
    installed = ptxas_version()
    first, last = chip.toolkits or (0, installed)
    return "" if first <= installed <= last else f"the installed CUDA {installed} does not compile for it"


def plugin_library() -> Path | Unavailable:
    """Returns the plugin's shared library, or why there is none."""
    for generation in _GENERATIONS:
        folder = _package_folder("jax_plugins", f"xla_{generation}")
        library = folder / "xla_cuda_plugin.so" if folder else None
        if library is not None and library.exists():
            return library
    return Unavailable("JAX's CUDA plugin is not installed", install_command(_EXTRA))


def version() -> str:
    """Returns the versions of the plugin and of its CUDA compiler, as text; "" without a plugin."""
    names = ("jax-cuda13-pjrt", "jax-cuda12-pjrt", "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12")
    return ", ".join(f"{name} {installed}" for name in names if (installed := packages.version(name)))


def toolkit() -> Path | Unavailable:
    """Returns the installed package folder that has `bin/ptxas` and `nvvm/libdevice`; never the machine's own toolkit."""
    for parts in (("nvidia", "cu13"), ("nvidia", "cuda_nvcc")):
        folder = _package_folder(*parts)
        if folder and (folder / "bin" / "ptxas").exists() and (folder / "nvvm" / "libdevice").exists():
            return folder
    return Unavailable(
        "the CUDA assembler (ptxas) is not installed, so there is no machine code", install_command(_EXTRA)
    )


def ptxas_version() -> int:
    """Returns the major version of the installed CUDA assembler package, 0 without one."""
    tools = toolkit()
    return 0 if isinstance(tools, Unavailable) else 13 if tools.name == "cu13" else 12


def hide_machine_toolkit() -> None:
    """Removes the machine's own CUDA toolkit from this process's environment. For workers only."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_DIR", "TF_CUDA_TOOLKIT_PATH"):
        os.environ.pop(name, None)
    folders = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(f for f in folders if not (Path(f) / "ptxas").exists())


def load() -> None:
    """Loads the plugin into this process; no GPU is needed.

    Raises:
      TargetError: the plugin is not installed or fails to load.
    """
    if xla_client.pjrt_plugin_loaded(CUDA.lowering):
        return
    library = plugin_library()
    if isinstance(library, Unavailable):
        raise TargetError(f"Cannot compile for a GPU: {library.reason}. {sentence(library.remedy)}")
    try:
        xla_client.load_pjrt_plugin_dynamically(CUDA.lowering, str(library))
    except Exception as e:
        raise TargetError(f"JAX's CUDA plugin {library} failed to load: {e}") from e


def name_mosaic_runtime() -> None:
    """Names the runtime of Pallas kernels to XLA, as JAX does when Mosaic is imported: a worker may have started before that."""
    for generation in _GENERATIONS:
        for folder in packages.folders(f"jax_{generation}_plugin"):
            library = folder / "libmosaic_gpu_runtime.so"
            if library.exists():
                os.environ.setdefault("MOSAIC_GPU_RUNTIME_LIB_PATH", str(library))


def prepare(load_args: Sequence[str]) -> None:  # noqa: ARG001 - the plugin reads none
    """Loads the plugin into this process, without the machine's own toolkit. For workers only.

    Raises:
      TargetError: the plugin is not installed or fails to load.
    """
    hide_machine_toolkit()
    name_mosaic_runtime()
    load()


def devices(slice_: Slice) -> list[Any]:
    """Returns the GPUs of a slice, host by host.

    Raises:
      TargetError: the plugin is not installed or rejects these GPUs.
    """
    load()
    chip, (hosts, per_host) = CUDA.chip(slice_.chip), slice_.topology
    description = slice_.chip if chip is None else chip.device_kind
    options = {"target_config": configuration(description), "topology": f"1x{hosts}x{per_host}"}
    try:
        return list(_jax.get_default_c_api_topology(CUDA.lowering, "", options)._make_compile_only_devices())
    except Exception as e:
        raise TargetError(f"JAX's CUDA plugin rejected {hosts} x {per_host} {description}: {e}") from e


def compile_with(
    compile_: Callable[..., tuple[Any, Report]], module: bytes, build_options: Mapping[str, Any],
    watch: Watch | None, compiler: Compiler, **rest: Any,
) -> tuple[Any, Report]:  # fmt: skip
    """Calls `compile_` with the installed packages' tools; without an assembler, returns the report from before code generation.

    Raises:
      CompilationError: XLA rejects the program; names the missing library if that is the reason.
    """
    tools, flags = toolkit(), dict(build_options.get("flags") or {})
    # Otherwise XLA would look for the machine's own toolkit.
    flags.setdefault(_DATA_FOLDER_FLAG, "/nonexistent" if isinstance(tools, Unavailable) else str(tools))
    early = Early()

    def take(report: EarlyReport) -> None:
        early.report = report
        if watch is not None and watch.take is not None:
            watch.take(report)

    def counted(cost: Facts | Unavailable) -> None:
        early.cost = cost
        if watch is not None and watch.counted is not None:
            watch.counted(cost)

    watching = None if watch is None else dataclasses.replace(watch, take=take, counted=counted)
    try:
        executable, report = compile_(module, {**build_options, "flags": flags}, watch=watching, **rest)
    except CompilationError as error:
        lacking = next((what for words, what in _LACKING.items() if words in str(error)), None)
        if lacking is not None:
            raise CompilationError(
                f"{error} The program {lacking}, which is not available for GPUs that are not attached. Compile it"
                " on a machine with a GPU, for the target 'attached'."
            ) from error
        if not isinstance(tools, Unavailable) or early.report is None:
            raise
        return None, _without_code(early.report, early.cost, compiler.versions, tools)
    if isinstance(tools, Unavailable):  # XLA used the machine's own toolkit: other machines have none or another one
        report = deferred.replace(report, executable=tools)
    return executable, report


def _without_code(
    early: EarlyReport, cost: Facts | Unavailable | None, versions: Mapping[str, str], reason: Unavailable
) -> Report:
    return Report(
        hlo=early.hlo,
        hlo_proto=early.hlo_proto,
        memory=Unavailable("no machine code was generated"),
        cost=Unavailable("counting the operations failed") if cost is None else cost,
        executable=reason,
        timings={},
        versions=versions,
        devices=early.devices,
        buffer_assignment=early.buffer_assignment,
    )


def configuration(description: str) -> str:
    """Returns the `GpuTargetConfigProto` of a GPU in protobuf's text form, without fields that the installed XLA lacks.

    Args:
      description: its `device_description_str`, for example "NVIDIA H100 80GB HBM3".

    Raises:
      TargetError: the GPU is unknown.
    """
    known = configurations()
    if description not in known:
        raise TargetError(f"There is no configuration for {description}. Known GPUs: {', '.join(sorted(known))}.")
    return str(text_format.MessageToString(_parse(known[description])))


@functools.cache
def configurations() -> dict[str, str]:
    """Returns text forms by device description: the plugin's own, or those of `gpu_configs/` if the plugin has none."""
    library = plugin_library()
    embedded: dict[str, str] = {}
    if not isinstance(library, Unavailable):
        embedded = json.loads(
            cached_of(library, "gpu-configs", version().partition(",")[0].replace(" ", "-"), _embedded)
        )
    return embedded or _by_description(file.read_text() for file in sorted(_FOLDER.glob("*.txtpb")))


def _embedded(library: Path) -> bytes:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        texts = []
        for match in _BEGIN.finditer(data):
            text = data[data.rfind(b"\0", 0, match.start()) + 1 : data.find(b"\0", match.end())]
            texts.append(text.decode(errors="replace"))
    return json.dumps(_by_description(texts)).encode()


def _by_description(texts: Iterable[str]) -> dict[str, str]:
    by_description = {}
    for text in texts:
        try:
            parsed = _parse(text)
        except text_format.ParseError:  # another vendor's, in a newer schema
            continue
        if parsed.platform_name == "CUDA" and parsed.device_description_str:
            by_description[parsed.device_description_str] = text
    return by_description


def _parse(text: str) -> Any:
    return text_format.Parse(text, _message()(), allow_unknown_field=True)


@functools.cache
def _message() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(installed_descriptors()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("stream_executor.GpuTargetConfigProto"))


def _package_folder(package: str, name: str) -> Path | None:
    return next((folder / name for folder in packages.folders(package) if (folder / name).is_dir()), None)
