"""The exceptions of inspector, and values for unknown and partly known numbers.

    InspectorError
    ├── LoweringError                 the function could not be traced or lowered
    │   ├── ArgumentError             an argument is not what the function can be lowered with  (TypeError)
    │   ├── UnsupportedError          JAX has no lowering rule for this platform                (NotImplementedError)
    │   └── UnboundAxisError          a collective names an axis that nothing binds             (NameError)
    ├── ParameterError                a parameter of an inspector function has an invalid value (ValueError)
    ├── ModuleError                   malformed or unreadable HLO, StableHLO or saved file      (ValueError)
    │   └── ProfileError              a profile cannot be read, or has no measured program
    ├── OptionError                   an option that cannot be given to this compiler           (ValueError)
    │   ├── UnknownFlagError          no such flag in the installed jaxlib
    │   └── FlagTypeError             a flag's value has the wrong type                         (TypeError)
    ├── TargetError                   a target that is unknown, absent or too small             (ValueError)
    ├── CompilationError              XLA rejected the program                                  (RuntimeError)
    ├── WorkerDiedError               the worker process ended while it compiled or ran         (RuntimeError)
    │   ├── TimeLimitError            it exceeded the time limit and was stopped
    │   ├── WorkerLostError           it was ended from outside, or did not start: try again
    │   └── StartLimitError           both: the time limit ended before the process had started
    ├── ExecutionError                a compiled program could not be run                       (RuntimeError)
    ├── ResourceError                 the system ran out of memory, files, processes or threads (RuntimeError)
    ├── ExpectationError              a program failed a check                                  (AssertionError)
    ├── CancelledError                the job was canceled
    ├── ClosedError                   a closed Explorer was used                                (RuntimeError)
    ├── UnavailableError              a value that is `Unavailable` was used                    (AttributeError, TypeError)
    └── MissingPackageError           an optional package is not installed                      (ImportError)

Every message states the value received, the expected one and the remedy. Errors of other libraries are converted
where they enter (`_jax/`, `engines/`), with the original as `__cause__`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Never, Self

import numpy as np

from inspector.support.notebook import short

_MOST_CHARACTERS = 100_000  # more than any compiler says for people to read


def cut(text: str, most: int) -> str:
    """Shortens a text to a number of characters: keeps its beginning and end, and states how much is left out."""
    if len(text) <= most:
        return text
    kept = most - 60  # room for the words between the two
    head, tail = kept * 3 // 4, kept // 4
    return f"{text[:head]}\n… {len(text) - head - tail:,} characters left out …\n{text[-tail:]}"


class InspectorError(Exception):
    """Base class of every error that inspector raises on purpose. Messages may quote their input, so their length is bounded."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(cut(each, _MOST_CHARACTERS) if isinstance(each, str) else each for each in args))


class LoweringError(InspectorError):
    """The function could not be traced or lowered."""


class ArgumentError(LoweringError, TypeError):
    """An argument or a result is not an array, a ShapeDtypeStruct or a pytree of them."""


class UnsupportedError(LoweringError, NotImplementedError):
    """JAX cannot lower an operation of the function for this platform."""


class UnboundAxisError(LoweringError, NameError):
    """A collective names an axis that neither the axis environment nor a mesh binds."""


class ParameterError(InspectorError, ValueError):
    """A parameter of an inspector function has an invalid value."""


class ModuleError(InspectorError, ValueError):
    """HLO, StableHLO or a saved file cannot be read."""


class ProfileError(ModuleError):
    """A profile that `jax.profiler` wrote cannot be read, or does not contain the requested program."""


class OptionError(InspectorError, ValueError):
    """An option cannot be given to this compiler."""


class UnknownFlagError(OptionError):
    """The installed jaxlib has no flag of that name."""


class FlagTypeError(OptionError, TypeError):
    """A flag's value does not have the flag's type."""


class TargetError(InspectorError, ValueError):
    """A target is unknown, not available on this machine, or has too few devices."""


class CompilationError(InspectorError, RuntimeError):
    """XLA rejected the program.

    Attributes:
      buffers: the buffer assignment known by then, for `Buffers.from_bytes`; b"" for none.
    """

    buffers: bytes = b""


def of_resources(error: BaseException, doing: str) -> InspectorError | None:
    """Returns the ResourceError for a Python error that means exhausted memory, descriptors or threads; None for any other.

    Args:
      error: the Python error.
      doing: the work, e.g. "compiling 'jit_f' for cpu".
    """
    what = f" while {doing}" if doing else ""
    if isinstance(error, MemoryError):
        found = f"Memory ran out{what}. Free memory, or raise its limit (ulimit -v, the container's), and try again."
    elif isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        found = (
            f"Too many files are open{what} ({error}). Close some, or raise the limit (ulimit -n 4096), and try again."
        )
    elif isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN):
        found = f"The system has no room for another process{what} ({error}). End other processes or free memory, and try again."
    elif isinstance(error, RuntimeError) and "start new thread" in str(error):
        found = f"No thread can be started{what}. Raise the limit of threads (ulimit -u) or free memory, and try again."
    else:
        return None
    return ResourceError(found)


