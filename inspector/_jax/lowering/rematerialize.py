"""Rematerialization by name scope: recomputes values of a forward pass in the backward pass instead of keeping them in memory.

Does to the jaxpr of a whole program, for the operations under a name scope, what `jax.checkpoint` does around a function:
the values that the backward operations of that scope use from its forward ones are computed again from the inputs of the scope,
after a barrier, so that XLA neither merges the two computations nor moves the second one up.

Private JAX: `source_info_util` (name stacks and tracebacks of equations), `Primitive.get_bind_params`,
`JaxprEqnContext.manager`, `named_sharding.UNSPECIFIED`.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax._src.named_sharding import UNSPECIFIED

from inspector._jax.lowering.jaxprs import open_jaxpr
from inspector._jax.lowering.stages import Traced, with_jaxpr
from inspector.errors import ParameterError
from inspector.support.name_stacks import RECOMPUTED, names_of

_CALLS = ("jit", "pjit")


@dataclasses.dataclass(frozen=True, slots=True)
class _Constant:
    """An operand that is a constant."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """An equation of the program or of a function that it calls.

    Attributes:
      equation: JAX's equation.
      operands: numbers of values, or constants.
      results: numbers of values.
      stack: its name stack, starting at the program.
      key: path of its scope, including the scope itself; "" outside all scopes.
    """

    equation: Any
    operands: tuple[int | _Constant, ...]
    results: tuple[int, ...]
    stack: Any
    key: str

    @property
    def is_backward(self) -> bool:
        return "transpose(" in str(self.stack)

    @property
    def can_be_repeated(self) -> bool:
        return bool(self.key) and not self.is_backward and not self.equation.effects

    @property
    def values(self) -> Iterator[int]:
        return (operand for operand in self.operands if not isinstance(operand, _Constant))


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """Steps that are recomputed for one scope.

    Attributes:
      steps: in program order.
      entering: values that the steps use from outside the block.
      at: index of the step before which they are repeated.
      behind: a value of the backward pass that must be computed first; None if there is none.
    """

    steps: tuple[_Step, ...]
    entering: tuple[int, ...]
    at: int
    behind: int | None


def with_rematerialized(traced: Traced, scopes: Sequence[str]) -> Traced:
    """Returns a traced call of the program that `rematerialized` makes.

    Raises:
      ParameterError: a scope keeps nothing for a backward pass.
    """
    return with_jaxpr(traced, rematerialized(traced.jaxpr, scopes))


def rematerialized(jaxpr: Any, scopes: Sequence[str], axis_env: Sequence[tuple[Hashable, int]] = ()) -> Any:
    """Returns a program in which the values of some name scopes are recomputed for the backward pass.

    Args:
      jaxpr: a closed jaxpr.
      scopes: names as in `jax.named_scope`, prefixed with outer names and a slash if one name alone is ambiguous;
        `*` matches anything.
      axis_env: names and sizes of the axes that are bound around it.

    Raises:
      ParameterError: a scope keeps nothing for a backward pass.
    """
    program = _Program(scopes)
    results = program.add(jaxpr, program.inputs(jaxpr), source_info_util.new_name_stack())
    blocks = program.blocks()
    for scope in scopes:
        if not any(_key([scope], step.stack) for block in blocks for step in block.steps):
            raise ParameterError(_nothing(scope, program.steps))
    evaluation = _Evaluation(program.steps, blocks, results)
    made = jax.make_jaxpr(evaluation, axis_env=list(axis_env) or None)(*jaxpr.in_avals)
    assert list(made.in_avals) == list(jaxpr.in_avals), (made.in_avals, jaxpr.in_avals)
    named = open_jaxpr(made).replace(debug_info=open_jaxpr(jaxpr).debug_info)
    return named if open_jaxpr(made) is made else made.replace(jaxpr=named)


class _Program:
    """A jaxpr as a list of steps, with calls of jitted functions inlined."""

    def __init__(self, scopes: Sequence[str]) -> None:
        self.steps: list[_Step] = []
        self._scopes = scopes
        self._numbers = itertools.count()

    def inputs(self, jaxpr: Any) -> list[int | _Constant]:
        """Returns new numbers for the inputs of a jaxpr."""
        return [next(self._numbers) for _ in open_jaxpr(jaxpr).invars]

    def add(self, closed: Any, operands: Sequence[int | _Constant], stack: Any) -> list[int | _Constant]:
        """Adds a closed jaxpr's equations, and returns the numbers or constants of its results."""
        jaxpr = open_jaxpr(closed)
        known: dict[Any, int | _Constant] = dict(zip(jaxpr.constvars, map(_Constant, closed.consts), strict=True))
        known |= dict(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> int | _Constant:
            return _Constant(atom.val) if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            inputs, own = tuple(map(read, equation.invars)), stack + equation.source_info.name_stack
            if equation.primitive.name in _CALLS and _is_plain(equation):
                results = self.add(equation.params["jaxpr"], inputs, own.extend(f"jit({equation.params['name']})"))
            else:
                results = [next(self._numbers) for _ in equation.outvars]
                key = _key(self._scopes, own)
                self.steps.append(_Step(equation, inputs, tuple(n for n in results if isinstance(n, int)), own, key))
            known |= dict(zip(equation.outvars, results, strict=True))
        return list(map(read, jaxpr.outvars))

    def blocks(self) -> list[_Block]:
        """Returns the steps to repeat, and where."""
        forward = [i for i, step in enumerate(self.steps) if not step.is_backward]
        groups = itertools.groupby(forward, lambda i: self.steps[i].key if self.steps[i].can_be_repeated else "")
        return [block for key, group in groups if key for block in self._block(key, list(group))]

    def _block(self, key: str, group: Sequence[int]) -> Iterator[_Block]:
        """Yields the block of one run of forward steps of a scope; nothing if its backward steps use none of their values."""
        made = {value: i for i in group for value in self.steps[i].results}
        users = [
            i
            for i, step in enumerate(self.steps)
            if step.is_backward and step.key == key and any(value in made for value in step.values)
        ]
        if not users:
            return
        wanted = [made[value] for i in users for value in self.steps[i].values if value in made]
        needed = set[int]()
        while wanted:
            if (i := wanted.pop()) not in needed:
                needed.add(i)
                wanted += [made[value] for value in self.steps[i].values if value in made]
        steps = tuple(self.steps[i] for i in sorted(needed))
        own = {value for step in steps for value in step.results}
        entering = dict.fromkeys(value for step in steps for value in step.values if value not in own)
        yield _Block(steps, tuple(entering), users[0], self._behind(users))

    def _behind(self, users: Sequence[int]) -> int | None:
        earlier = {value for step in self.steps[: users[0]] if step.is_backward for value in step.results}
        return next((value for i in users for value in self.steps[i].values if value in earlier), None)


class _Evaluation:
    """Evaluates every step of a program once, and the steps of blocks twice."""

    def __init__(self, steps: Sequence[_Step], blocks: Sequence[_Block], results: Sequence[int | _Constant]) -> None:
        self._steps, self._results = steps, results
        self._starting: dict[int, list[_Block]] = {}
        for block in blocks:
            self._starting.setdefault(block.at, []).append(block)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Returns the program's results."""
        values: dict[int, Any] = dict(enumerate(arrays))
        again: dict[str, dict[int, Any]] = {}
        for i, step in enumerate(self._steps):
            for block in self._starting.get(i, ()):
                again.setdefault(step.key, {}).update(_repeated(block, values))
            known = collections.ChainMap(again.get(step.key, {}), values) if step.is_backward else values
            values |= zip(step.results, _call(step, step.stack, known), strict=True)
        return [_value(result, values) for result in self._results]


def _repeated(block: _Block, values: dict[int, Any]) -> dict[int, Any]:
    """Returns the results of a block, computed from values that XLA cannot identify with the original ones."""
    entering = {number: values[number] for number in block.entering}
    behind = {} if block.behind is None else {block.behind: values[block.behind]}
    barred = {n: v for n, v in (entering | behind).items() if not jnp.issubdtype(v.dtype, jax.dtypes.extended)}
    barred = dict(zip(barred, jax.lax.optimization_barrier(list(barred.values())), strict=True))
    values |= {number: barred[number] for number in behind if number in barred}
    made: dict[int, Any] = {}
    known = collections.ChainMap(made, entering | barred)
    start = source_info_util.new_name_stack(RECOMPUTED)
    for step in block.steps:
        made |= zip(step.results, _call(step, start + step.stack, known), strict=True)
    return made


def _call(step: _Step, stack: Any, values: Mapping[int, Any]) -> Sequence[Any]:
    equation = step.equation
    params = equation.primitive.get_bind_params(equation.params)
    context = source_info_util.user_context(equation.source_info.traceback, name_stack=stack)
    with context, equation.ctx.manager:
        results = equation.primitive.bind(*(_value(operand, values) for operand in step.operands), **params)
    return results if equation.primitive.multiple_results else [results]


def _value(operand: int | _Constant, values: Mapping[int, Any]) -> Any:
    return operand.value if isinstance(operand, _Constant) else values[operand]


def _is_plain(equation: Any) -> bool:
    """Reports whether a call of a jitted function only evaluates its equations, without shardings or donations."""
    shardings = (*equation.params["in_shardings"], *equation.params["out_shardings"])
    return all(sharding is UNSPECIFIED for sharding in shardings) and not any(equation.params["donated_invars"])


def _key(scopes: Sequence[str], stack: Any) -> str:
    """Returns the path of the matching scope, including the scope itself; "" if no scope matches."""
    names = _path_of(stack)
    for scope in scopes:
        length = scope.count("/") + 1
        pattern = re.compile(".*".join(map(re.escape, scope.split("*"))))
        for end in range(length, len(names) + 1):
            if pattern.fullmatch("/".join(names[end - length : end])):
                return "/".join(names[:end])
    return ""


def _path_of(stack: Any) -> list[str]:
    return [name for name in names_of(str(stack)) if name != RECOMPUTED]


def _nothing(scope: str, steps: Sequence[_Step]) -> str:
    known = list(dict.fromkeys(name for step in steps for name in _path_of(step.stack)))
    backward = any(step.is_backward for step in steps)
    why = (
        "Its backward pass uses no values of that scope, or the scope is inside a loop, a branch or a function with a custom"
        " derivative; in these cases, put jax.checkpoint around the body instead."
        if backward
        else "The program has no backward pass."
    )
    return f"Nothing under {scope!r} can be rematerialized. {why} Scopes: {', '.join(known[:40]) or 'none'}."
