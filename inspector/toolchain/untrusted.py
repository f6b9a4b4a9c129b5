"""The options that a page or a file may use: those that cannot make a compiler access files or pass arguments on.

Pages and files may come from untrusted sources. Compilers read, write and load the files that their options name, with the
rights of the user, and some options are command lines of other programs (`ptxas`, LLVM). XLA's schema does not mark these
options, so this module is an allowlist. Switches, numbers and choices are allowed by type, except those that start dumps and
logs. Text options are allowed only if they are reviewed and listed below. The user's own Python may use every option.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspector.errors import ModuleError, OptionError, UnknownFlagError, cut
from inspector.toolchain.flags import OPTION_FIELDS, check_value, flag_field, flag_type
from inspector.toolchain.flags.types import libtpu_flags
from inspector.toolchain.libtpu import libtpu_message

_SCALARS = frozenset({"bool", "int32", "int64", "uint32", "uint64", "float", "double", "enum"})

# Names of passes, regular expressions over names, durations, instruction sets and short lists of numbers. None of them
# names a file, in the compilers or in programs that they start.
_TEXTS = frozenset({
    "config_criterion", "loop_invert", "rematerialization_algorithm", "xla_cpu_max_isa", "xla_disable_hlo_passes",
    "xla_dump_emitter_re", "xla_dump_hlo_module_re", "xla_dump_hlo_pass_re", "xla_dump_hlo_pipeline_re",
    "xla_enable_hlo_passes_only", "xla_explicit_disable_passes", "xla_explicit_enable_passes",
    "xla_gpu_analytical_latency_estimator_options", "xla_gpu_device_execution_terminate_timeout",
    "xla_gpu_execution_terminate_timeout", "xla_gpu_experimental_cost_model_gemm_tiling_options",
    "xla_jf_bounds_check", "xla_sc_assert_level", "xla_tpu_accumulator_transformations",
    "xla_tpu_alternate_memory_benefit_scaling_factor_for_large_buffers", "xla_tpu_enable_mosaic_emitters",
})  # fmt: skip
# No quotes, spaces or slashes: some values are passed in environment variables, together with other flags.
_TEXT = re.compile(r"[\w.,:;=*+?^$|()\[\]{}-]{0,1000}", re.ASCII)

# Switches and numbers with one of these words write files to a location that another option names, or to the current folder.
_FILE_WORDS = frozenset({"dump", "dumps", "dumped", "file", "files", "logfile", "recorder", "save"})
_DUMP_TO = "xla_dump_to"
_DUMP_PREFIXES = ("xla_dump_", "xla_gpu_")  # these write below xla_dump_to
_SHOWN = 200


def check_untrusted(options: Mapping[str, Any], folder: str = "") -> None:
    """Refuses options that could make a compiler access files or pass arguments on to another program.

    Args:
      options: options by name, as in `Options.as_dict`.
      folder: the folder below which dumps may be written; "" for none.

    Raises:
      OptionError: an option that is not on the allowlist, with the reason.
      UnknownFlagError, FlagTypeError: an option that the installed compilers do not have, or a value of a wrong type.
    """
    for name, value in options.items():
        if reason := why_untrusted(name, value, options, folder):
            raise OptionError(f"{name} {reason}")


def why_untrusted(name: str, value: object, options: Mapping[str, Any], folder: str = "") -> str:
    """Returns why an option is rejected, as the rest of a sentence that begins with its name; "" if it is allowed.

    Args:
      name: the option's exact name.
      value: its value.
      options: all options of the same request.
      folder: the folder below which dumps may be written; "" for none.

    Raises:
      UnknownFlagError: the installed compilers do not have the option.
    """
    if name in OPTION_FIELDS:
        return ""
    if name == "extra_proto":
        return "is a serialized message that can carry any option."
    if name.startswith("-"):
        raise UnknownFlagError(f"Unknown flag {cut(name, _SHOWN)!r}. Write the name without dashes.")
    type_ = flag_type(name)
    if is_dump_place(name):
        return _why_not_below(value, folder)
    if not is_allowed(name):
        return (
            "can make the compiler access files or pass arguments on to another program: its type is"
            f" {type_}, and it is not on the list of reviewed options."
        )
    if value and not _FILE_WORDS.isdisjoint(name.split("_")) and not options.get(_DUMP_TO):
        return f"makes the compiler write files. Set their folder with {_DUMP_TO}."
    if name in _TEXTS and not _TEXT.fullmatch(str(value)):
        return f"is {cut(str(value), _SHOWN)!r}. From a page or a file, it may contain letters, digits and .,:;=*+?^$|()[]{{}}- only."
    check_value(name, value)
    return ""


def is_allowed(name: str) -> bool:
    """Reports whether a page or a file may use an option with a value of its type.

    Raises:
      UnknownFlagError: the installed compilers do not have the option.
    """
    type_ = flag_type(name)
    if not _FILE_WORDS.isdisjoint(name.split("_")) and not name.startswith(_DUMP_PREFIXES):
        return False
    if name in _TEXTS:
        return True
    return type_.kind in _SCALARS or _is_libtpus_choice(name) or (type_.kind == "message" and _has_no_text(name))


def is_dump_place(name: str) -> bool:
    """Reports whether an option names the file or folder to which a compiler writes dumps."""
    words = name.split("_")
    try:
        return "dump" in words and not {"to", "dir"}.isdisjoint(words) and flag_type(name).kind == "string"
    except UnknownFlagError:
        return False


def _is_libtpus_choice(name: str) -> bool:
    """Reports whether an option is an enum of libtpu, even if its words are unknown."""
    flag = libtpu_flags().get(name)
    return flag is not None and flag.kind == "enum"


@functools.cache
def _has_no_text(name: str) -> bool:
    """Reports whether a message contains only switches, numbers and choices, at all levels."""
    type_ = flag_type(name)
    if type_.home != "libtpu":
        return _only_numbers(flag_field(name).message_type, frozenset())
    try:
        return _only_numbers(libtpu_message(type_.message).DESCRIPTOR, frozenset())
    except ModuleError:  # its fields are not known
        return False


def _only_numbers(descriptor: Any, above: frozenset[str]) -> bool:
    if descriptor.full_name in above:
        return True
    seen = above | {descriptor.full_name}
    for field in descriptor.fields:
        if field.message_type is not None:
            if not _only_numbers(field.message_type, seen):
                return False
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            return False
    return True


def _why_not_below(value: object, folder: str) -> str:
    text = str(value)
    # Absolute, because "ram://", "-" and "sponge" have other meanings for a compiler.
    if not text or (folder and text.startswith("/") and Path(text).resolve().is_relative_to(Path(folder).resolve())):
        return ""
    return (
        f"makes the compiler write to {cut(text, _SHOWN)!r}. Pages and files may name only absolute paths below the dump directory"
        f" ({folder or 'not set'}). Set it with inspector.settings.update(dump_directory=...)."
    )