OPTIMIZED = (
    "XLA cannot compile this module again, because it is optimized already. Open the module before optimization: the text of"
    " jax.jit(f).lower(...).as_text(), or the before_optimizations file of a dump."
)
"""The error for an optimized module whose instructions only the original compile can produce."""


class WorkerDiedError(InspectorError, RuntimeError):
    """The worker process ended while it compiled or ran a program, for example because XLA crashed. Nothing else was lost.

    Attributes:
      buffers: the buffer assignment known by then, for `Buffers.from_bytes`; b"" for none.
    """

    buffers: bytes = b""


class TimeLimitError(WorkerDiedError):
    """A request exceeded its engine's time limit and its process was stopped. Nothing else was lost."""


class WorkerLostError(WorkerDiedError):
    """The process was ended from outside or could not be started, which has nothing to do with the request. Try again."""


class StartLimitError(TimeLimitError, WorkerLostError):
    """The time limit ended before the request's process had started."""


class ExecutionError(InspectorError, RuntimeError):
    """A compiled program could not be run."""


class ResourceError(InspectorError, RuntimeError):
    """The system ran out of memory, open files, processes or threads."""


class ExpectationError(InspectorError, AssertionError):
    """A program failed a check, or the checked quantity is unknown."""


class CancelledError(InspectorError):
    """The job was canceled before it had a result."""


class ClosedError(InspectorError, RuntimeError):
    """A closed Explorer was used."""


class UnavailableError(InspectorError, AttributeError, TypeError):
    """An `Unavailable` value was used as if it were known. The message states the reason and the remedy.

    An AttributeError, so that `hasattr` and `getattr` with a default keep working; a TypeError, as for any value that does
    not support an operation.
    """


class MissingPackageError(InspectorError, ImportError):
    """An optional package is not installed."""


def missing_jax(error: BaseException, what: str) -> MissingPackageError | None:
    """Returns the error to raise instead of an error that importing JAX raised; None for all other errors.

    Args:
      error: any error.
      what: the thing that needs JAX, in the words of the message: "Compiling", "inspector.lower".
    """
    if not isinstance(error, ModuleNotFoundError) or (error.name or "").partition(".")[0] not in ("jax", "jaxlib"):
        return None
    return no_jax(what)


def no_jax(what: str) -> MissingPackageError:
    """Returns the error of a feature that needs JAX where it is not installed; its argument as for `missing_jax`."""
    return MissingPackageError(
        f"{what} needs JAX, which is not installed in this environment. Saved files can be loaded, shown and compared"
        " without it. For anything else, install the package jax."
    )


