"""Python source and jaxpr as listings: lines as they stand in the files, and where they come from."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import linecache
import runpy
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin
from inspector.lowering import listings
from inspector.lowering.listings import definition, source_listing

X = jax.ShapeDtypeStruct((3,), jnp.float32)


def f(x: Any, y: Any = 0) -> Any:
    return x + y


def nested(x: Any) -> Any:
    def inner(z: Any) -> Any:
        return (
            z
            + 1
        )  # fmt: skip

    return inner


@functools.lru_cache
@functools.lru_cache
def decorated(x: Any) -> Any:
    return x


class Holder:
    def method(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize(("fun", "function"), [
    (f, f), (jax.jit(f), f), (functools.partial(f, y=2), f), (functools.partial(jax.jit(f), y=2), f),
    (jax.vmap(jax.jit(f)), f), (decorated, decorated.__wrapped__), (nested, nested),
    (Holder().method, Holder.method), (jax.jit(Holder().method), Holder.method),
])  # fmt: skip
def test_the_definition_behind_wrappers_is_found(fun: Any, function: Callable[..., Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    # The last line with code in it: a bracket that closes has none.
    last = first + max(i for i, line in enumerate(lines) if line.strip(") \n").partition("#")[0])
    assert definition(fun) == (__file__, (first, last))


@pytest.mark.parametrize("fun", [len, functools.partial(len), None, 3])
def test_objects_without_code_have_no_definition(fun: Any) -> None:
    assert definition(fun) is None


LONG = """import functools

import jax.numpy as jnp

{space}

def helper(x):
    return jnp.tanh(x)


def unused(x):
    return x


@functools.lru_cache
@functools.lru_cache
def settings():
    return 2.0


def step(x):
    scale = settings()

    return helper(x) * scale
