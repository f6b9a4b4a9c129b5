"""What the installed libtpu says of itself: options and passes, as `xla.py` does for jaxlib.

Read when first asked for and kept for the process; on disk it is kept for each libtpu.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from inspector._jax.libraries import libtpu as installed
from inspector._jax.libraries.libtpu_flags import LibtpuFlag as LibtpuFlag
from inspector._jax.libraries.libtpu_flags import LibtpuOptions as LibtpuOptions
from inspector.errors import Unavailable
from inspector.toolchain.schema import Schema

EXTRA = installed.EXTRA
"""The requirement that installs libtpu."""


def libtpu_version() -> str:
    """The installed libtpu's version, "" where it is not known."""
    return installed.libtpu_version()


@functools.cache
def libtpu_options() -> LibtpuOptions | Unavailable:
    """The options of libtpu without their defaults. Takes a few seconds the first time for a libtpu."""
    from inspector._jax.libraries.libtpu_flags import libtpu_options

    return libtpu_options()


def default_texts() -> Mapping[str, str] | Unavailable:
    """Defaults by option, as they would be written in LIBTPU_INIT_ARGS. Takes seconds the first time."""
    asked = _asked()
    return asked if isinstance(asked, Unavailable) else asked[0]


def enum_words() -> Mapping[str, list[str]] | Unavailable:
    """The words that enums take, by C++ type. Takes seconds the first time."""
    asked = _asked()
    return asked if isinstance(asked, Unavailable) else asked[1]


@functools.cache
def pass_names() -> frozenset[str] | Unavailable:
    """Passes whose name is a constant in libtpu, among names of other things."""
    from inspector._jax.libraries.pass_names import constant_libtpu_names

    return constant_libtpu_names()


@functools.cache
def passes_run() -> frozenset[str] | Unavailable:
    """Passes and pipelines that libtpu was seen to run. Takes seconds the first time."""
    from google.protobuf import text_format

    from inspector._jax.libraries.pass_names import libtpu_passes

    written = libtpu_passes()
    if isinstance(written, Unavailable):
        return written
    found: set[str] = set()
    for text in written:
        message: Any = text_format.Parse(text, libtpu_message("xla.HloModuleMetadataProto")())
        found.update(name for entry in message.pass_metadata for name in (entry.pass_name, entry.pipeline_name))
    return frozenset(found)


def libtpu_message(full_name: str) -> type[Message]:
    """The class of a message in libtpu's options.

    Raises:
      ModuleError: libtpu has no such message.
    """
    return _schema().message(full_name)


@functools.cache
def _schema() -> Schema:
    from inspector._jax.libraries.libtpu_flags import libtpu_descriptors

    return Schema(libtpu_descriptors(), f"libtpu {libtpu_version()}")


@functools.cache
def _asked() -> tuple[dict[str, str], dict[str, list[str]]] | Unavailable:
    from inspector._jax.libraries.libtpu_defaults import libtpu_defaults

    options = libtpu_options()
    return options if isinstance(options, Unavailable) else libtpu_defaults(options.flags)