@contextlib.contextmanager
def needs_jax(what: str) -> Iterator[None]:
    """Explains the import error of a missing JAX. Also a decorator.

    Args:
      what: as for `missing_jax`.

    Raises:
      MissingPackageError: JAX is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as e:
        missing = missing_jax(e, what)
        if missing is None:
            raise
        raise missing from None


def check_bool(name: str, value: object, error: type[ValueError] = ParameterError) -> bool:
    """Checks a boolean parameter. A text such as "no" would count as true in a condition, so it is rejected.

    Args:
      name: name of the parameter.
      value: value of the parameter.
      error: type of the error to raise.

    Raises:
      ValueError: (or `error`) the value is neither True nor False.
    """
    if not isinstance(value, bool | np.bool_):
        raise error(f"{name} must be True or False, got {short(value)}.")
    return bool(value)


@dataclasses.dataclass(frozen=True, slots=True)
class Unavailable:
    """An unknown value, with the reason. False in a condition, never a number.

    It can be printed, compared with `==`, hashed, copied and pickled. Any other use raises `UnavailableError` with the
    reason: public attributes, calls, `len`, iteration, indexing, `<`, arithmetic, conversion to a number, numeric formats.

    Attributes:
      reason: the reason, a sentence for the user.
      remedy: the way to get the value, or "" if there is none.
    """

    reason: str
    remedy: str = ""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"unavailable: {self.reason}" + (f" ({self.remedy})" if self.remedy else "")

    def __format__(self, spec: str) -> str:
        """Formats it as text: width and alignment apply, numeric formats do not."""
        if "." not in spec:
            with contextlib.suppress(ValueError):
                return format(str(self), spec)
        raise self._error(f"the format {spec!r}")

    def _error(self, use: str) -> UnavailableError:
        reason, remedy = self.reason.rstrip("."), self.remedy.rstrip(".")
        remedy = f" Remedy: {remedy}." if remedy else ""
        return UnavailableError(f"Cannot use {use} on an unavailable value: {reason}.{remedy}")

    # Type checkers see none of these: for them a use of a value that may be unavailable stays an error.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            if name.startswith("_") or name in ("reason", "remedy"):  # what Python, IPython and libraries probe
                raise AttributeError(f"'Unavailable' object has no attribute {name!r}", name=name, obj=self)
            raise self._error(f"the attribute {name!r}")

        def __call__(self, *_: object, **__: object) -> Never:
            raise self._error("a call")

        def __len__(self) -> Never:
            raise self._error("len()")

        # Iteration ends here too. There is no __iter__, by which pandas and others would take this for a list.
        def __getitem__(self, key: object) -> Never:
            raise self._error(f"an index or iteration, [{cut(repr(key), 100)}]")


def _refuse(operator: str) -> Callable[..., Never]:
    def refuse(self: Unavailable, *_: object) -> Never:
        raise self._error(operator)

    return refuse


for _name, _operator in {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "abs": "abs()", "round": "round()",
    "int": "int()", "float": "float()", "complex": "complex()",
    **{f"{side}{name}": symbol for side in ("", "r") for name, symbol in {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    }.items()},
}.items():  # fmt: skip
    setattr(Unavailable, f"__{_name}__", _refuse(_operator))


@dataclasses.dataclass(frozen=True, slots=True)
class Missing:
    """A part that a sum leaves out or only estimates.

    Attributes:
      name: name of the part, such as an instruction.
      kind: kind of the part in the singular, e.g. "custom call".
      counted: how the sum treats it.
    """

    name: str
    kind: str
    counted: str = "not counted"


class Partial(float):
    """A number with unknown parts: the known part, a number like any other, and the missing parts.

    Either `AtLeast` or `About`. Sums, and products and quotients with positive numbers, keep the missing parts, and are
    `About` if one of their parts is. All other arithmetic gives a plain `float` of the known part.

    Attributes:
      missing: the unknown parts, each once.
    """

    __slots__ = ("missing",)

    missing: tuple[Missing, ...]
    word = ""
    """Precedes the number in text."""

    def __new__(cls, known: float, missing: Iterable[Missing]) -> Self:
        """Makes one from the known part, in the unit of the sum, and at least one missing part."""
        number = super().__new__(cls, known)
        number.missing = tuple(dict.fromkeys(missing))
        return number

    @property
    def reason(self) -> str:
        """The missing parts, counted by kind: "1 custom call not counted"."""
        kinds = collections.Counter((part.kind, part.counted) for part in self.missing)
        return ", ".join(f"{n} {_plural(kind) if n > 1 else kind} {counted}" for (kind, counted), n in kinds.items())

    def __add__(self, other: float) -> Partial:
        return partial(float(self) + float(other), (*self.missing, *missing(other)), (self, other))

    __radd__ = __add__

    def __mul__(self, factor: float) -> float:
        product = float(self) * float(factor)
        return partial(product, (*self.missing, *missing(factor)), (self, factor)) if factor >= 0 else product

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> float:
        quotient = float(self) / float(divisor)
        return type(self)(quotient, self.missing) if divisor > 0 and not missing(divisor) else quotient

    def __reduce__(self) -> tuple[type[Partial], tuple[float, tuple[Missing, ...]]]:
        return type(self), (float(self), self.missing)

    def __repr__(self) -> str:
        return f"{self.word} {float(self)!r}; {self.reason}"

    __str__ = __repr__


class AtLeast(Partial):
    """A lower bound: the number is not less, whatever the missing parts are."""

    __slots__ = ()
    word = "at least"


class About(Partial):
    """An estimate: the missing parts are modeled, or counted in a way that a run may stay below."""

    __slots__ = ()
    word = "about"


def partial(known: float, missing: Iterable[Missing], of: Iterable[float] = ()) -> Partial:
    """Returns a number with unknown parts: `About` if it is made of such a number, else `AtLeast`.

    Args:
      known: the known part.
      missing: at least one unknown part.
      of: the numbers that it is made of.
    """
    return (About if any(isinstance(value, About) for value in of) else AtLeast)(known, missing)


def missing(value: float) -> tuple[Missing, ...]:
    """Returns the parts that a number leaves out; () for a known number."""
    return value.missing if isinstance(value, Partial) else ()


def total(values: Iterable[float]) -> float:
    """Returns the sum, `AtLeast` or `About` if one of the values is."""
    listed = list(values)
    parts = [part for value in listed for part in missing(value)]
    known = math.fsum(listed)
    return partial(known, parts, listed) if parts else known


def _plural(kind: str) -> str:
    noun, of, rest = kind.partition(" of ")
    return f"{noun}s{of}{rest}"
