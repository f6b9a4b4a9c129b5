"""`%explore f(x, w)`: explores a call instead of making it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from inspector.errors import ParameterError
from inspector.support.python_syntax import parse_python

if TYPE_CHECKING:
    from inspector.widgets.explorer import Explorer


def load_ipython_extension(ipython: Any) -> None:
    """Registers the magic; called by `%load_ext inspector`."""
    from IPython.core.magic import no_var_expand

    # Without it, IPython would take the braces of a dict for its own `{expression}`.
    @no_var_expand
    def magic(line: str) -> Explorer:
        return explore_call(line, ipython.user_ns)

    ipython.register_magic_function(magic, "line", "explore")


def explore_call(line: str, names: dict[str, Any]) -> Explorer:
    """Explores the call in a line of Python.

    Args:
      line: a call, e.g. `train_step(params, batch)`. Its positional and keyword arguments become those of the function;
        `f(x), dict(target='cpu:8')` passes further arguments to `explore`.
      names: the user's variables.

    Raises:
      ParameterError: the line is not a call, or the dict names no parameter of `explore`.
    """
    from inspector.api.explore import explore
    from inspector.lowering.keywords import check_options

    call, settings = _parse(line)

    def evaluate(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "<explore>", "eval"), names)

    fun = evaluate(call.func)
    args: list[Any] = []
    for argument in call.args:
        value = evaluate(argument.value if isinstance(argument, ast.Starred) else argument)
        args.extend(value) if isinstance(argument, ast.Starred) else args.append(value)
    kwargs: dict[str, Any] = {}
    for keyword in call.keywords:
        value = evaluate(keyword.value)
        kwargs |= value if keyword.arg is None else {keyword.arg: value}
    more = evaluate(settings) if settings is not None else {}
    check_options(more, explore)
    return explore(fun, *args, kwargs=kwargs, **more)


def _parse(line: str) -> tuple[ast.Call, ast.expr | None]:
    try:
        body = parse_python(line.strip(), mode="eval").body
    except SyntaxError as e:
        raise ParameterError(f"%explore takes a call, such as %explore f(x, w), got {line.strip()!r}: {e.msg}.") from e
    settings = None
    if isinstance(body, ast.Tuple) and len(body.elts) == 2:
        body, settings = body.elts
    if not isinstance(body, ast.Call):
        raise ParameterError(f"%explore takes a call, such as %explore f(x, w), got {line.strip()!r}.")
    return body, settings
