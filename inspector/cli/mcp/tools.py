"""The tools of the server: commands with an input schema that follows from their options."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import click

from inspector.cli.accuracy import accuracy
from inspector.cli.bisect import bisect
from inspector.cli.compare import compare
from inspector.cli.findings import findings
from inspector.cli.mcp.answers import PAGE_SCHEMA
from inspector.cli.profile import profile
from inspector.cli.program_arguments import options_text
from inspector.cli.programs import collectives, compile_, lower, memory
from inspector.support.notebook import short

# Parameters that name programs. All other files are written, and no tool writes files.
_PROGRAMS = ("program", "others", "args_from")
# They set the exit status, or the number of rows of a printed table.
_NOT_OFFERED = frozenset({"above", "exit_code", "top", "all"})

_DESCRIPTIONS: Mapping[str, str] = {
    "program": (
        "package.module:function, script.py:function or notebook.ipynb:function; or a file with HLO or StableHLO, an"
        " .inspector file, a folder of --xla_dump_to (folder:module for one module), or a profile. Paths start at the"
        " server's root folder. A function needs args or args_from, unless it takes no arguments."
    ),
    "others": "More programs to compare with the first one; functions get the same arguments.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """A command as a tool.

    Attributes:
      name: the name of the tool.
      command: the command.
      purpose: its purpose and its answer, for the model that chooses a tool.
      fixed: options that every call has.
      hidden: names of parameters that are not offered.
    """

    name: str
    command: click.Command
    purpose: str
    fixed: tuple[str, ...] = ("--json",)
    hidden: tuple[str, ...] = ()

    @property
    def input_schema(self) -> dict[str, Any]:
        """The parameters as a JSON schema: those of the command, and those of `Page`."""
        offered = self._offered()
        required = [name for name, parameter in offered.items() if parameter.required]
        properties = {name: _schema(name, parameter) for name, parameter in offered.items()}
        return {
            "type": "object", "properties": {**properties, **PAGE_SCHEMA}, "required": required, "additionalProperties": False,
        }  # fmt: skip

    def command_line(self, given: Mapping[str, object]) -> list[str]:
        """Converts the arguments of a call to the command line, without the name of the command.

        Args:
          given: arguments by name, without those of `Page`.

        Raises:
          click.UsageError: an unknown name, a missing argument, or a value of a wrong type.
        """
        offered = self._offered()
        for name in given:
            if name not in offered:
                known = ", ".join([*offered, *PAGE_SCHEMA])
                raise click.UsageError(f"{self.name} has no parameter {short(name)}. Its parameters: {known}.")
        for name, parameter in offered.items():
            if parameter.required and not given.get(name):
                raise click.UsageError(f"{self.name} needs the parameter {name}: {_describe(name, parameter)}")
        options, positional = list(self.fixed), ["--"]  # a program may begin with a dash
        for name, parameter in offered.items():
            if given.get(name) is None:
                continue
            words = _words(name, parameter, given[name])
            if isinstance(parameter, click.Argument):
                positional += words
            elif _is_switch(parameter):
                options += [_option(parameter)] if given[name] else []
            else:
                options += [f"{_option(parameter)}={word}" for word in words]
        return [*options, *positional]

    def programs(self, given: Mapping[str, Any]) -> list[str]:
        """Returns the programs that a call names."""
        named = [given.get(name) or [] for name in _PROGRAMS]
        return [text for value in named for text in (value if isinstance(value, list) else [value])]

    def flag_texts(self, given: Mapping[str, Any]) -> list[str]:
        """Returns the compiler options of a call as the command passes them on: one text for each set of options."""
        sets = [
            *(given.get(name) or [] for name in ("option", "good", "bad")),
            *(text.split() for text in given.get("options") or []),
        ]
        return [options_text(tuple(flags)) for flags in sets if flags]

    def _offered(self) -> dict[str, click.Parameter]:
        return {
            name: parameter for name, parameter in _parameters(self.command) if not self._is_hidden(name, parameter)
        }

    def _is_hidden(self, name: str, parameter: click.Parameter) -> bool:
        is_fixed = not isinstance(parameter, click.Argument) and _option(parameter) in self.fixed
        is_file = isinstance(parameter.type, click.Path)
        return is_fixed or is_file or name in _NOT_OFFERED or name in self.hidden or name == "json"


def _parameters(command: click.Command) -> Iterator[tuple[str, click.Parameter]]:
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield str(parameter.name), parameter
        else:
            yield _option(parameter).lstrip("-").replace("-", "_"), parameter


def _option(parameter: click.Parameter) -> str:
    """Returns the long form of an option."""
    return max(parameter.opts, key=len)


def _is_switch(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and parameter.is_flag


def _is_list(parameter: click.Parameter) -> bool:
    return parameter.nargs == -1 or (isinstance(parameter, click.Option) and parameter.multiple)


def _schema(name: str, parameter: click.Parameter) -> dict[str, Any]:
    item = _item_schema(parameter)
    schema = {"type": "array", "items": item} if _is_list(parameter) else item
    return {**schema, "description": _describe(name, parameter)}


def _item_schema(parameter: click.Parameter) -> dict[str, Any]:
    kind = parameter.type
    if _is_switch(parameter):
        return {"type": "boolean"}
    if isinstance(kind, click.Choice):
        return {"type": "string", "enum": list(kind.choices)}
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        number = "integer" if isinstance(kind, click.types.IntParamType) else "number"
        least = getattr(kind, "min", None)
        return {"type": number} if least is None else {"type": number, "minimum": least}
    return {"type": "string"}


def _describe(name: str, parameter: click.Parameter) -> str:
    text = _DESCRIPTIONS.get(name) or getattr(parameter, "help", None) or ""
    form = f" Form: {parameter.metavar}." if parameter.metavar and "=" in parameter.metavar else ""
    default = f" Default: {parameter.default}." if getattr(parameter, "show_default", None) else ""
    return f"{text}{form}{default}"


_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "a text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "an integer"),
    "number": ((int, float), "a number"),
}


def _words(name: str, parameter: click.Parameter, value: object) -> list[str]:
    """Returns a value as words of a command line; click checks their ranges and choices.

    Raises:
      click.UsageError: a value of a wrong type, or a text that no command line can have.
    """
    kind, expected = _TYPES[_item_schema(parameter)["type"]]
    is_list = _is_list(parameter)
    values = value if isinstance(value, list) else [value]
    is_right = all(isinstance(each, kind) and (kind is bool or not isinstance(each, bool)) for each in values)
    if not is_right or is_list != isinstance(value, list):
        raise click.UsageError(
            f"{name} is {short(value)}. Expected {f'a list, each {expected}' if is_list else expected}."
        )
    if any("\0" in each for each in values if isinstance(each, str)):
        raise click.UsageError(f"{name} is {short(value)}, with a null character. Expected a text without one.")
    return [str(each) for each in values]


TOOLS: tuple[Tool, ...] = (
    Tool(
        "lower", lower,
        "The text that JAX passes to XLA: StableHLO, HLO before optimization, or the jaxpr, as numbered lines with the user's source line"
        " of each.",
    ),
    Tool(
        "compile", compile_,
        "Compile a program: peak memory, arguments, temporaries, FLOPs, bytes accessed, kernels and collectives, as numbers with their"
        " units in the names. With hlo=true the optimized HLO instead, as numbered lines with the user's source line of each.",
    ),
    Tool(
        "collectives", collectives,
        "The collectives of the compiled program: kind, mesh axes, replica groups, bytes, the user's source line, and whether the user or"
        " the partitioner inserted them.",
    ),
    Tool(
        "memory", memory,
        "The memory of the compiled program: bytes of each memory space, the buffers that are live at the peak with the user's source"
        " lines, and which donated arguments no output reuses.",
    ),
    Tool(
        "findings", findings,
        "What to change in a program to save time or memory, largest gain first: title, gain in seconds and bytes, the user's source line,"
        " the remedy and its caution.",
        hidden=("prove", "time_limit"),
    ),
    Tool(
        "prove", findings,
        "As `findings`, and also compile the program with each remedy and compare memory, time and results: `verdict` has the outcome."
        " Takes a compile, and on a CPU runs, for each finding.",
        ("--json", "--prove"),
    ),
    Tool(
        "compare", compare,
        "Compare programs, targets or compiler options: numbers side by side with their differences from the first one, and the changed"
        " instructions. Two folders of --xla_dump_to are compared module by module.",
    ),
    Tool(
        "accuracy", accuracy,
        "The errors of a program and of variants with other compiler options against a reference with 64-bit values: a verdict (as"
        " accurate, less, more, wrong), relative errors, ulps and unexpected NaN of each output, and the line where the error begins.",
    ),
    Tool(
        "bisect", bisect,
        "Find the compiler flags, and then the pass, that make two compiles of a program differ in values, memory, time or compile"
        " time; with the steps, the changed instructions and the size of the smallest program that still differs.",
        hidden=("save",),
    ),
    Tool(
        "profile", profile,
        "Run the program under JAX's profiler and measure the time of each kernel in seconds, or read a recorded profile. Sum it with `by`.",
    ),
)  # fmt: skip
"""A command that has --json becomes a tool by one line here."""


def tool_named(name: str) -> Tool:
    """Returns the tool of a name.

    Raises:
      click.UsageError: there is no such tool.
    """
    for tool in TOOLS:
        if tool.name == name:
            return tool
    raise click.UsageError(f"There is no tool {short(name)}. The tools: {', '.join(tool.name for tool in TOOLS)}.")
