"""What the installed jaxlib says of its compiler: options and their defaults, descriptions, passes.

Everything is read when first asked for and kept for the process; on disk it is kept per jaxlib.
"""

from __future__ import annotations

import functools
from typing import Any

from inspector.errors import OptionError, Unavailable
from inspector.support.install_commands import install_command, sentence
from inspector.toolchain.schema import installed_schema


def options_message() -> Any:
    """An empty `xla.CompileOptionsProto` of the installed jaxlib."""
    return installed_schema().message("xla.CompileOptionsProto")()


@functools.cache
def default_options() -> Any:
    """XLA's own defaults as an `xla.CompileOptionsProto`, or `Unavailable`. Not to be changed."""
    from inspector._jax.libraries.flag_defaults import installed_defaults

    data = installed_defaults()
    return data if isinstance(data, Unavailable) else type(options_message()).FromString(data)


def jax_options() -> Any:
    """What JAX in this process would tell XLA for one device, as an `xla.CompileOptionsProto`.

    Raises:
      OptionError: JAX is not installed.
    """
    try:
        from inspector._jax.compiling.compile_options import unsaid_options
    except ImportError as e:
        raise OptionError(
            f"What is not said in these options, JAX says, and it cannot be imported ({e})."
            f" {sentence(install_command('jax'))}"
        ) from e
    return type(options_message()).FromString(unsaid_options())


@functools.cache
def descriptions() -> dict[str, str] | Unavailable:
    """Descriptions by flag name, of the flags that have one."""
    from inspector._jax.libraries.flag_descriptions import installed_descriptions

    return installed_descriptions([field.name for field in debug_options_type().fields])


@functools.cache
def pass_names() -> frozenset[str] | Unavailable:
    """Passes whose name is a constant in the library, among names of other things."""
    from inspector._jax.libraries.pass_names import constant_names

    return constant_names()


@functools.cache
def passes_run() -> frozenset[str] | Unavailable:
    """Passes and pipelines that XLA was seen to run on the CPU. Takes seconds the first time."""
    from inspector._jax.libraries.pass_names import observed_names

    return observed_names()


def debug_options_type() -> Any:
    """The descriptor of `xla.DebugOptions`."""
    return installed_schema().message("xla.DebugOptions").DESCRIPTOR
