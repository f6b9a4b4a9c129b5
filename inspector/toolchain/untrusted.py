"""The options that a page or a file may ask for: those that cannot make a compiler use files or pass arguments on.

Anybody may have made a page or a file. Compilers read, write and load the files that their options name, with the rights of the
user, and some options are command lines of other programs (`ptxas`, LLVM). XLA's schema does not tell these options apart, so
this is an allowlist: switches, numbers and choices by their type, except those that start dumps and logs; texts only if they are
reviewed and listed below. A user's own Python may use every option.
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
# names a file, in the compilers or in what they start.
_TEXTS = frozenset({
    "config_criterion", "loop_invert", "rematerialization_algorithm", "xla_cpu_max_isa", "xla_disable_hlo_passes",
    "xla_dump_emitter_re", "xla_dump_hlo_module_re", "xla_dump_hlo_pass_re", "xla_dump_hlo_pipeline_re",
    "xla_enable_hlo_passes_only", "xla_explicit_disable_passes", "xla_explicit_enable_passes",
    "xla_gpu_analytical_latency_estimator_options", "xla_gpu_device_execution_terminate_timeout",
    "xla_gpu_execution_terminate_timeout", "xla_gpu_experimental_cost_model_gemm_tiling_options",
    "xla_jf_bounds_check", "xla_sc_assert_level", "xla_tpu_accumulator_transformations",
    "xla_tpu_alternate_memory_benefit_scaling_factor_for_large_buffers", "xla_tpu_enable_mosaic_emitters",
})  # fmt: skip
# No quotes, spaces or slashes: some values travel in environment variables, among other flags.
_TEXT = re.compile(r"[\w.,:;=*+?^$|()\[\]{}-]{0,1000}", re.ASCII)

# Switches and numbers with one of these words write files to a place that another option names, or to the current folder.
_FILE_WORDS = frozenset({"dump", "dumps", "dumped", "file", "files", "logfile", "recorder", "save"})
_DUMP_TO = "xla_dump_to"
_DUMP_PREFIXES = ("xla_dump_", "xla_gpu_")  # these write below xla_dump_to
_SHOWN = 200


def check_untrusted(said: Mapping[str, Any], folder: str = "") -> None:
    """Refuses options that could make a compiler use files or pass arguments on to another program.

    Args:
      said: options by name, as `Options.as_dict` gives them.
      folder: below which dumps may be written; "" for nowhere.

    Raises:
      OptionError: an option that is not on the allowlist, with the reason.
      UnknownFlagError, FlagTypeError: an option that the installed compilers do not have, or a value of another type.
    """
    for name, value in said.items():
        if reason := why_untrusted(name, value, said, folder):
            raise OptionError(f"{name} {reason}")


def why_untrusted(name: str, value: object, said: Mapping[str, Any], folder: str = "") -> str:
    """The reason for which an option is refused, as the rest of a sentence that begins with its name; "" for none.

    Args:
      name: of the option, exactly as the compilers have it.
      value: its value.
      said: all options that come with it.
      folder: below which dumps may be written; "" for nowhere.

    Raises:
      UnknownFlagError: the installed compilers have no such option.
    """
    if name in OPTION_FIELDS:
        return ""
    if name == "extra_proto":
        return "is a serialized message that can carry any option."
    if name.startswith("-"):
        raise UnknownFlagError(f"There is no flag {cut(name, _SHOWN)!r}. Write the name without dashes.")
    type_ = flag_type(name)
    if is_dump_place(name):
        return _why_not_below(value, folder)
    if not is_allowed(name):
        return (
            "can make the compiler use files or pass arguments on to another program: its type is"
            f" {type_}, and it is not on the list of reviewed options."
        )
    if value and not _FILE_WORDS.isdisjoint(name.split("_")) and not said.get(_DUMP_TO):
        return f"makes the compiler write files: say where, with {_DUMP_TO}."
    if name in _TEXTS and not _TEXT.fullmatch(str(value)):
        return (
            f"is {cut(str(value), _SHOWN)!r}; a page or a file may use letters, digits and .,:;=*+?^$|()[]{{}}- in it."
        )
    check_value(name, value)
    return ""


def is_allowed(name: str) -> bool:
    """Reports whether a page or a file may use an option, given a value of its type.

    Raises:
      UnknownFlagError: the installed compilers have no such option.
    """
    type_ = flag_type(name)
    if not _FILE_WORDS.isdisjoint(name.split("_")) and not name.startswith(_DUMP_PREFIXES):
        return False
    if name in _TEXTS:
        return True
    return type_.kind in _SCALARS or _is_libtpus_choice(name) or (type_.kind == "message" and _has_no_text(name))


def is_dump_place(name: str) -> bool:
    """Reports whether an option names the file or folder into which a compiler writes its dumps."""
    words = name.split("_")
    try:
        return "dump" in words and not {"to", "dir"}.isdisjoint(words) and flag_type(name).kind == "string"
    except UnknownFlagError:
        return False


def _is_libtpus_choice(name: str) -> bool:
    """Reports whether libtpu takes one of a few words, even where it does not list them."""
    flag = libtpu_flags().get(name)
    return flag is not None and flag.kind == "enum"


@functools.cache
def _has_no_text(name: str) -> bool:
    """Reports whether a message consists of switches, numbers and choices all the way down."""
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
    # Absolute, because a compiler takes "ram://", "-" and "sponge" for something else.
    if not text or (folder and text.startswith("/") and Path(text).resolve().is_relative_to(Path(folder).resolve())):
        return ""
    return (
        f"makes the compiler write to {cut(text, _SHOWN)!r}. Requests of pages may name absolute paths below a folder of yours"
        f" only: {folder or 'none yet'}; inspector.settings.update(dump_directory=...) names it."
    )
