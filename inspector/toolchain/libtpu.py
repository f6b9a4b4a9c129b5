"""Options and passes of the installed libtpu, as `xla.py` has them for jaxlib.

Everything is read at first use and cached for the process; the disk cache has an entry per libtpu.
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
    """Returns the version of the installed libtpu; "" if it is not known."""
    return installed.libtpu_version()


@functools.cache
def libtpu_options() -> LibtpuOptions | Unavailable:
    """Returns the options of libtpu without their defaults. Takes a few seconds the first time for each libtpu."""
    from inspector._jax.libraries.libtpu_flags import libtpu_options

    return libtpu_options()


def default_texts() -> Mapping[str, str] | Unavailable:
    """Returns defaults by option, as in LIBTPU_INIT_ARGS. Takes seconds the first time."""
    defaults = _defaults()
    return defaults if isinstance(defaults, Unavailable) else defaults[0]


def enum_words() -> Mapping[str, list[str]] | Unavailable:
    """Returns the words of enums, by C++ type. Takes seconds the first time."""
    defaults = _defaults()
    return defaults if isinstance(defaults, Unavailable) else defaults[1]


@functools.cache
def pass_names() -> frozenset[str] | Unavailable:
    """Returns candidate pass names: constants in libtpu, which include names of other things."""
    from inspector._jax.libraries.pass_names import constant_libtpu_names

    return constant_libtpu_names()


@functools.cache
def passes_run() -> frozenset[str] | Unavailable:
    """Returns the passes and pipelines that libtpu runs in a sample compile. Takes seconds the first time."""
    from google.protobuf import text_format

    from inspector._jax.libraries.pass_names import libtpu_passes

    written = libtpu_passes()
    if isinstance(written, Unavailable):
        return written
    names: set[str] = set()
    for text in written:
        message: Any = text_format.Parse(text, libtpu_message("xla.HloModuleMetadataProto")())
        names.update(name for entry in message.pass_metadata for name in (entry.pass_name, entry.pipeline_name))
    return frozenset(names)


def libtpu_message(full_name: str) -> type[Message]:
    """Returns the class of a message in libtpu's options.

    Raises:
      ModuleError: libtpu has no such message.
    """
    return _schema().message(full_name)


@functools.cache
def _schema() -> Schema:
    from inspector._jax.libraries.libtpu_flags import libtpu_descriptors

    return Schema(libtpu_descriptors(), f"libtpu {libtpu_version()}")


@functools.cache
def _defaults() -> tuple[dict[str, str], dict[str, list[str]]] | Unavailable:
    from inspector._jax.libraries.libtpu_defaults import libtpu_defaults

    options = libtpu_options()
    return options if isinstance(options, Unavailable) else libtpu_defaults(options.flags)
