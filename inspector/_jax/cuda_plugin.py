"""JAX's CUDA plugin on a machine without a GPU: its library, its compiler's tools, its GPU descriptions.

XLA compiles for a GPU that it knows from a `stream_executor.GpuTargetConfigProto`. The plugin of JAX
0.12 holds such texts in its library; those in `gpu_configs/` are the same (OpenXLA, Apache 2.0), for plugins
that hold none. Importing the plugin's package would look for a driver, so nothing of it is imported.
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from jaxlib import xla_client

from inspector import packages
from inspector._jax.descriptors import installed_descriptors
from inspector._jax.library import cached_of
from inspector.errors import TargetError, Unavailable

_FOLDER = Path(__file__).parent / "gpu_configs"
_BEGIN = re.compile(rb"gpu_device_info\s*:?\s*\{")
_GENERATIONS = ("cuda13", "cuda12")

REMEDY = "pip install 'jax-inspector[cuda]'"


def plugin_library() -> Path | Unavailable:
    """The plugin's shared library, or why there is none."""
    for generation in _GENERATIONS:
        folder = _package_folder("jax_plugins", f"xla_{generation}")
        library = folder / "xla_cuda_plugin.so" if folder else None
        if library is not None and library.exists():
            return library
    return Unavailable("JAX's CUDA plugin is not installed", REMEDY)


def plugin_version() -> str:
    """Of the plugin and of the CUDA compiler beside it, as text; "" when there is no plugin."""
    names = ("jax-cuda13-pjrt", "jax-cuda12-pjrt", "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12")
    return ", ".join(f"{name} {version}" for name in names if (version := packages.version(name)))


def toolkit() -> Path | Unavailable:
    """The folder of the installed packages with `bin/ptxas` and `nvvm/libdevice`; never the machine's own toolkit."""
    for parts in (("nvidia", "cu13"), ("nvidia", "cuda_nvcc")):
        folder = _package_folder(*parts)
        if folder and (folder / "bin" / "ptxas").exists() and (folder / "nvvm" / "libdevice").exists():
            return folder
    return Unavailable("the CUDA assembler (ptxas) is not installed, so there is no machine code", REMEDY)


def ptxas_version() -> int:
    """The major version of CUDA's assembler among the installed packages, 0 without one."""
    tools = toolkit()
    return 0 if isinstance(tools, Unavailable) else 13 if tools.name == "cu13" else 12


def hide_machine_toolkit() -> None:
    """Takes what a machine's own CUDA toolkit brings out of this process's environment. For workers only."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_DIR", "TF_CUDA_TOOLKIT_PATH"):
        os.environ.pop(name, None)
    folders = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(f for f in folders if not (Path(f) / "ptxas").exists())


def load() -> None:
    """Loads the plugin into this process, which need not have a GPU.

    Raises:
      TargetError: it is not installed, or does not load.
    """
    if xla_client.pjrt_plugin_loaded("cuda"):
        return
    library = plugin_library()
    if isinstance(library, Unavailable):
        raise TargetError(f"No GPU can be compiled for: {library.reason}. {library.remedy}")
    try:
        xla_client.load_pjrt_plugin_dynamically("cuda", str(library))
    except Exception as e:
        raise TargetError(f"JAX's CUDA plugin {library} does not load: {e}") from e


def configuration(description: str) -> str:
    """The `GpuTargetConfigProto` of a GPU in protobuf's text form, without fields that the installed XLA lacks.

    Args:
      description: its `device_description_str`, such as "NVIDIA H100 80GB HBM3".

    Raises:
      TargetError: no such GPU is known.
    """
    known = configurations()
    if description not in known:
        raise TargetError(f"No configuration of a {description} is known; there are {', '.join(sorted(known))}.")
    return str(text_format.MessageToString(_parse(known[description])))


@functools.cache
def configurations() -> dict[str, str]:
    """Text forms by description: the plugin's own, else those of `gpu_configs/`."""
    library = plugin_library()
    embedded: dict[str, str] = {}
    if not isinstance(library, Unavailable):
        embedded = json.loads(
            cached_of(library, "gpu-configs", plugin_version().partition(",")[0].replace(" ", "-"), _embedded)
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
    found = {}
    for text in texts:
        try:
            parsed = _parse(text)
        except text_format.ParseError:  # another vendor's, of a newer schema
            continue
        if parsed.platform_name == "CUDA" and parsed.device_description_str:
            found[parsed.device_description_str] = text
    return found


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
