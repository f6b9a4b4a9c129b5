"""`option_catalog`: a searchable table of all options of the installed compilers.

Names and types come from `flags/types.py`; defaults and descriptions from the installed jaxlib through
`toolchain/xla.py`, and from libtpu through `toolchain/libtpu.py`. The table is built once per process.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import threading
from typing import TYPE_CHECKING, Any

from inspector.errors import OptionError, Unavailable
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import short
from inspector.toolchain import flags, xla
from inspector.toolchain.flags import libtpu
from inspector.toolchain.flags.readers import READ_AT_START, TARGETS, flag_targets
from inspector.toolchain.flags.types import libtpu_flags

if TYPE_CHECKING:
    import pandas as pd

PER_COMPILE, PROCESS_START, INIT_ARGS = "per compile", "process start", "LIBTPU_INIT_ARGS"

# Known to be read once, when a CPU client starts. XLA does not document when a flag is read, so there may be more.
PROCESS_START_FLAGS = frozenset({"xla_force_host_platform_device_count"}) | READ_AT_START

# The prefix of a name identifies the part of the compiler that reads it.
_PREFIXES = (*TARGETS, "dump", "hlo", "llvm")

_UNDESCRIBED = "libtpu is built without descriptions of its flags"
_COMMON_FILE = "tpu_compilation_environment.cc"  # defines nine of ten flags, so it is not informative

_BEST_FUZZY = 8
_READING = threading.Lock()
_LEAST_LIKENESS = 0.6


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """A row of the catalog.

    Attributes:
      name: the name in `Options` and on the command line.
      group: "cpu", "gpu", "tpu", "dump", "hlo" or "llvm" for flags that begin with `xla_` and that
        word, "tpu" for all of libtpu, "general" for other flags, "build" for fields of
        ExecutableBuildOptions, "compile" for fields of CompileOptions.
      type: the type, such as "bool", "int32", "list of string" or "map".
      default: XLA's default, as it would be set; "" for an empty text, list or map.
      choices: names of an enum's values.
      description: XLA's description; for flags of libtpu, which has none, their topics and source file.
      channel: the way to set it: "per compile", "process start" or "LIBTPU_INIT_ARGS".
      deprecated: whether XLA marks it as deprecated, in its schema, in the name or at the beginning of the description.
      targets: the compilers that read it, of "cpu", "gpu" and "tpu".
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


OPTION_COLUMNS: TableDescription[Option] = TableDescription(
    TableColumn("name", "text", lambda option: option.name, "name", views=("data_frame", "command_line")),
    TableColumn("type", "text", lambda option: option.type, "type", views=("data_frame", "command_line")),
    TableColumn(
        "default", "object", lambda option: option.default, "default", views=("data_frame", "command_line"),
        text=lambda option: "unknown" if isinstance(option.default, Unavailable) else str(option.default),
    ),
    TableColumn("group", "text", lambda option: option.group, "group", views=("data_frame", "command_line")),
    TableColumn("choices", "object", lambda option: option.choices),
    TableColumn(
        "description", "text", lambda option: option.description, "description", views=("data_frame", "command_line"),
        text=lambda option: option.description.reason if isinstance(option.description, Unavailable) else option.description,
    ),
    TableColumn("channel", "text", lambda option: option.channel),
    TableColumn("deprecated", "bool", lambda option: option.deprecated),
    TableColumn("targets", "object", lambda option: option.targets),
    first=("name", "group"),
)  # fmt: skip


def option_catalog(search: str | None = None) -> pd.DataFrame:
    """Returns the options of the installed compilers: XLA in jaxlib, and libtpu if it is installed.

    Args:
      search: words to search for in names and descriptions; None for all options, by name. Matches are in this order:
        names that begin with the words (also after `xla_` and the group), names with such words, names with such letters
        anywhere, and descriptions. If nothing matches, names with a similar spelling.

    Returns:
      A table with the columns `name, group, type, default, choices, description, channel,
      deprecated, targets, unknown`. Unknown values are missing, with the reason in `unknown`.
    """
    return OPTION_COLUMNS.data_frame(options() if search is None else find_options(search))


def find_options(search: str) -> tuple[Option, ...]:
    """Returns the options that match a search, best first; all options for an empty search. See `option_catalog`.

    Raises:
      OptionError: the search is not text.
    """
    text: Any = search  # users may pass any type
    if not isinstance(text, str):
        raise OptionError(f"Expected a search text, such as 'fast math', got {short(text)}.")
    words = search.lower().removeprefix("--").replace("-", "_").split()
    if not words:
        return options()
    ranked = [(_rank(option, words), option) for option in options()]
    matches = [(rank, option.name, option) for rank, option in ranked if rank is not None]
    if matches:
        return tuple(option for _, _, option in sorted(matches, key=lambda f: f[:2]))
    names = {option.name: option for option in options()}
    wanted = "_".join(words)
    # Nearly all names begin with xla_. A search without the prefix would need a second pass of a tenth of a second.
    wanted = wanted if wanted.startswith("xla_") else f"xla_{wanted}"
    near = difflib.get_close_matches(wanted, names, n=_BEST_FUZZY, cutoff=_LEAST_LIKENESS)
    return tuple(names[name] for name in near)


def options() -> tuple[Option, ...]:
    """Returns all options, by name. Concurrent callers share one reading, which takes seconds and 100 MB."""
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


def _description(name: str, type_: flags.FlagType, descriptions: dict[str, str] | Unavailable) -> str | Unavailable:
    if type_.home == "libtpu":
        return _about(name)
    if type_.home != "debug_options":
        return Unavailable("XLA has no descriptions of build options, only of flags")
    if isinstance(descriptions, Unavailable):
        return descriptions
    return descriptions.get(name) or Unavailable("no description of this flag was found in jaxlib")


def _about(name: str) -> str | Unavailable:
    """Returns libtpu's information on a flag instead of a description: topics, and the source file that defines it."""
    flag = libtpu_flags()[name]
    file = "" if flag.source_file.endswith(_COMMON_FILE) else flag.source_file
    facts = [f"about {', '.join(flag.topics)}" if flag.topics else "", f"defined in {file}" if file else ""]
    text = "; ".join(filter(None, facts))
    return f"{text} (libtpu is built without descriptions)" if text else Unavailable(_UNDESCRIBED)


def _default(name: str, type_: flags.FlagType) -> flags.FlagValue | Unavailable:
    if type_.home == "libtpu":
        return libtpu.default(name, type_)
    if type_.is_opaque:
        return Unavailable("serialized bytes or messages, empty by default")
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
        return Unavailable(
            "not writable as a flag", "set it in a serialized CompileOptions and pass that to Options.from_proto"
        )
    if not type_.is_per_compile:
        return INIT_ARGS
    return PROCESS_START if name in PROCESS_START_FLAGS else PER_COMPILE


def _is_deprecated(name: str, type_: flags.FlagType, description: str | Unavailable) -> bool:
    if type_.home == "libtpu":
        flag = libtpu_flags()[name]
        return flag.is_deprecated or flag.is_removed or "deprecated" in name
    text = description.lstrip("[( ").lower() if isinstance(description, str) else ""
    marked = flags.flag_field(name).GetOptions().deprecated
    return bool(marked) or "deprecated" in name or text.startswith("deprecated")


def _rank(option: Option, words: list[str]) -> int | None:
    """Returns how well all words match, 0 for the best; None if a word does not match."""
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
    text = option.description.lower() if isinstance(option.description, str) else ""
    spoken = word.replace("_", " ")
    if f" {spoken}" in f" {text}":
        return 5
    return 6 if spoken in text or word in text else None
