"""The program argument of commands: a function in a module, script or notebook, or a file; converts it to a `Lowered`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from inspector.cli.output import working
from inspector.support.subprocesses import current_folder

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration
    from inspector.cli.arguments import Call
    from inspector.stages.compiled import Compiled
    from inspector.stages.lowered import Lowered

_DEVICES = "--xla_force_host_platform_device_count"


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A program on the command line, with its options.

    Attributes:
      program: the program; see `inspector --help`.
      args, args_from: text of the arguments, or name of the function that returns them; "" for none.
      static, donate: names of static arguments; positions of donated arguments.
      axes: axes of the axis environment, `name=size`.
      cell: number of a notebook cell; 0 for the last one that defines the function.
      module: name or number of a module in a file with several; "" for the only one.
      function: name of the function of a StableHLO file; "" for `main` or the only public one.
      refine: shapes of arguments with dynamic shapes, `arg0=8,128`.
    """

    program: str
    args: str = ""
    args_from: str = ""
    static: tuple[str, ...] = ()
    donate: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    cell: int = 0
    module: str = ""
    function: str = ""
    refine: tuple[str, ...] = ()

    @property
    def choice(self) -> dict[str, Any]:
        """The chosen part of a file, as keyword arguments of `lower`."""
        shapes = dict(map(_argument_shape, self.refine))
        known = {"module": self.module, "function": self.function, "refine": shapes}
        return {name: value for name, value in known.items() if value}

    def with_others(self, programs: Sequence[str]) -> list[ProgramRequest]:
        """Returns this program and others; their functions get the same arguments."""
        return [self, *(dataclasses.replace(self, program=program) for program in programs)]


