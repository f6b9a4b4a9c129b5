"""Options of the installed jaxlib's compiler with defaults and descriptions, and its passes.

Everything is read at first use and cached for the process; the disk cache has an entry per jaxlib.
"""

from __future__ import annotations

import functools
from typing import Any

from inspector.errors import OptionError, Unavailable
from inspector.support.install_commands import install_command, sentence
from inspector.toolchain.schema import installed_schema


def options_message() -> Any:
    """Returns an empty `xla.CompileOptionsProto` of the installed jaxlib."""
    return installed_schema().message("xla.CompileOptionsProto")()


@functools.cache
def default_options() -> Any:
    """Returns XLA's defaults as an `xla.CompileOptionsProto`, or `Unavailable`. Callers must not change the message."""
    from inspector._jax.libraries.flag_defaults import installed_defaults

    data = installed_defaults()
    return data if isinstance(data, Unavailable) else type(options_message()).FromString(data)


def jax_options() -> Any:
    """Returns the options that JAX in this process passes to XLA for one device, as an `xla.CompileOptionsProto`.

    Raises:
      OptionError: JAX is not installed.
    """
    try:
        from inspector._jax.compiling.compile_options import unsaid_options
    except ImportError as e:
        raise OptionError(
            f"Options that are not set come from JAX, which cannot be imported ({e})."
            f" {sentence(install_command('jax'))}"
        ) from e
    return type(options_message()).FromString(unsaid_options())


@functools.cache
def descriptions() -> dict[str, str] | Unavailable:
    """Returns descriptions by flag name, of the flags that have one."""
    from inspector._jax.libraries.flag_descriptions import installed_descriptions

    return installed_descriptions([field.name for field in debug_options_type().fields])


@functools.cache
def pass_names() -> frozenset[str] | Unavailable:
    """Returns candidate pass names: constants in jaxlib, which include names of other things."""
    from inspector._jax.libraries.pass_names import constant_names

    return constant_names()


@functools.cache
def passes_run() -> frozenset[str] | Unavailable:
    """Returns the passes and pipelines that XLA runs in a sample compile on the CPU. Takes seconds the first time."""
    from inspector._jax.libraries.pass_names import observed_names

    return observed_names()


def debug_options_type() -> Any:
    """Returns the descriptor of `xla.DebugOptions`."""
    return installed_schema().message("xla.DebugOptions").DESCRIPTOR
