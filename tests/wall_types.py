"""The types that pass the wall, `inspector/_jax`: read from the source, names followed to their definitions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property

from tests.project import parsed

WALL = "inspector._jax"
# What stands for the user's own values, which are Any to everyone.
USERS_OWN = frozenset({f"{WALL}.values.{name}" for name in ("UserValue", "UserFunction", "KeyPath")})
NUMPY = frozenset({"np", "numpy", "npt"})


class Surface:
    """Every name of the wall that other rooms import, with the types in its signature."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._trees = {name: parsed(source) for name, source in sources.items()}

    @cached_property
    def imported(self) -> dict[str, str]:
        """Dotted names of the wall, each with a module that imports it."""
        found: dict[str, str] = {}
        for module, tree in self._trees.items():
            if not module.startswith(WALL):
                found |= dict.fromkeys(self._taken(tree), module)
        return found

    def _taken(self, tree: ast.Module) -> Iterator[str]:
        modules: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(WALL):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    if full in self._trees:
                        modules[alias.asname or alias.name] = full
                    else:
                        yield full
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                yield f"{modules[node.value.id]}.{node.attr}"

    def unsaid(self, allowed: Mapping[str, str]) -> list[str]:
        """Names whose types say nothing (`Any`, `object`), or speak of JAX's private classes.

        Args:
          allowed: names, and modules whose names all are, that are not looked at.
        """
        pending, seen, found = list(self.imported), set(USERS_OWN), list[str]()
        while pending:
            name = pending.pop()
            module, _, own = name.rpartition(".")
            if name in seen or name in allowed or module in allowed:
                continue
            seen.add(name)
            for annotation in self._annotations(module, own):
                for part in _names(annotation):
                    full = self._resolved(module, part)
                    if full.startswith(f"{WALL}."):
                        pending.append(full)
                    elif _is_unsaid(full):
                        found.append(f"{name}: {ast.unparse(annotation)}")
        return sorted(set(found))

    def _definition(self, module: str, name: str) -> ast.stmt | None:
        for node in self._trees[module].body if module in self._trees else ():
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if getattr(node, "name", None) == name or any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return node
        return None

    def _annotations(self, module: str, name: str) -> Iterator[ast.expr]:
        """Of a function, of the public members of a class and its bases, or the value of an alias."""
        node = self._definition(module, name)
        if isinstance(node, ast.FunctionDef):
            yield from _of_function(node)
        elif isinstance(node, ast.ClassDef):
            yield from node.bases
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and (member.name == "__init__" or member.name[0] != "_"):
                    yield from _of_function(member)
                elif isinstance(member, ast.AnnAssign) and ast.unparse(member.target)[0] != "_":
                    yield member.annotation
        elif isinstance(node, ast.Assign) and name[0].isupper() and not name.isupper():
            yield node.value

    def _resolved(self, module: str, dotted: str) -> str:
        """The full name of what a module calls so, followed through its imports."""
        root, _, rest = dotted.partition(".")
        for node in ast.walk(self._trees[module]):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if (alias.asname or alias.name.split(".")[0]) == root:
                        return ".".join(filter(None, (alias.name if alias.asname else root, rest)))
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == root:
                        return ".".join(filter(None, (node.module, alias.name, rest)))
        return f"{module}.{dotted}" if self._definition(module, root) is not None else dotted


def _of_function(node: ast.FunctionDef) -> Iterator[ast.expr]:
    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    for argument in given:
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
        elif argument is not None and argument.arg not in ("self", "cls"):
            yield ast.Name("Any")
    yield ast.Name("Any") if node.returns is None else node.returns


def _names(annotation: ast.expr) -> Iterator[str]:
    """The dotted names in a type, those within strings too; what NumPy's types hold is left out."""
    if isinstance(annotation, (ast.Name, ast.Attribute)):
        yield ast.unparse(annotation)
    elif isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from _names(ast.parse(annotation.value, mode="eval").body)
    elif isinstance(annotation, ast.Subscript):
        yield ast.unparse(annotation.value)
        if ast.unparse(annotation.value).split(".")[0] not in NUMPY and ast.unparse(annotation.value) != "Literal":
            yield from _names(annotation.slice)
    else:
        for child in ast.iter_child_nodes(annotation):
            if isinstance(child, ast.expr):
                yield from _names(child)


def _is_unsaid(full: str) -> bool:
    return full in ("Any", "object", "typing.Any") or full.split(".")[0] == "jaxlib" or full.startswith("jax._src")
