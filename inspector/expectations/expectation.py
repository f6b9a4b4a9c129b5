"""`expect`: checks of a compiled program, one readable line per check.

    expect(step, *args, target="tpu:v5e:2x4").collectives("all-reduce", axes="data", at_most=2).no_float64()

A check that fails raises at once, with the results of all checks so far; in a `with` block all checks run first. Checks of
unknown quantities fail with the reason.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import FlagValue, Options
from inspector.compilation.target import Target
from inspector.errors import ExpectationError, ParameterError
from inspector.expectations import (
    accuracy_checks,
    baseline_checks,
    collective_checks,
    content_checks,
    finding_checks,
    number_checks,
    time_checks,
)
from inspector.expectations.baseline import compiler_text
from inspector.expectations.baseline_context import Keeping
from inspector.expectations.baseline_record import Above
from inspector.expectations.check_result import CheckResult, TableLine
from inspector.expectations.limits import Amount, Limit
from inspector.expectations.message import ProgramHeading, message
from inspector.stages.compiled import Compiled, as_compiled
from inspector.stages.lowered import Lowered
from inspector.stages.retrace_events import RETRACE_COLUMNS
from inspector.support.tracebacks import without_own_frames
from inspector.support.units import counted, format_count, parse_bytes, parse_count, parse_seconds

if TYPE_CHECKING:
    from inspector.lowering.axis_env import AxisEnv
    from inspector.lowering.pallas import CompilerParams


@without_own_frames
def expect(
    fun: Any,
    *args: Any,
    target: str | Target = "attached",
    options: Options | Mapping[str, FlagValue] | str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    axis_env: AxisEnv | None = None,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    compiler_params: CompilerParams | None = None,
    keeping: Keeping | None = None,
    **keywords: Any,
) -> Expectation:
    """Compiles a program and returns an object with checks of it.

    Args:
      fun: a function with its arguments, or any other input of `inspector.lower`; or a `Compiled`, checked as it is.
      args: example arguments; shapes and dtypes are enough.
      target: the target device.
      options: compiler options.
      kwargs: keyword arguments of the function, including those whose names are parameters of `expect`.
      axis_env: axis names and sizes, as for `inspector.lower`.
      static_argnums: positions of static arguments.
      static_argnames: names of static arguments.
      donate_argnums: positions of donated arguments.
      compiler_params: parameters of Pallas kernels.
      keeping: files for baselines and failed programs; None for no baseline file and inspector's own folder.
      keywords: other keyword arguments of the function.

    Returns:
      The `Expectation`, whose methods are the checks.

    Raises:
      LoweringError, CompilationError, OptionError, TargetError: as `inspector.lower` and `Lowered.compile`.
    """
    files = keeping or Keeping()
    if isinstance(fun, CompiledProgram):
        if args or kwargs or keywords:
            raise ParameterError(
                "A Compiled is checked without arguments. To check other arguments, pass the function with them."
            )
        return Expectation(as_compiled(fun), files)
    from inspector.lowering.keywords import function_keywords
    from inspector.lowering.lower import lower
    from inspector.lowering.retrace_causes import retraces

    named = function_keywords(fun, args, kwargs, keywords, expect)
    lowered = lower(
        fun, *args, kwargs=named, axis_env=axis_env, static_argnums=static_argnums, static_argnames=static_argnames,
        donate_argnums=donate_argnums, target=None if isinstance(fun, Lowered) else target, compiler_params=compiler_params,
    )  # fmt: skip
    again = None
    if callable(fun) and axis_env is None:

        def again(*more: Any, **others: Any) -> Any:
            return retraces(fun, (args, named), (more, others), static_argnums, static_argnames)

    # Recording buffers adds little time, and shows the live values at the peak.
    return Expectation(lowered.compile(options, target, products=("buffers",)), files, again, (args, named), lowered)


class Expectation:
    """Checks of a compiled program. Each check returns the same object, so that calls can be chained.

    Limits are numbers or texts with units: `exactly`, or `at_most` and `at_least`, alone or together.

    Attributes:
      compiled: the checked program.
      findings: the results of the checks so far.
    """

    def __init__(
        self,
        compiled: Compiled,
        keeping: Keeping | None = None,
        again: Callable[..., Sequence[Any]] | None = None,
        arguments: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {}),
        lowered: Lowered | None = None,
    ) -> None:
        """Called by `expect`."""
        self.compiled = compiled
        self.findings: list[CheckResult] = []
        self._keeping = keeping or Keeping()
        self._again = again
        self._arguments = arguments
        self._lowered = lowered
        self._is_gathering = False
        self._wanted: list[collective_checks.Wanted] = []

    # ------------------------------------------------------------------ collectives

    def collectives(
        self,
        *opcodes: str,
        axes: str | Sequence[str] | None = None,
        exactly: int | None = None,
        at_most: int | None = None,
        at_least: int | None = None,
        bytes_at_most: Amount | None = None,
    ) -> Self:
        """Checks the number of collectives in the program, each counted once even if it runs several times.

        Args:
          opcodes: kinds, such as "all-reduce"; none for all kinds.
          axes: exactly these mesh axes, such as "data" or ("data", "model"); None for any.
          exactly: the exact number.
          at_most: the largest allowed number.
          at_least: the smallest allowed number.
          bytes_at_most: the most bytes that one device may send in them in one execution of the program.
        """
        __tracebackhide__ = True
        wanted = collective_checks.Wanted.of(opcodes, axes)
        collectives = self.compiled.collectives().items
        self._wanted.append(wanted)
        checks = []
        if (exactly, at_most, at_least) != (None, None, None) or bytes_at_most is None:
            checks.append(
                collective_checks.check_count(collectives, wanted, Limit.of(exactly, at_most, at_least, parse_count))
            )
        if bytes_at_most is not None:
            checks.append(
                collective_checks.check_bytes(collectives, wanted, Limit.of(None, bytes_at_most, None, parse_bytes))
            )
        return self._add(*checks)

    def no_collectives(self, *opcodes: str, axes: str | Sequence[str] | None = None) -> Self:
        """Checks that there are no collectives: none at all, none of some kinds, or none over some axes."""
        __tracebackhide__ = True
        return self.collectives(*opcodes, axes=axes, exactly=0)

    def no_other_collectives(self) -> Self:
        """Checks that there are no collectives except those that earlier checks selected."""
        __tracebackhide__ = True
        return self._add(collective_checks.check_others(self.compiled.collectives().items, self._wanted))

    # ------------------------------------------------------------------ numbers

    def number(
        self, key: str, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks any number of the program by its name in `inspector.compare`, such as "generated_code_bytes"."""
        __tracebackhide__ = True
        return self._add(number_checks.check(self.compiled, key, exactly, at_most, at_least))

    def peak_bytes(
        self, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks the peak of the main memory that one execution takes on one device."""
        __tracebackhide__ = True
        return self.number("peak_bytes", exactly=exactly, at_most=at_most, at_least=at_least)

    def temp_bytes(
        self, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks the bytes of temporaries in main memory on one device."""
        __tracebackhide__ = True
        return self.number("temp_bytes", exactly=exactly, at_most=at_most, at_least=at_least)

    def flops(
        self, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks the floating-point operations of one execution on one device."""
        __tracebackhide__ = True
        return self.number("flops", exactly=exactly, at_most=at_most, at_least=at_least)

    def bytes_accessed(
        self, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks the operand and result bytes of everything that accesses memory."""
        __tracebackhide__ = True
        return self.number("bytes_accessed", exactly=exactly, at_most=at_most, at_least=at_least)

    def kernels(
        self, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks the number of kernels that one execution launches; kernels in loops count as often as they run."""
        __tracebackhide__ = True
        return self.number("kernels", exactly=exactly, at_most=at_most, at_least=at_least)

    def fusions(
        self, *, exactly: Amount | None = None, at_most: Amount | None = None, at_least: Amount | None = None
    ) -> Self:
        """Checks the number of launched kernels that are fusions."""
        __tracebackhide__ = True
        return self.number("fusions", exactly=exactly, at_most=at_most, at_least=at_least)

    # ------------------------------------------------------------------ measured time

    def time(
        self,
        *,
        at_most: Amount | None = None,
        at_least: Amount | None = None,
        runs: int = 20,
        kernel: str | None = None,
    ) -> Self:
        """Checks the measured time of one execution, or of one kernel in it: the median over `runs` executions.

        Runs the program on the arguments of `expect` under JAX's profiler, so the target must be attached or a CPU. Times
        depend on the machine and its load. Leave room between limit and measurement.

        Args:
          at_most: the longest allowed time, such as "2 ms", or in seconds.
          at_least: the shortest allowed time.
          runs: number of measured executions.
          kernel: name of an instruction; None for the wall-clock time of the whole execution.

        Raises:
          ParameterError: no limit, or the program ran no such kernel.
          TargetError: the device is not attached, so the program cannot run.
          ExecutionError: a failure at run time.
        """
        __tracebackhide__ = True
        bound = Limit.of(None, at_most, at_least, parse_seconds)
        args, kwargs = self._arguments
        profile = self.compiled.profile(*args, repeat=runs, **kwargs)
        return self._add(time_checks.check(profile, bound, kernel))

    # ------------------------------------------------------------------ accuracy

    def accuracy(self, *, rtol: float | None = None, atol: float | None = None) -> Self:
        """Checks the results against a reference in which every floating-point value has 64 bits (docs/accuracy.md).

        Runs the program with its options, and the reference in another process, on the arguments of `expect`. A failure shows the
        line whose value departs from the reference.

        Args:
          rtol: the relative tolerance of NumPy's `allclose`; None for the default of each output's type.
          atol: the absolute tolerance; None for `rtol` times the root mean square of the output.

        Raises:
          ParameterError: `expect` was called without the function, or an invalid tolerance.
          ExecutionError: a failure at run time.
        """
        __tracebackhide__ = True
        if self._lowered is None:
            raise ParameterError("accuracy needs the function with its arguments: expect(step, *args).accuracy().")
        from inspector.stages.accuracy import begin_accuracy

        compiled, (args, kwargs) = self.compiled, self._arguments
        measured = begin_accuracy(
            self._lowered, args, kwargs, target=compiled.target, options=compiled.options, rtol=rtol, atol=atol
        ).result()
        return self._add(accuracy_checks.check(measured, rtol, atol))

    # ------------------------------------------------------------------ contents

    def no_float64(self) -> Self:
        """Checks that no value has a 64-bit floating-point type, including complex numbers with 64-bit parts."""
        __tracebackhide__ = True
        return self._add(content_checks.check_without(self.compiled, content_checks.FLOAT64))

    def no_dtypes(self, *names: str) -> Self:
        """Checks that no value has one of some dtypes, such as "float32" in a program that should compute in bfloat16."""
        __tracebackhide__ = True
        return self._add(content_checks.check_without(self.compiled, _types(names)))

    def only_dtypes(self, *names: str) -> Self:
        """Checks that every value has one of some dtypes; indices and conditions count too."""
        __tracebackhide__ = True
        return self._add(content_checks.check_only(self.compiled, _types(names)))

    def no_host_transfers(self) -> Self:
        """Checks that there are no callbacks, no infeed or outfeed, and no values in host memory."""
        __tracebackhide__ = True
        return self._add(content_checks.check_no_transfers(self.compiled))

    def donation_honored(self, *paths: str) -> Self:
        """Checks that outputs reuse the buffers of all donated arguments, or of some, such as "params"."""
        __tracebackhide__ = True
        return self._add(content_checks.check_donations(self.compiled, paths))

    def no_full_rematerialization(self) -> Self:
        """Checks that the partitioner replicates no array in order to reshard it ("involuntary full rematerialization")."""
        __tracebackhide__ = True
        return self._add(content_checks.check_no_rematerialization(self.compiled))

    def no_recompile(self, *args: Any, **kwargs: Any) -> Self:
        """Checks that a call with these arguments is neither traced nor compiled again after the checked call.

        XLA compiles again for other shardings, for other devices, and for arrays that are committed to a device when the
        earlier ones were not. Pass real arrays to both calls.

        Raises:
          ParameterError: `expect` was called without the function.
        """
        __tracebackhide__ = True
        if self._again is None:
            raise ParameterError(
                "no_recompile needs the function with its arguments: expect(step, *args).no_recompile(*others)."
            )
        retraces = self._again(*args, **kwargs)
        rows = [RETRACE_COLUMNS.texts("check", each) for retrace in retraces for each in retrace.differences()]
        lines = tuple(TableLine(cells, (), is_against=True) for cells in rows)
        causes = ", ".join(dict.fromkeys(each.cause for each in retraces))
        got = f"{format_count(len(retraces))}: {causes}" if retraces else "none"
        event = "compiles" if any(each.event == "compile" for each in retraces) else "traces"
        return self._add(
            CheckResult(f"{event} for another call", "none", got, not retraces, RETRACE_COLUMNS.titles("check"), lines)
        )

    def no_findings(self, *kinds: str, above: str | None = None) -> Self:
        """Checks that there is nothing to change that would gain more than a limit. See docs/findings.md.

        Args:
          kinds: kinds of findings, such as "undonated"; none for all kinds.
          above: the largest allowed gain in bytes ("1 MiB"), seconds ("1 ms"), or percent of the time or of the peak memory
            ("2 %"); None for 1 %.

        Raises:
          ParameterError: an unknown kind, or an invalid limit.
        """
        __tracebackhide__ = True
        limit = finding_checks.LargestGain.of(above)
        return self._add(finding_checks.check(self.compiled.findings(kinds=kinds or None), limit))

    # ------------------------------------------------------------------ baselines

    def baseline(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        name: str | None = None,
        above: Above = 0,
        ignore: Collection[str] = (),
        update: bool | None = None,
    ) -> Self:
        """Checks that no number is worse than recorded, and that there is no new kind of collective or element type.

        Args:
          path: the baseline file; None for the file of the test.
          name: the name of the record; None for the name of the test, or of the program.
          above: the allowed increase over the record: a share such as "5%" for all numbers, or shares and amounts by
            name, such as {"peak_bytes": "10%", "temp_bytes": "1 MiB"}.
          ignore: names of numbers that may change, such as "fusions", "collectives" or "element_types".
          update: true to write the record instead of checking it; None for the value of `--inspector-update`.

        Raises:
          ParameterError: there is no path, or an unknown number.
          ModuleError: the file is not a baseline.
        """
        __tracebackhide__ = True
        file = self._keeping.baselines if path is None else Path(path)
        if file is None:
            raise ParameterError(
                "baseline() needs a file. Give its path, such as baseline('baselines.json'), or use the fixture hlo."
            )
        is_written = self._keeping.update if update is None else update
        named = self._keeping.name_for(name, self.compiled.program.name)
        results, compared = baseline_checks.check(self.compiled, file, named, above, ignore, is_written=is_written)
        self._keeping.compared.append(compared)
        return self._add(*results)

    # ------------------------------------------------------------------ failing

    def __enter__(self) -> Self:
        """Collects failures until the end of the block."""
        self._is_gathering = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        __tracebackhide__ = True
        self._is_gathering = False
        if kind is None:
            self._raise()

    def _add(self, *findings: CheckResult) -> Self:
        __tracebackhide__ = True
        self.findings += findings
        if not self._is_gathering:
            self._raise()
        return self

    def _raise(self) -> None:
        __tracebackhide__ = True
        if all(each.is_met for each in self.findings):
            return
        saved = self._keeping.save(self.compiled)
        commands = () if saved is None else (f"inspector explore {shlex.quote(str(saved))}",)
        about = ProgramHeading(
            self.compiled.program.name, str(self.compiled.target), compiler_text(self.compiled), commands
        )
        raise ExpectationError(message(about, self.findings))

    def __repr__(self) -> str:
        met = sum(bool(each.is_met) for each in self.findings)
        return f"<Expectation of {self.compiled.program.name} for {self.compiled.target}: {met} of {counted(len(self.findings), 'check')} met>"


def _types(names: Sequence[str]) -> list[str]:
    if not names:
        raise ParameterError("No dtypes given. Name at least one, such as 'float32'.")
    return [content_checks.element_type(name) for name in names]