def takes_program(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument PROGRAM and its options to a command, as `request`."""

    @click.argument("program")
    @click.option(
        "--args", default="", metavar="CALL", help="Arguments of the function, e.g. 'f32[32,64], train=True'."
    )
    @click.option(
        "--args-from",
        default="",
        metavar="NAME",
        help="Function that returns the arguments: its name in the same module, or module:name.",
    )
    @click.option("--static", multiple=True, metavar="NAME", help="Name of a static argument, as in jax.jit.")
    @click.option("--donate", multiple=True, type=int, metavar="POSITION", help="Position of a donated argument.")
    @click.option("--axis", "axes", multiple=True, metavar="NAME=SIZE", help="Axis of the axis environment.")
    @click.option("--cell", default=0, metavar="NUMBER", help="For a notebook: run the code cells up to this one.")
    @click.option(
        "--module",
        default="",
        metavar="NAME",
        help="For a file or profile with several modules: name or number of one.",
    )
    @click.option("--function", default="", metavar="NAME", help="For a StableHLO file: function to use as main.")
    @click.option(
        "--refine",
        multiple=True,
        metavar="ARG=SIZES",
        help="For a StableHLO file: shape of an argument with a dynamic shape, e.g. arg0=8,128.",
    )
    @functools.wraps(command)
    def taking(
        program: str, args: str, args_from: str, static: tuple[str, ...], donate: tuple[int, ...], axes: tuple[str, ...],
        cell: int, module: str, function: str, refine: tuple[str, ...], **rest: Any,
    ) -> Any:  # fmt: skip
        request = ProgramRequest(program, args, args_from, static, donate, axes, cell, module, function, refine)
        return command(request=request, **rest)

    return taking


def takes_target(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --target to a command."""
    return click.option(
        "-t",
        "--target",
        default="attached",
        show_default=True,
        help="Target device, e.g. cpu:8, tpu:v5e:2x4, gpu:h100:8.",
    )(command)


def takes_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --option to a command."""
    return click.option(
        "-X",
        "--option",
        "flags",
        multiple=True,
        metavar="FLAG=VALUE",
        help="Compiler option (`inspector options` lists them).",
    )(command)


def takes_variants(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --options to a command, as `variants`: a set of flags each."""
    return click.option(
        "-X",
        "--options",
        "variants",
        multiple=True,
        metavar="'FLAG=VALUE ...'",
        help="Compiler options of one more variant.",
    )(command)


def takes_time_limit(default_s: float, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that adds --time-limit to a command, as `time_limit_s`.

    Args:
      default_s: the default in seconds.
      what: the work that it limits, for the help.
    """
    return click.option(
        "--time-limit",
        "time_limit_s",
        default=default_s,
        type=click.FloatRange(min=0, min_open=True),
        show_default=True,
        metavar="SECONDS",
        help=f"Time limit of the whole {what}.",
    )


def takes_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --json to a command, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")(command)


def options_text(flags: tuple[str, ...]) -> str:
    """Returns flags in the format of XLA_FLAGS."""
    return " ".join(f"--{flag.strip().lstrip('-')}" for flag in flags)


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramInput:
    """A program before it is lowered.

    Attributes:
      fun: a function, or another input of `lower`; a `Compiled` from a saved file.
      args, kwargs: arguments of the function.
      request: the program as named on the command line.
    """

    fun: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    request: ProgramRequest

    @property
    def is_file(self) -> bool:
        """True for a file with HLO or StableHLO, or the contents of one."""
        return isinstance(self.fun, (str, bytes, Path))

    @property
    def keywords(self) -> dict[str, Any]:
        """Keyword arguments for `lower`, `explore` and `expect`, without those that were not given."""
        known = {
            "kwargs": self.kwargs, "static_argnames": self.request.static, "donate_argnums": self.request.donate,
            "axis_env": [_axis(text) for text in self.request.axes],
            **(self.request.choice if self.is_file else {}),
        }  # fmt: skip
        return {name: value for name, value in known.items() if value}


def prepare(*targets: str) -> None:
    """Configures JAX before it is imported: as many CPU devices as the targets have, so that scripts can make meshes.

    If no target is attached, or there is no accelerator, JAX uses CPUs only.
    """
    from inspector.compilation.target import Target

    parsed = [Target.parse(target) for target in targets]
    count = max((target.device_count or 1 for target in parsed), default=1)
    if count > 1 and _DEVICES not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}={count}".strip()
    if (parsed and all(target.kind == "cpu" or target.is_absent for target in parsed)) or not has_accelerator():
        os.environ.setdefault("JAX_PLATFORMS", "cpu")


def has_accelerator() -> bool:
    """Reports whether the system may have an accelerator. Without one, JAX's plugins take seconds to search and print warnings."""
    nodes = ("nvidia0", "nvidiactl", "dxg", "accel0", "accel", "vfio", "kfd")
    return sys.platform != "linux" or any(Path("/dev", node).exists() for node in nodes)


def open_program(request: ProgramRequest) -> ProgramInput:
    """Opens or imports the program that a user names.

    Raises:
      click.UsageError: there is no such program, or arguments are missing.
      ModuleError: a saved file is damaged.
    """
    place, colon, name = request.program.rpartition(":")
    if Path(request.program).exists() or not colon:
        return ProgramInput(_opened(request), (), {}, request)
    if Path(place).is_dir():
        return ProgramInput(_of_dump(Path(place), name), (), {}, request)
    with working(f"importing {place}"):
        import jax  # noqa: F401 - the installed JAX, before a file with that name next to the script is imported

        names = _names(place, name, request.cell)
    fun = _member(names, place, name)
    if request.choice:
        raise click.UsageError(
            f"--{next(iter(request.choice))} is for files with HLO or StableHLO, not for a function."
        )
    return ProgramInput(fun, *_arguments(request, fun, names), request)


def lowered(source: ProgramInput, target: str = "attached") -> Lowered:
    """Lowers the program for a target."""
    from inspector.api.exploration import Exploration

    if isinstance(source.fun, Exploration) and not source.args and not source.keywords:
        return source.fun.lowered  # was saved with all its texts, which need no JAX
    from inspector.lowering.lower import lower

    on = target if callable(source.fun) or source.is_file else None  # a saved program is already lowered
    fun = source.fun.lowered if isinstance(source.fun, Exploration) else source.fun
    with working("lowering"), contextlib.redirect_stdout(sys.stderr):  # a traced function may print
        program = lower(fun, *source.args, target=on, **source.keywords)
    if on is None:
        _check_platform(source, program, target)
    for note in program.notes:
        click.echo(f"note: {note}", err=True)
    return program


def _lowered_or_none(source: ProgramInput, target: str) -> Lowered | None:
    """Lowers the program; None for a file that can only be shown.

    Raises:
      ModuleError: the file cannot be read.
    """
    from inspector.api.opened_file import open_file
    from inspector.errors import ModuleError

    try:
        return lowered(source, target)
    except ModuleError:
        if not source.is_file or len(opened := open_file(source.fun, **source.request.choice)) > 1:
            raise
        if not getattr(opened[0], "is_optimized", False):
            raise
        return None


def _is_only_shown(program: Lowered) -> bool:
    return program.program.is_optimized or program.program.no_stablehlo is not None


def _check_platform(source: ProgramInput, program: Lowered, target: str) -> None:
    """Refuses a target if a saved program was lowered for another platform.

    Raises:
      click.UsageError: the program would have to be lowered again.
    """
    from inspector.api.suitable_targets import platform_of
    from inspector.compilation.target import Target

    if target == "attached":
        return
    wanted, is_for = platform_of(Target.parse(target)), program.program.platform
    if wanted != is_for:
        raise click.UsageError(
            f"{source.request.program} was lowered for {is_for}, but {target} needs a program lowered for {wanted}."
            f" Name the function instead, such as script.py:function -t {target}, or choose a target for {is_for}."
        )


def compiled(
    source: ProgramInput,
    target: str,
    flags: tuple[str, ...] = (),
    products: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> Compiled:
    """Compiles the program; returns the one in a saved file if no other target or option is requested.

    Args:
      source: the program.
      target: the target.
      flags: compiler options.
      products: the products to record.
      optional: more products, which are left out for an optimized module, since that is shown without a compile.
    """
    from inspector.api.exploration import Exploration
    from inspector.compilation.compiled import CompiledProgram

    saved = source.fun.baseline.program if isinstance(source.fun, Exploration) else source.fun
    if isinstance(saved, CompiledProgram) and target == "attached" and not flags:
        from inspector.stages.compiled import as_compiled

        return as_compiled(saved)
    program = _lowered_or_none(source, target)
    if program is None or (source.is_file and not flags and not products and _is_only_shown(program)):
        from inspector.api.opened_file import opened_without_compile

        reason = None if program is None else program.program.no_stablehlo
        shown = opened_without_compile(source.fun, target, source.request.choice, reason).baseline.compiled
        click.echo(f"note: {shown.warnings[0]}", err=True)
        return shown
    with working(f"compiling for {target}"):
        return program.compile(options_text(flags), target, products=(*products, *optional))


def _opened(request: ProgramRequest) -> Any:
    from inspector.compilation.dumps.folder import is_dump
    from inspector.profiles.session_files import is_profile

    if request.program == "-":
        from inspector.lowering.module_files import MAX_MODULE_BYTES, read_module

        return read_module(sys.stdin.buffer.read(MAX_MODULE_BYTES))
    path = Path(request.program)
    if path.exists() and is_dump(path):
        return _of_dump(path, "")
    if path.exists() and is_profile(path):
        return _of_profile(path)
    if path.suffix in (".py", ".ipynb"):
        raise click.UsageError(f"{path.name} needs the name of a function: {request.program}:NAME.")
    if not path.is_file():
        raise click.UsageError(
            f"{request.program!r} is neither a file nor a function. Expected a file with HLO or StableHLO, an .inspector file,"
            " a profile, a folder of --xla_dump_to (folder:module for one of its modules), or package.module:function, script.py:function, notebook.ipynb:function."
        )
    if path.suffix == ".inspector":
        from inspector.api.load import load

        return load(path)
    return path


def _of_dump(path: Path, name: str) -> Exploration:
    """Returns a module of a dump folder; the largest one for the name ""."""
    from inspector.api.dump import load_dump

    with working(f"reading {path}"):
        dump = load_dump(path)
        return (dump[name] if name else dump.largest).exploration


def _of_profile(path: Path) -> Exploration:
    """Returns the program with the most measured time in a profile."""
    from inspector.api.recorded_profile import load_profile

    with working(f"reading {path}"):
        recorded = load_profile(path)
        if not recorded.programs:
            raise click.UsageError(f"{path} contains no HLO, so only `inspector profile {path}` can show it.")
        return recorded.programs[0].exploration


def _names(place: str, name: str, cell: int) -> Mapping[str, Any]:
    """Runs a module, a script or a notebook and returns its names. Its output goes to stderr."""
    path = Path(place)
    with contextlib.redirect_stdout(sys.stderr):
        if path.suffix == ".ipynb":
            from inspector.cli.notebook import notebook_names

            return notebook_names(path, name, cell)
        if path.suffix == ".py":
            return vars(_script(path))
        if here := current_folder():
            sys.path.insert(0, here)
        try:
            return vars(importlib.import_module(place))
        except ModuleNotFoundError as e:
            if e.name is not None and (place == e.name or place.startswith(f"{e.name}.")):
                raise click.UsageError(
                    f"Module {e.name!r} is neither installed nor in the current folder. For a script: {place}.py:{name}."
                ) from e
            raise


def _script(path: Path) -> ModuleType:
    if not path.is_file():
        raise click.UsageError(f"File {str(path)!r} does not exist.")
    sys.path.insert(0, str(path.resolve().parent))  # as Python does for a script
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise click.UsageError(f"{str(path)!r} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _member(names: Mapping[str, Any], place: str, name: str) -> Any:
    first, *rest = name.split(".")
    if first not in names:
        known = [
            n
            for n, value in names.items()
            if callable(value) and getattr(value, "__module__", "") == names.get("__name__")
        ]
        raise click.UsageError(f"{place} has no {first!r}. Its functions: {', '.join(known) or 'none'}.")
    member = names[first]
    for attribute in rest:
        if not hasattr(member, attribute):
            raise click.UsageError(f"{first} of {place} has no {attribute!r}.")
        member = getattr(member, attribute)
    return member


def _arguments(request: ProgramRequest, fun: Any, names: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    from inspector.cli.arguments import as_call, read_call

    if request.args and request.args_from:
        raise click.UsageError("Give --args or --args-from, not both.")
    if request.args:
        return _fitting(request, fun, read_call(request.args, names))
    if request.args_from:
        place, _, name = request.args_from.rpartition(":")
        make = _member(_names(place, name, 0) if place else names, place or request.program.rpartition(":")[0], name)
        with contextlib.redirect_stdout(sys.stderr):
            return _fitting(request, fun, as_call(make() if callable(make) else make))
    if needed := _needed(fun):
        raise click.UsageError(
            f"{request.program} takes {', '.join(needed)}. Give --args 'f32[32,64], ...' or --args-from NAME."
        )
    return (), {}


def _fitting(request: ProgramRequest, fun: Any, call: Call) -> Call:
    """Checks a call against the function's signature, and returns it.

    Raises:
      click.UsageError: too few or too many arguments, or unknown names.
    """
    args, kwargs = call
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return call
    try:
        signature.bind(*args, **kwargs)
    except TypeError as e:
        got = ", ".join([*([str(len(args))] if args or not kwargs else []), *(f"{name}=..." for name in kwargs)])
        takes = ", ".join(str(p.replace(annotation=p.empty)) for p in signature.parameters.values()) or "no arguments"
        raise click.UsageError(f"{request.program} takes {takes}; got {got} ({e}).") from e
    return call


def _needed(fun: Any) -> list[str]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def _axis(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name or not size.isdecimal():
        raise click.UsageError(f"--axis {text!r}: expected NAME=SIZE, such as i=4.")
    return name, int(size)


def _argument_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.partition("=")
    parts = [size.strip() for size in sizes.split(",")]
    if not name.strip() or not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"--refine {text!r}: expected ARG=SIZES, such as arg0=8,128.")
    return name.strip(), tuple(map(int, parts))
