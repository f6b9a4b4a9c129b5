"""Deliberate faults: small changes of a module's source that a test should notice."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One change of one line.

    Attributes:
      file: path from the repository's root.
      line: where the changed expression or statement begins, from 1.
      what: the change, such as "a < b -> a <= b".
      number: its place among those of the module.
    """

    file: str
    line: int
    what: str
    number: int


def faults(file: str, source: str) -> Iterator[Fault]:
    """Every fault that the operators make of a module: one at a time, docstrings, annotations and `repr` left alone."""
    for number, (_, place, changed) in enumerate(_all(ast.parse(source))):
        yield Fault(file, place.node.lineno, f"{_said(place.node)} -> {_said(changed)}", number)


def with_fault(source: str, fault: Fault) -> str:
    """The module with a fault that `faults` found in it."""
    tree, place, changed = next(itertools.islice(_all(ast.parse(source)), fault.number, None))
    return _with(tree, place.parent, place.field, place.index, changed)


class _Place(NamedTuple):
    """The place of a node, and its function."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.expr | ast.stmt
    function: ast.FunctionDef | None


def _all(tree: ast.AST) -> Iterator[tuple[ast.AST, _Place, ast.expr | ast.stmt]]:
    for place in _places(tree):
        for changed in _changes(place.node, place.function):
            if ast.dump(changed) != ast.dump(place.node):
                yield tree, place, changed


def _places(tree: ast.AST, function: ast.FunctionDef | None = None) -> Iterator[_Place]:
    """Yields the place of each node that may be changed."""
    if isinstance(tree, ast.FunctionDef):
        function = tree
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            if isinstance(child, (ast.expr, ast.stmt)):
                yield _Place(tree, field, index, child, function)
            yield from _places(child, function)


def _is_left_alone(node: ast.AST) -> bool:
    """Texts on their own, f-strings, imports, types, errors' words, logs and `__repr__`: no test need know them by heart.

    Nor what only asserts: `strict` says that two sequences are as long, and changes nothing where they are. Nor by how
    much a limit is one: a line more of a text that is cut, a second more to wait, a level of compression.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith("_log."):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _is_type(node):
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__")
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    if isinstance(node, ast.Assign):
        return all(isinstance(name, ast.Name) and _is_limit(name.id) for name in node.targets)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Raise, ast.AnnAssign, ast.Assert))


def _is_limit(name: str) -> bool:
    return name.isupper() and (name.endswith("_S") or not _LIMITS.isdisjoint(name.split("_")))


_LIMITS = frozenset(
    {"MAX", "MOST", "LEAST", "LIMIT", "LONGEST", "FARTHEST", "LEVEL", "SHOWN", "TRIES", "INCH", "INCHES"}
)


def _is_type(node: ast.expr) -> bool:
    """Reports whether an expression reads as a type, or as several that `|` joins: such a fault is one of the import."""
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_type(left) and _is_type(right)
        case ast.Subscript(value=value):
            return _is_type(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _BUILT_IN or (name[:1].isupper() and not name.isupper())
        case ast.Constant(value=value):
            return value is None
    return False


_BUILT_IN = frozenset({"bool", "int", "float", "str", "bytes", "list", "tuple", "dict", "set", "ndarray", "generic"})


def _changes(node: ast.AST, function: ast.FunctionDef | None) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in _COMPARED:
            yield ast.Compare(left, [_COMPARED[type(op)]()], right)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED:
            yield ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield values[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=other):
            yield body
            yield other
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.If(test=test, body=body, orelse=other):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, other)
        case ast.Return(value=ast.Constant(value=bool())):
            return  # its constant is changed
        case ast.Return(value=ast.expr() as value):
            yield ast.Return(ast.UnaryOp(ast.Not(), value) if _is_truth(function) else ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()


def _is_truth(function: ast.FunctionDef | None) -> bool:
    """Reports whether a function returns `bool`: None would do for False, and the types forbid it."""
    return function is not None and isinstance(function.returns, ast.Name) and function.returns.id == "bool"


def _with(tree: ast.AST, parent: ast.AST, field: str, index: int | None, changed: ast.AST) -> str:
    """The source with a node in another's place; the tree is left as it was."""
    held = getattr(parent, field)
    before = held if index is None else held[index]
    ast.copy_location(changed, before)
    try:
        if index is None:
            setattr(parent, field, changed)
        else:
            held[index] = changed
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    finally:
        if index is None:
            setattr(parent, field, before)
        else:
            held[index] = before


def _said(node: ast.AST) -> str:
    lines = ast.unparse(node).splitlines()
    return lines[0] + (" ..." if len(lines) > 1 else "")