"""


@pytest.fixture
def module(tmp_path: Path) -> Any:
    def load(name: str, text: str) -> types.ModuleType:
        path = tmp_path / name / "steps.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("steps", path)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    yield load
    linecache.checkcache()


def shown(listing: Listing | Unavailable) -> list[tuple[int | None, str]]:
    """Label and text of each line; that the file has this line there is checked."""
    assert not isinstance(listing, Unavailable)
    found = list(zip(listing.labels, listing.text.split("\n"), strict=True))
    for number, (label, line) in enumerate(found):
        if label is None:
            assert listing.origins_of(number) == ()
        else:
            ((origin,),) = [listing.origins_of(number)]
            (frame,) = origin.frames
            assert (frame.line, origin.op_name, frame.function) == (label, "", "")
            assert linecache.getline(frame.file, label).rstrip("\n") == line
    return found


def test_only_the_relevant_definitions_of_a_long_file_are_shown(module: Any) -> None:
    steps = module("user", LONG.format(space="\n" * 60))
    lines = inspect.getsource(steps).splitlines()
    wanted = [
        (number, lines[number - 1])
        for function in (steps.helper, steps.step)
        for number in (inspect.getsourcelines(function)[1] + i for i in range(len(inspect.getsourcelines(function)[0])))
    ]
    assert [line for line in shown(inspector.lower(steps.step, X).source) if line[0] is not None] == wanted


def test_decorators_belong_to_their_function(module: Any) -> None:
    steps = module("user", LONG.format(space="\n" * 60))
    source = source_listing(steps.settings, ())
    assert [line for _, line in shown(source)][1:] == [
        "@functools.lru_cache", "@functools.lru_cache", "def settings():", "    return 2.0",
    ]  # fmt: skip


@pytest.mark.parametrize("length", [60, 61])
def test_a_file_of_60_lines_is_shown_whole(module: Any, length: int) -> None:
    text = LONG.format(space="\n" * (length - len(LONG.splitlines())))
    assert len(text.splitlines()) == length
    steps = module("user", text)
    found = shown(inspector.lower(steps.step, X).source)
    assert found[0] == (None, f"# {steps.__file__}")
    if length == 60:
        assert [line for _, line in found[1:]] == text.splitlines()
    else:
        assert len(found) < 20


def test_another_file_than_python_is_shown_completely(module: Any) -> None:
    steps = module("user", LONG.format(space="\n" * 60))
    path = Path(steps.__file__)
    path.write_text(path.read_text().replace("def unused", "deff unused"))
    linecache.checkcache()
    assert [line for _, line in shown(source_listing(steps.step, ()))][1:] == path.read_text().splitlines()


def at(file: str, line: int, count: int) -> Listing:
    """A listing of as many lines that come from one place."""
    return Listing.of("\n" * (count - 1), [(Origin(f"jit(f)/op{i}", (Frame(file, line, "g"),)),) for i in range(count)])


def headings(listing: Listing | Unavailable) -> list[str]:
    return [text.removeprefix("# ") for label, text in shown(listing) if label is None]


def test_the_functions_own_file_is_first_then_those_that_most_comes_from_then_libraries(module: Any) -> None:
    own, few, many = (module(name, "def fun(x):\n    return x\n") for name in ("own", "few", "many"))
    library = functools.__file__
    listings = [at(library, 1, 9), at(few.__file__, 1, 2), at(many.__file__, 2, 3), at(own.__file__, 1, 1)]
    assert headings(source_listing(own.fun, listings))[:3] == [own.__file__, many.__file__, few.__file__]
    assert set(headings(source_listing(own.fun, listings))[3:]) == {"functools.py"}
    assert headings(source_listing(None, listings[1:]))[:2] == [many.__file__, few.__file__]


def test_files_below_the_current_folder_are_named_from_there(module: Any, tmp_path: Path, monkeypatch: Any) -> None:
    steps = module("user", "def fun(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    assert headings(source_listing(steps.fun, ())) == ["user/steps.py"]


@pytest.mark.parametrize("folder", ["inspector", "tornado", "IPython/sub"])
def test_a_users_folder_may_be_named_as_machinery_is(module: Any, folder: str) -> None:
    steps = module(folder, "def fun(x):\n    return x\n")
    assert headings(source_listing(steps.fun, ())) == [steps.__file__]


@pytest.mark.parametrize("package", ["IPython", "click"])
def test_libraries_that_run_user_code_and_inspector_are_not_shown(module: Any, package: str) -> None:
    installed = module(f"site-packages/{package}", "def fun(x):\n    return x\n")
    assert isinstance(source_listing(installed.fun, ()), Unavailable)
    other = module("site-packages/flax", "def fun(x):\n    return x\n")
    assert headings(source_listing(other.fun, ())) == ["flax/steps.py"]
    assert isinstance(source_listing(inspector.lower, ()), Unavailable)


@pytest.mark.parametrize("name", ["/tmp/ipykernel_77/1234.py", "<ipython-input-3-ab>"])
def test_a_notebook_cell_is_shown_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = LONG.format(space="\n" * 60)
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    cell: dict[str, Any] = {}
    exec(compile(text, name, "exec"), cell)
    found = shown(inspector.lower(cell["step"], X).source)
    assert found[0] == (None, "# notebook cell")
    assert [line for _, line in found[1:]] == text.splitlines()


def test_without_a_file_the_source_is_not_to_be_had() -> None:
    made: dict[str, Any] = {}
    exec(compile("def fun(x):\n    return x\n", "<made>", "exec"), made)  # of "<string>" Python 3.13 has that of `-c`
    source = source_listing(made["fun"], ())
    assert isinstance(source, Unavailable)
    assert source.reason == "no source file of the program can be read"


def test_lines_of_a_jaxpr_come_from_where_they_are_written() -> None:
    def inner(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)

    def outer(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)
        return y + inner(y)

    listing = inspector.lower(outer, X).jaxpr_listing
    assert not isinstance(listing, Unavailable)
    first, own = inner.__code__.co_firstlineno, outer.__code__.co_firstlineno
    lines = {}
    for number, text in enumerate(listing.text.split("\n")):
        for origin in listing.origins_of(number):
            lines[origin.op_name] = [frame.line for frame in origin.frames if frame.file == __file__]
            assert origin.op_name.rpartition("/")[2] in text
    assert lines == {
        "jit(outer)/sin": [own + 1],
        "jit(outer)/tanh": [first + 1, own + 2],
        "jit(outer)/add": [own + 2],
    }


@pytest.mark.parametrize(
    ("folder", "module", "heading"),
    [
        ("env/lib/python3.11/site-packages", "layers/dense.py", "layers/dense.py"),
        ("lib/python3/dist-packages", "layers/dense.py", "layers/dense.py"),
        ("project", "models/dense.py", "models/dense.py"),  # from a notebook beside it, with the project on the path
        ("here", "dense.py", "dense.py"),
        ("here-too", "dense.py", None),  # not below `here`
    ],
)
def test_a_file_is_named_as_its_reader_would(
    folder: str, module: str, heading: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "project")
    file = tmp_path / folder / module
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("def dense(x):\n    return x @ x\n")
    dense = runpy.run_path(str(file))["dense"]
    source = inspector.lower(dense, jax.ShapeDtypeStruct((2, 2), "float32")).source
    assert not isinstance(source, Unavailable)
    assert source.text.split("\n")[0] == f"# {heading or file}"


def test_threads_that_parse_at_once_leave_each_others_source_whole() -> None:
    """Before Python 3.11.5 `ast.parse` fails there, and only there."""
    text = "x = f(a, b, [c, d], {e: (g, h)})\n" * 300
    found: list[int] = []

    def parse(depth: int) -> None:
        if depth:
            parse(depth - 1)
            return
        for _ in range(20):
            found.append(len(listings._definitions(text)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=parse, args=(depth,)) for depth in (0, 40, 90)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == [300] * 60
