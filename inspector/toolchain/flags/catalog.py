"""`option_catalog`: every option of the installed compilers as a table, with search.

Names and types come from `flags/types.py`; defaults and descriptions from the installed jaxlib through
`toolchain/xla.py`, and from libtpu through `toolchain/libtpu.py`. The table is made once for a process.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inspector.errors import OptionError, Unavailable
from inspector.support.tables import UNKNOWN, Kind, make_table
from inspector.toolchain import flags, xla
from inspector.toolchain.flags import libtpu
from inspector.toolchain.flags.readers import READ_AT_START, TARGETS, flag_targets
from inspector.toolchain.flags.types import libtpu_flags

if TYPE_CHECKING:
    import pandas as pd

PER_COMPILE, PROCESS_START, INIT_ARGS = "per compile", "process start", "LIBTPU_INIT_ARGS"

# Known to be read once, when a CPU client starts. XLA does not say of a flag when it is read, so there may be more.
PROCESS_START_FLAGS = frozenset({"xla_force_host_platform_device_count"}) | READ_AT_START

# What a name begins with tells the part of the compiler that reads it.
_PREFIXES = (*TARGETS, "dump", "hlo", "llvm")

_UNDESCRIBED = "libtpu is built without descriptions of its flags"
_COMMON_FILE = "tpu_compilation_environment.cc"  # defines nine of ten, so that it tells nothing

_BEST_FUZZY = 8
_READING = threading.Lock()
_LEAST_LIKENESS = 0.6


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One row of the catalog.

    Attributes:
      name: as it is given.
      group: "cpu", "gpu", "tpu", "dump", "hlo" or "llvm" for flags that begin with `xla_` and that
        word, "tpu" for all of libtpu, "general" for other flags, "build" for fields of
        ExecutableBuildOptions, "compile" for fields of CompileOptions.
      type: such as "bool", "int32", "list of string", "map".
      default: XLA's own, as it would be given; "" for an empty text, list or map.
      choices: an enum's names.
      description: XLA's words; for flags of libtpu, which has none, their topics and source file.
      channel: "per compile", "process start" or "LIBTPU_INIT_ARGS".
      deprecated: XLA says so, in its schema, in the name or at the beginning of the description.
      targets: of "cpu", "gpu" and "tpu", those whose compiler it is for.
    """

    name: str
    group: str
    type: str
    default: flags.FlagValue | Unavailable
    choices: tuple[str, ...]
    description: str | Unavailable
    channel: str | Unavailable
    deprecated: bool
    targets: tuple[str, ...] = TARGETS


def option_catalog(search: str | None = None) -> pd.DataFrame:
    """The options of the installed compilers: XLA in jaxlib, and libtpu where it is installed.

    Args:
      search: words to look for in names and descriptions, best matches first: names that begin with
        them (also after `xla_` and the group), names with such a word, with such letters anywhere,
        descriptions, and where nothing of that is found, names that are spelt much alike. None for
        all, by name.

    Returns:
      A table with the columns `name, group, type, default, choices, description, channel,
      deprecated, targets, unknown`. What is not known is missing, and `unknown` says why.
    """
    names = [field.name for field in dataclasses.fields(Option)]
    found = options() if search is None else find_options(search)
    kinds: dict[str, Kind] = {name: _KINDS.get(name, "text") for name in names}
    rows = [[getattr(option, name) for name in names] for option in found]
    return make_table({**kinds, UNKNOWN: "reasons"}, rows)


_KINDS: Mapping[str, Kind] = {"default": "object", "choices": "object", "deprecated": "bool", "targets": "object"}


def find_options(search: str) -> tuple[Option, ...]:
    """Options that match a search, best first; all for an empty one. See `option_catalog`.

    Raises:
      OptionError: no text.
    """
    given: Any = search  # a user's, whatever the annotation says
    if not isinstance(given, str):
        raise OptionError(f"A search in the options is a text, such as 'fast math', got {given!r}.")
    words = search.lower().removeprefix("--").replace("-", "_").split()
    if not words:
        return options()
    ranked = [(_rank(option, words), option) for option in options()]
    found = [(rank, option.name, option) for rank, option in ranked if rank is not None]
    if found:
        return tuple(option for _, _, option in sorted(found, key=lambda f: f[:2]))
    names = {option.name: option for option in options()}
    wanted = "_".join(words)
    # Nearly all names begin so, and one comparison with all of them takes a tenth of a second.
    wanted = wanted if wanted.startswith("xla_") else f"xla_{wanted}"
    near = difflib.get_close_matches(wanted, names, n=_BEST_FUZZY, cutoff=_LEAST_LIKENESS)
    return tuple(names[name] for name in near)


