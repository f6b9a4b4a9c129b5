"""`Frame` and `Origin`: the location in the user's Python that an instruction comes from.

Built from HLO metadata in `hlo/module.py`, and from MLIR locations when a lowered module is read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from inspector.support.name_stacks import RECOMPUTED, cut
from inspector.support.packages import is_library_file, package_path

_SEPARATORS = r"[/\\]"


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One level of a Python call stack.

    Attributes:
      file: Python's path of the file; IPython's name for a notebook cell.
      line: line number from 1; 0 if the compiler did not record it.
      function: qualified name; "" if the compiler did not record it.
    """

    file: str
    line: int
    function: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an instruction.

    Attributes:
      op_name: JAX's name stack, ending in the primitive, such as `jit(f)/shard_map/psum`; "" if unknown.
      frames: the call stack, innermost first; empty if unknown.
    """

    op_name: str
    frames: tuple[Frame, ...] = ()

    @property
    def scope(self) -> str:
        """JAX's name stack without the primitive; "" if unknown."""
        return self.op_name.rpartition("/")[0]

    @property
    def line(self) -> Frame | None:
        """The innermost line of the user's own code, or the innermost line if there is none."""
        return own_frame(self.frames)

    @property
    def innermost(self) -> Frame | None:
        """The innermost line, which may be in a library."""
        return self.frames[0] if self.frames else None

    @property
    def library_line(self) -> Frame | None:
        """The innermost line if it is in a library and differs from `line`; else None."""
        return library_frame(self.frames)


NOWHERE = Origin("")
"""The unknown origin."""


def own_frame(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame in the user's own code, or the innermost frame if all are in libraries; None without frames.

    Args:
      frames: call stack, innermost first.
    """
    own = next((frame for frame in frames if not is_library_file(frame.file)), None)
    return own if own is not None or not frames else frames[0]


def own_first(frames: Sequence[Frame]) -> list[Frame]:
    """Returns the frames of the user's own code, innermost first, followed by those of libraries."""
    return sorted(frames, key=lambda frame: is_library_file(frame.file))


def library_frame(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame if it is in a library and the user's own code is further out; else None."""
    return frames[0] if frames and own_frame(frames) is not frames[0] else None


def library_text(frames: Sequence[Frame]) -> str | None:
    """Returns the library line that the user's line calls, such as `equinox/nn/_linear.py:97`; None if there is none."""
    frame = library_frame(frames)
    return None if frame is None else f"{package_path(frame.file)}:{frame.line}"


def is_notebook_cell(file: str) -> bool:
    """Reports whether a file is a notebook cell: ipykernel's temporary file or IPython's `<ipython-input-...>`."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def own_line(frames: Sequence[Frame]) -> str:
    """Returns the user's line for a sentence: `model.py:31`, or `line 13 of a notebook cell`; "" without frames."""
    frame = own_frame(frames)
    if frame is None:
        return ""
    if is_notebook_cell(frame.file):
        return f"line {frame.line} of a notebook cell"
    return f"{re.split(_SEPARATORS, frame.file)[-1]}:{frame.line}"


def line_text(frames: Sequence[Frame], *, is_short: bool = False) -> str:
    """Returns the user's line and the library's: `/home/me/model.py:31 (flax/linen/linear.py:287)`; "" without frames.

    Args:
      frames: innermost first.
      is_short: whether to omit the folder of the user's file.
    """
    frame, library = own_frame(frames), library_text(frames)
    if frame is None:
        return ""
    file = re.split(_SEPARATORS, frame.file)[-1] if is_short else frame.file
    return f"{file}:{frame.line}" + (f" ({library})" if library else "")


PHASES = ("forward", "backward", "recomputed", "rest")
"""Parts of a differentiated program; see `phases`."""


def place_of(text: str) -> tuple[str, int] | None:
    """Returns file and line of `file:3` or of JAX's `file:3:4 (name)`; None for any other text."""
    match = re.fullmatch(r"(.+?):(\d+)(?::\d+)?(?: \(.*\))?", text)
    return (match[1], int(match[2])) if match else None


def short_places(places: Sequence[str], most: int = 3) -> str:
    """Returns the first of some texts `file:line` without folders: `model.py:3, model.py:12, …`."""
    known = [Frame(*place) for place in map(place_of, places[:most]) if place is not None]
    return ", ".join([*(own_line([each]) for each in known), *(["…"] if len(places) > most else [])])


def phases(op_name: str) -> tuple[str, ...]:
    """Returns the parts of a differentiated program that an operation belongs to, in the order of `PHASES`.

    The parts follow from JAX's name stack:

    - "backward": below `transpose(...)`
    - "recomputed": a forward operation that `jax.checkpoint` repeats for the backward pass
    - "forward": below `jvp(...)` only
    - "rest": not differentiated, such as an optimizer

    An operation that XLA merged from several may belong to more than one part. Returns () for an operation without a name.
    """
    present = {_phase(name) for name in merged_names(op_name)} - {""}
    return tuple(phase for phase in PHASES if phase in present)


def _phase(name: str) -> str:
    if RECOMPUTED in name:
        return "recomputed"
    if "transpose(" in name:
        return "backward"
    if "jvp(" in name:
        return "forward"
    return "rest" if name else ""


def merged_names(op_name: str) -> Iterator[str]:
    """Yields the names of the operations that XLA merged into one: `a;b`, and `f/(a:b)` for f/a and f/b."""
    for name in op_name.split(";"):
        scope, separator, group = ("", "(", name[1:]) if name.startswith("(") else name.partition("/(")
        if separator and group.endswith(")") and ":" in group:
            yield from (f"{scope}/{part}" if scope else part for part in cut(group[:-1], ":"))
        else:
            yield name


@dataclasses.dataclass(frozen=True, slots=True)
class Root:
    """The start of the user's program on the Python stack, at which origins end.

    JAX's locations also contain the callers of the lowering, and a cached lowering contains those of an earlier call.

    Attributes:
      scope: the prefix of every operation's `op_name`; alone, it does not name an operation.
      file: file of the lowered function; "" if not known.
      lines: first and last line of the function.
      callers: (file, line) of each frame on the stack that started the lowering.
    """

    scope: str = ""
    file: str = ""
    lines: tuple[int, int] = (0, 0)
    callers: frozenset[tuple[str, int]] = dataclasses.field(default=frozenset(), repr=False)

    def trim(self, origins: Iterable[Origin]) -> tuple[Origin, ...]:
        """Returns the origins that name an operation, without the frames above the function."""
        named = (o for o in origins if o.op_name != self.scope or not o.op_name)
        trimmed = [Origin(o.op_name, self._below(o.frames)) for o in named]
        return tuple(dict.fromkeys(trimmed) if len(trimmed) > 1 else trimmed)  # hashing is slow: it covers all frames

    def _below(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        first, last = self.lines
        inside = [n for n, frame in enumerate(frames) if frame.file == self.file and first <= frame.line <= last]
        if inside:
            return frames[: inside[-1] + 1]
        # JAX keeps the innermost frames only, so a deep stack may not reach the function.
        for depth, frame in enumerate(frames):
            if (frame.file, frame.line) in self.callers:
                return frames[:depth]
        return frames
