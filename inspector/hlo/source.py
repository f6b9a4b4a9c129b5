"""`Frame` and `Origin`: where in the user's Python an instruction comes from.

Made from HLO metadata in `hlo/module.py`, and from MLIR locations where a lowered module is read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from inspector.support.name_stacks import RECOMPUTED, cut
from inspector.support.packages import is_library_file, package_path


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One level of a Python call stack.

    Attributes:
      file: path as Python had it; IPython's own name for a notebook cell.
      line: 1-based, or 0 when the compiler did not record it.
      function: qualified name, or "" when the compiler did not record it.
    """

    file: str
    line: int
    function: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What an instruction was made from.

    Attributes:
      op_name: JAX's name stack, ending in the primitive, such as `jit(f)/shard_map/psum`; "" when unknown.
      frames: the call stack, innermost first; empty when unknown.
    """

    op_name: str
    frames: tuple[Frame, ...] = ()

    @property
    def scope(self) -> str:
        """The JAX name stack without the primitive; "" when unknown."""
        return self.op_name.rpartition("/")[0]

    @property
    def line(self) -> Frame | None:
        """The innermost line of the user's own code; where there is none, the innermost line."""
        return own_frame(self.frames)

    @property
    def innermost(self) -> Frame | None:
        """The innermost line, which may be a library's."""
        return self.frames[0] if self.frames else None

    @property
    def library_line(self) -> Frame | None:
        """The innermost line, where it is a library's and `line` is another one."""
        return library_frame(self.frames)


NOWHERE = Origin("")
"""Of what nothing tells."""


def own_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame in the user's own code; the innermost one where all are a library's; None without frames.

    Args:
      frames: innermost first.
    """
    own = next((frame for frame in frames if not is_library_file(frame.file)), None)
    return own if own is not None or not frames else frames[0]


def own_first(frames: Sequence[Frame]) -> list[Frame]:
    """The frames of the user's own code, innermost first, and those of libraries after them."""
    return sorted(frames, key=lambda frame: is_library_file(frame.file))


def library_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame where it is a library's and a frame of the user's own code is further out; else None."""
    return frames[0] if frames and own_frame(frames) is not frames[0] else None


def library_text(frames: Sequence[Frame]) -> str | None:
    """The innermost line of the library that the user's line called, such as `equinox/nn/_linear.py:97`; None without one."""
    frame = library_frame(frames)
    return None if frame is None else f"{package_path(frame.file)}:{frame.line}"


def line_text(frames: Sequence[Frame], *, is_short: bool = False) -> str:
    """The user's line, followed by the library's: `/home/me/model.py:31 (flax/linen/linear.py:287)`; "" without frames.

    Args:
      frames: innermost first.
      is_short: gives only the name of the user's file, without its folder.
    """
    frame, library = own_frame(frames), library_text(frames)
    if frame is None:
        return ""
    file = re.split(r"[/\\]", frame.file)[-1] if is_short else frame.file
    return f"{file}:{frame.line}" + (f" ({library})" if library else "")


PHASES = ("forward", "backward", "recomputed", "rest")
"""Parts of a differentiated program; see `phases`."""


def phases(op_name: str) -> tuple[str, ...]:
    """The parts of a differentiated program that an operation belongs to, in the order of `PHASES`.

    By the marks that JAX leaves in its name stack: "backward" below `transpose(...)`; "recomputed" where
    `jax.checkpoint` computes a forward operation once more, for the backward pass; "forward" below `jvp(...)`
    alone; else "rest": what is not differentiated, such as an optimizer. More than one for an operation that XLA
    merged of several; () for one without a name.
    """
    found = {_phase(name) for name in merged_names(op_name)} - {""}
    return tuple(phase for phase in PHASES if phase in found)


def _phase(name: str) -> str:
    if RECOMPUTED in name:
        return "recomputed"
    if "transpose(" in name:
        return "backward"
    if "jvp(" in name:
        return "forward"
    return "rest" if name else ""


def merged_names(op_name: str) -> Iterator[str]:
    """The names of the operations that XLA made one of: `a;b`, and `f/(a:b)` for f/a and f/b."""
    for name in op_name.split(";"):
        scope, separator, group = ("", "(", name[1:]) if name.startswith("(") else name.partition("/(")
        if separator and group.endswith(")") and ":" in group:
            yield from (f"{scope}/{part}" if scope else part for part in cut(group[:-1], ":"))
        else:
            yield name


@dataclasses.dataclass(frozen=True, slots=True)
class Root:
    """Where the user's program begins on the Python stack, so that origins can end there.

    JAX's locations go on into whoever called the lowering, and a cached lowering remembers an
    earlier caller.

    Attributes:
      scope: the `op_name` that every operation's begins with; alone it names no operation.
      file: of the function that was lowered, "" when not known.
      lines: its first and last line.
      callers: (file, line) of the stack that asked for the lowering.
    """

    scope: str = ""
    file: str = ""
    lines: tuple[int, int] = (0, 0)
    callers: frozenset[tuple[str, int]] = dataclasses.field(default=frozenset(), repr=False)

    def trim(self, origins: Iterable[Origin]) -> tuple[Origin, ...]:
        """The origins that name an operation, without the frames above the function."""
        named = (o for o in origins if o.op_name != self.scope or not o.op_name)
        found = [Origin(o.op_name, self._below(o.frames)) for o in named]
        return tuple(dict.fromkeys(found) if len(found) > 1 else found)  # a hash goes through all frames

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