def options() -> tuple[Option, ...]:
    """Every option, by name. Who asks while they are read waits for them: reading takes seconds and 100 MB."""
    with _READING:
        return _options()


@functools.cache
def _options() -> tuple[Option, ...]:
    descriptions = xla.descriptions()
    return tuple(_option(name, descriptions) for name in flags.flag_names())


def _option(name: str, descriptions: dict[str, str] | Unavailable) -> Option:
    type_ = flags.flag_type(name)
    description = _description(name, type_, descriptions)
    return Option(
        name=name,
        group=_group(name, type_),
        type=str(type_),
        default=_default(name, type_),
        choices=tuple(choice for choice, _ in type_.choices),
        description=description,
        channel=_channel(name, type_),
        deprecated=_is_deprecated(name, type_, description),
        targets=flag_targets(name),
    )


def _description(name: str, type_: flags.FlagType, found: dict[str, str] | Unavailable) -> str | Unavailable:
    if type_.home == "libtpu":
        return _about(name)
    if type_.home != "debug_options":
        return Unavailable("XLA describes only its flags, this is a field of its build options")
    if isinstance(found, Unavailable):
        return found
    return found.get(name) or Unavailable("jaxlib holds no description of this flag that could be found")


def _about(name: str) -> str | Unavailable:
    """What libtpu tells of a flag instead of a description: topics, and the source file of the part that has it."""
    flag = libtpu_flags()[name]
    file = "" if flag.source_file.endswith(_COMMON_FILE) else flag.source_file
    said = [f"about {', '.join(flag.topics)}" if flag.topics else "", f"defined in {file}" if file else ""]
    told = "; ".join(filter(None, said))
    return f"{told} (libtpu is built without descriptions)" if told else Unavailable(_UNDESCRIBED)


def _default(name: str, type_: flags.FlagType) -> flags.FlagValue | Unavailable:
    if type_.home == "libtpu":
        return libtpu.default(name, type_)
    if type_.is_opaque:
        return Unavailable("serialized bytes or messages, empty unless given")
    defaults: Any = xla.default_options()
    return defaults if isinstance(defaults, Unavailable) else flags.get_field(flags.holder(defaults, type_.home), name)


def _group(name: str, type_: flags.FlagType) -> str:
    if type_.home == "libtpu":
        return "tpu"
    if type_.home != "debug_options":
        return "compile" if type_.home == "compile_options" else "build"
    first = name.removeprefix("xla_").partition("_")[0]
    return first if first in _PREFIXES else "general"


def _channel(name: str, type_: flags.FlagType) -> str | Unavailable:
    if name in flags.OPTION_FIELDS:
        return PER_COMPILE
    if type_.is_opaque:
        return Unavailable("not writable as a flag", "give it in a serialized CompileOptions, to Options.from_proto")
    if not type_.is_per_compile:
        return INIT_ARGS
    return PROCESS_START if name in PROCESS_START_FLAGS else PER_COMPILE


def _is_deprecated(name: str, type_: flags.FlagType, description: str | Unavailable) -> bool:
    if type_.home == "libtpu":
        flag = libtpu_flags()[name]
        return flag.is_deprecated or flag.is_removed or "deprecated" in name
    said = description.lstrip("[( ").lower() if isinstance(description, str) else ""
    marked = flags.flag_field(name).GetOptions().deprecated
    return bool(marked) or "deprecated" in name or said.startswith("deprecated")


def _rank(option: Option, words: list[str]) -> int | None:
    """How well all of the words match, 0 best; None when one does not."""
    ranks = [_rank_word(option, word) for word in words]
    whole = "_".join(words)
    if whole in option.name:
        ranks = [_rank_word(option, whole)]
    known = [rank for rank in ranks if rank is not None]
    return max(known) if len(known) == len(ranks) else None


def _rank_word(option: Option, word: str) -> int | None:
    name = option.name
    short = name.removeprefix("xla_")
    if word in (name, short):
        return 0
    if any(text.startswith(word) for text in (name, short, short.removeprefix(f"{option.group}_"))):
        return 1
    if f"_{word}_" in f"_{name}_":
        return 2
    if f"_{word}" in name:
        return 3
    if word in name:
        return 4
    said = option.description.lower() if isinstance(option.description, str) else ""
    spoken = word.replace("_", " ")
    if f" {spoken}" in f" {said}":
        return 5
    return 6 if spoken in said or word in said else None
