"""`OpenedFile`: a file with several modules."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inspector.api.opened_program import OpenedProgram
from inspector.api.shown_values import ShownAsExplorer, ShownAsTable
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.errors import ModuleError, ParameterError, Unavailable, needs_jax
from inspector.reports.recorded_exploration import RecordedExploration
from inspector.stages.lowered import Lowered
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import counted

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration
    from inspector.lowering.module_files import Choice, ModuleText

_MOST_SHOWN = 12  # modules in an Explorer: XLA reads each in its own process
_NAMES_SHOWN = 50


class OpenedFile(ShownAsTable, ShownAsExplorer, Sequence[OpenedProgram | Lowered]):
    """A file with several modules. `inspector.load` returns one. Each module is read on first use.

    Attributes:
      source: path of the file; "" if it is not one.
      names: names of the modules in their order; "" for a module without a name.
    """

    def __init__(self, modules: Sequence[ModuleText], source: str, target: str | Target | None, choice: Choice) -> None:
        """Opens nothing yet; arguments as for `open_file`."""
        self.source = source
        self.names = tuple(module.name for module in modules)
        self._modules, self._target, self._choice = tuple(modules), target, choice
        self._opened: dict[int, OpenedProgram | Lowered] = {}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[OpenedProgram | Lowered]:
        return (self[n] for n in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Returns a module by position, from 0, or by name.

        Raises:
          ParameterError: there is none, or several have the name. The message lists all.
          ModuleError: it cannot be read.
        """
        if isinstance(key, slice):
            return [self[n] for n in range(*key.indices(len(self)))]
        matches = [n for n, name in enumerate(self.names) if name == key]
        if isinstance(key, int) and -len(self) <= key < len(self):
            matches = [key % len(self)]
        if isinstance(key, int) and not matches:
            raise IndexError(f"The file has {counted(len(self), 'module')}, not one at position {key}.")
        if len(matches) != 1:
            problem = f"{len(matches)} modules" if matches else "no module"
            raise ParameterError(f"The file has {problem} {short(key)}. Its modules: {', '.join(self.names)}.")
        number = matches[0]
        if number not in self._opened:
            self._opened[number] = self._open(self._modules[number])
        return self._opened[number]

    @property
    @needs_jax("An Explorer")
    def exploration(self) -> Exploration:
        """The HLO modules of the file as an `Exploration`, one variant each, not compiled."""
        from inspector.api.exploration import Exploration

        programs = [(label, program) for label, program in self._labeled() if isinstance(program, OpenedProgram)]
        if not programs:
            names = ", ".join(name or str(n) for n, name in enumerate(self.names, 1))
            raise ModuleError(
                f'The file has several StableHLO modules: {names}. Choose one: module="{self.names[0] or 1}".'
            )
        variants = tuple(program.variant(label) for label, program in programs)
        return Exploration.of(RecordedExploration.now(programs[0][1].lowered, variants))

    def _labeled(self) -> Iterator[tuple[str, OpenedProgram | Lowered]]:
        for n, name in enumerate(self.names[:_MOST_SHOWN]):
            label = name if name and self.names.count(name) == 1 else f"{n + 1} {name}".strip()
            yield label, self[n]

    def _open(self, module: ModuleText) -> OpenedProgram | Lowered:
        from inspector.lowering.lower import lower

        if module.language == "StableHLO":
            # Only a file with one module may have modules in it.
            inner = self._choice.module if len(self) == 1 and module.name != self._choice.module else None
            chosen = {"module": inner, "function": self._choice.function, "refine": self._choice.refine}
            return lower(module.data, target=self._target, **chosen)  # type: ignore[arg-type]
        several = {} if len(self) == 1 else {"no_stablehlo": _several(module.name)}
        return OpenedProgram.of(module.data, target=self._target, source=self.source, **several)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        name = os.path.basename(self.source) or "text"  # noqa: PTH119 - a text, not a file
        first = repr(self.names[0]) if self.names[0] else "0"
        return with_hint(f"<OpenedFile {name}: {counted(len(self), 'module')}>", f"[{first}], .names, .explorer()")

    def _repr_html_(self) -> str:
        return described(repr(self), {str(n): name for n, name in enumerate(self.names[:_NAMES_SHOWN], 1)})


def open_file(
    source: Any,
    *,
    target: str | Target | None = None,
    module: str | int | None = None,
    function: str | None = None,
    refine: Mapping[str, Sequence[int]] | None = None,
    path: str = "",
) -> OpenedFile:
    """Opens the modules of a file; arguments and errors as for `inspector.load`.

    Args:
      source: a path, or the text or bytes of a module.
      target: the target of HLO modules.
      module: name or number of one module; None for all.
      function: name of the function of a StableHLO module.
      refine: shapes of the arguments of a StableHLO module with dynamic shapes.
      path: the path of the file, if `source` is its content.
    """
    from inspector.lowering.module_files import Choice, chosen_module, modules_in, read_module

    contents = read_module(source)
    choice = Choice.taken_from({"module": module, "function": function, "refine": refine})
    modules = modules_in(contents) if module is None else (chosen_module(contents, choice),)
    return OpenedFile(modules, path or path_of(source), target, choice)


def opened_without_compile(
    source: Any,
    target: str | Target,
    choice: Mapping[str, Any],
    no_stablehlo: Unavailable | None = None,
    path: str = "",
) -> Exploration:
    """Returns a file as an exploration that shows it without compiling.

    Args:
      source: a path, or the text or bytes of a module.
      target: the target, whose compiler may have written the HLO.
      choice: the `module` and `function` of the file.
      no_stablehlo: the reason why it cannot be compiled; None for optimized HLO.
      path: the path of the file, if `source` is its content.

    Raises:
      ModuleError: the file cannot be read, or contains several StableHLO modules.
    """
    wanted = None if Target.parse(target) == Target("attached") else target
    opened = open_file(source, target=wanted, path=path, **choice)
    if len(opened) > 1:
        return opened.exploration
    program = opened[0]
    if isinstance(program, Lowered):
        return _text_exploration(program, Target.parse(target))
    exploration: Exploration = (program if no_stablehlo is None else program.with_reason(no_stablehlo)).exploration
    return exploration


def _text_exploration(lowered: Lowered, target: Target) -> Exploration:
    """Returns StableHLO that XLA cannot convert to HLO as an exploration whose compile failed with the reason."""
    from inspector.api.exploration import Exploration
    from inspector.reports.recorded_exploration import RecordedError, RecordedVariant

    try:
        lowered.program.check_compilable()
    except ModuleError as e:
        failure = RecordedError.of(e)
    variant = RecordedVariant("opened", Options(), target, "failed", lowered=lowered, failure=failure)
    return Exploration.of(RecordedExploration.now(lowered, (variant,)))


def is_module_source(source: Any) -> bool:
    """Reports whether a value is a path, or the text or bytes of a module."""
    return isinstance(source, (str, bytes, bytearray, os.PathLike))


def path_of(source: Any) -> str:
    """Returns the path of a file; "" for the text or bytes of a module."""
    is_path = isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source)
    return os.fspath(source) if is_path else ""


def _several(name: str) -> Unavailable:
    chosen = f'module="{name}"' if name else "module="
    return Unavailable("it was opened with the other modules of its file", f"choose it with {chosen} to compile it")
