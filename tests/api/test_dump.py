"""Dump folders: those that XLA wrote here, partial ones, and damaged ones."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import inspector
from inspector.analysis.memory.timeline import Timeline
from inspector.api.dump import Dump
from inspector.api.dumped_module import DumpedModule
from inspector.api.opened_program import OpenedProgram
from inspector.cli.commands import inspector as command
from inspector.compilation.memory import Memory
from inspector.compilation.records.passes import Passes
from inspector.errors import InspectorError, ModuleError, ParameterError, Unavailable
from tests.absent import needs_gpu, needs_tpu
from tests.conftest import RunPython

_SCRIPT = """
import jax, jax.numpy as jnp
x = jnp.ones((64, 64))
def f(x, w): return jnp.tanh(x @ w).sum()
def g(x): return {g}
jax.jit(f)(x, x).block_until_ready()
jax.jit(g)(x).block_until_ready()
"""
_FLAGS = {
    "text": "--xla_dump_hlo_as_text",
    "proto": "--xla_dump_hlo_as_proto",
    "gzip": "--xla_dump_hlo_as_proto --xla_dump_compress_protos",
    "both": "--xla_dump_hlo_as_text --xla_dump_hlo_as_proto --xla_dump_emitter_re=^llvm$",
    "long": "--xla_dump_hlo_as_text --xla_dump_hlo_as_long_text",
}


def write_dump(run: RunPython, folder: Path, form: str, g: str = "jnp.sin(x) * 2") -> Path:
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.* {_FLAGS[form]} --xla_force_host_platform_device_count=8"
    done = run(_SCRIPT.format(g=g), {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def folder(one_device_python: RunPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dump(one_device_python, tmp_path_factory.mktemp("dump") / "both", "both")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def load(path: Path) -> Dump:
    dump = inspector.load(path)
    assert isinstance(dump, Dump)
    return dump


def opened(program: OpenedProgram | Unavailable) -> OpenedProgram:
    assert isinstance(program, OpenedProgram), program
    return program


def check_chain(passes: Passes | Unavailable, module: DumpedModule) -> None:
    """Each pass begins with the text that the one before it left; the first with the module before optimization."""
    assert isinstance(passes, Passes), passes
    assert passes.changed
    text = passes[0].before_index
    for each in passes:
        if not each.inner:
            assert each.before_index == text
        text = each.after_index
    names = {i.name for i in opened(module.before).module().instructions()}
    assert all(name in passes[0].before for name in names)
    assert opened(module.after).module().entry.root.name in passes[-1].after


def test_every_part_of_a_dump_opens(folder: Path) -> None:
    dump = load(folder)
    assert {"jit_f", "jit_g"} <= {module.name for module in dump}
    module = dump["f"]
    assert opened(module.before).is_optimized is False
    assert opened(module.after).is_optimized is True
    check_chain(module.passes, module)
    assert not isinstance(module.flags, Unavailable)
    assert module.flags.options.flags["xla_dump_to"] == str(folder)
    assert not isinstance(dump["g"].assembly, Unavailable)
    assert {"LLVM IR", "assembly"} <= set(dump["g"].assembly.stages)
    assert set(module.missing) <= {"pass times", "assembly"}
    rows = {row["name"]: row for row in dump.table().to_dict("records")}
    assert rows["jit_f"]["snapshots"] == module.snapshot_count > 0


def test_memory_equals_that_of_the_live_compile(folder: Path) -> None:
    import jax
    import jax.numpy as jnp

    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)

    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w).sum()

    live = inspector.lower(f, shape, shape).compile(target="cpu").memory
    dumped = load(folder)["f"].memory
    assert isinstance(live, Memory)
    assert isinstance(dumped, Memory)
    assert dumped.spaces == live.spaces


@pytest.mark.parametrize(
    "form", [*(pytest.param(each, marks=pytest.mark.slow) for each in ("text", "proto", "long")), "gzip"]
)
def test_dumps_in_every_form_open(form: str, one_device_python: RunPython, tmp_path: Path) -> None:
    module = load(write_dump(one_device_python, tmp_path / form, form))["jit_f"]
    check_chain(module.passes, module)
    assert isinstance(module.memory, Memory) == (form in ("proto", "gzip"))
    if form in ("text", "long"):
        assert isinstance(module.memory, Unavailable)
        assert "xla_dump_hlo_as_proto" in module.memory.remedy


def test_an_explorer_shows_the_passes_and_the_program_before(folder: Path) -> None:
    (variant,) = load(folder)["f"].exploration.variants
    assert variant.program is not None
    assert variant.lowered is not None
    assert isinstance(variant.program.passes, Passes)
    assert "stablehlo.dot_general" in str(variant.lowered.stablehlo)


def test_the_variant_of_a_dump_is_labeled_dumped_also_after_saving(folder: Path, tmp_path: Path) -> None:
    exploration = load(folder)["f"].exploration
    exploration.save(tmp_path / "f.inspector")
    saved = inspector.load(tmp_path / "f.inspector")
    assert isinstance(saved, inspector.Exploration)
    for each in (exploration, saved):
        explorer = each.explorer()
        (variant,) = explorer.variants
        assert variant.options.as_dict()  # the flags of the dump, which are no label
        message = variant.message()
        assert (message["label"], message["origin"], message["timing"]) == ("dumped", "dumped", "")
        assert message["warnings"] == []  # where it is from is a note
        assert any("was not compiled here" in note for note in explorer.lowered.notes)
        explorer.save(tmp_path / "again.inspector")
        explorer.close()
    again = inspector.load(tmp_path / "again.inspector")
    assert isinstance(again, inspector.Exploration)
    assert [v.label for v in again.variants] == ["dumped"]


def test_a_dump_with_only_texts_of_one_stage_opens(copy: Path) -> None:
    for file in copy.iterdir():
        if file.is_dir():
            shutil.rmtree(file)
        elif not file.name.endswith("jit_f.cpu_after_optimizations.txt"):
            file.unlink()
    (module,) = load(copy)
    assert opened(module.after).is_optimized
    assert isinstance(module.before, Unavailable)
    assert isinstance(module.passes, Unavailable)
    assert "xla_dump_hlo_pass_re" in module.passes.remedy
    assert {"before", "memory", "passes"} <= set(module.missing)


def test_cut_off_and_deleted_snapshots_are_reported(copy: Path) -> None:
    module = load(copy)["f"]
    texts = sorted(p for p in copy.glob("*jit_f.00*.txt"))
    texts[3].write_bytes(texts[3].read_bytes()[:-20])
    for form in ("txt", "hlo.pb"):
        texts[5].with_name(texts[5].name.removesuffix("txt") + form).unlink()
    passes = load(copy)["f"].passes
    assert isinstance(passes, Passes)
    assert texts[3].name in passes.note
    assert "lacks 1 snapshot, such as number 0005" in passes.note
    assert len(passes) <= len(module.passes)  # type: ignore[arg-type]


def test_a_damaged_proto_is_replaced_by_the_text(copy: Path) -> None:
    (proto,) = copy.glob("*jit_f.cpu_after_optimizations.hlo.pb")
    proto.write_bytes(proto.read_bytes()[:50])
    after = opened(load(copy)["f"].after)
    assert after.source.endswith(".txt")
    assert any("not read" in note for note in after.notes)


def test_links_pipes_and_folders_are_not_read(copy: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("HloModule secret\n}")
    (copy / "module_0900.jit_s.before_optimizations.txt").symlink_to(secret)
    os.mkfifo(copy / "module_0901.jit_p.before_optimizations.txt")
    (copy / "module_0902.jit_d.before_optimizations.txt").mkdir()
    (copy / "module_0903.a\nb.before_optimizations.txt").write_text("HloModule x\n")
    dump = load(copy)
    assert "jit_s" not in {module.name for module in dump}
    assert "jit_p" not in {module.name for module in dump}
    assert "2 entries" in dump.notes[0]
    assert isinstance(dump["a\nb"].before, Unavailable)


def test_a_folder_without_modules_has_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModuleError, match="no profile"):
        inspector.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        inspector.load(tmp_path / "absent")


def test_an_unknown_module_lists_the_modules(folder: Path) -> None:
    with pytest.raises(ParameterError, match="jit_f"):
        load(folder)["nothing"]


def test_ten_thousand_files_open_in_seconds(copy: Path) -> None:
    text = b"HloModule jit_h\n\nENTRY e {\n}\n"
    for number in range(1000, 1100):
        for order in range(100):
            (copy / f"module_{number}.jit_h.{order:04}.fusion.after_dce.before_cse.txt").write_bytes(text)
    start = time.process_time()
    dump = load(copy)
    assert len(dump.table()) >= 102
    assert time.process_time() - start < 5


@pytest.fixture(scope="module")
def other(one_device_python: RunPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dump(one_device_python, tmp_path_factory.mktemp("dump") / "other", "both", "jnp.cos(x @ x) + 1")


@pytest.mark.slow
def test_two_dumps_compare_by_module(folder: Path, other: Path) -> None:
    comparison = load(folder).compare(load(other))
    assert comparison[0].name == "jit_g"  # the only module that changed comes first
    rows = {row["name"]: row for row in comparison.table().to_dict("records")}
    assert rows["jit_g"]["changed"] > 0
    assert rows["jit_f"]["changed"] == 0
    assert rows["jit_f"]["peak_bytes_a"] == rows["jit_f"]["peak_bytes_b"] > 0
    pipelines = comparison["jit_g"].pipelines()
    assert (pipelines["index_a"].notna() & pipelines["index_b"].notna()).any()
    assert list(pipelines["index_a"].dropna()) == sorted(pipelines["index_a"].dropna())
    assert not load(folder).compare(load(folder))
    assert comparison


def test_the_command_line_lists_and_compares_dumps(folder: Path, other: Path, tmp_path: Path) -> None:
    listed = CliRunner().invoke(command, ["dump", str(folder)])
    assert listed.exit_code == 0, listed.output
    assert "jit_g" in listed.output
    shown = CliRunner().invoke(command, ["dump", str(folder), "--module", "jit_f", "--passes"])
    assert "changed the module" in shown.output
    differ = CliRunner().invoke(command, ["compare", str(folder), str(other), "--exit-code"])
    assert differ.exit_code == 1
    assert "jit_g" in differ.output
    page = tmp_path / "page.html"
    written = CliRunner().invoke(command, ["report", f"{folder}:jit_g", "--html", str(page)])
    assert written.exit_code == 0, written.output
    assert "jit_g" in page.read_text()


@pytest.fixture(scope="module")
def few_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump with files of every kind and the first snapshots of two modules, because a thousand copies take time."""
    place = tmp_path_factory.mktemp("dump") / "few"
    shutil.copytree(folder, place)
    for file in place.iterdir():
        is_late = re.search(r"\.00(0[5-9]|[1-9]\d)\.", file.name)
        if file.is_file() and (is_late or not re.search(r"jit_[fg]\.", file.name)):
            file.unlink()
    return place


def mutants(folder: Path, place: Path, numbers: range) -> Iterator[Path]:
    """Yields copies of a dump with files deleted, cut off, emptied, exchanged, overwritten and renamed."""
    for number in numbers:
        chance = random.Random(number)
        copy = place / str(number)
        shutil.copytree(folder, copy, copy_function=os.link)  # a file is unlinked before it is written
        files = sorted(p for p in copy.rglob("*") if p.is_file())
        for file in chance.sample(files, chance.randint(1, len(files) // 2)):
            if not file.exists():  # renamed over
                continue
            kind = chance.randrange(8)
            data = file.read_bytes()
            other = chance.choice(files)
            swapped = other.read_bytes() if other.exists() else b""
            if kind != 5:
                file.unlink()
            if kind == 1:
                file.write_bytes(data[: chance.randint(0, len(data))])
            elif kind == 2:
                file.write_bytes(swapped)
            elif kind == 6:
                file.touch()
            elif kind == 7:  # exchanged
                other.unlink(missing_ok=True)
                other.write_bytes(data)
                file.unlink(missing_ok=True)
                file.write_bytes(swapped)
            elif kind == 3:
                file.write_bytes(chance.randbytes(chance.randint(0, 4000)))
            elif kind == 4:
                place_ = chance.randrange(len(data) + 1)
                file.write_bytes(data[:place_] + chance.randbytes(8) + data[place_ + 8 :])
            elif kind == 5:
                letters = "".join(chance.choice("._ab0\n\t é") for _ in range(chance.randint(1, 200)))
                file.rename(file.with_name(f"module_{chance.randint(0, 10**6)}.{letters}{file.suffix}"[:120]))
        yield copy
        shutil.rmtree(copy)


def survey(path: Path, *, opens: bool) -> Iterator[str]:
    """Reads everything in a dump, and yields the errors: when it is listed, for its programs, and when none can be shown."""
    try:
        dump = inspector.load(path)
    except InspectorError as e:
        yield str(e)
        return
    assert isinstance(dump, Dump)
    dump.table()
    repr(dump)
    for module in dump.modules[:4]:
        repr(module)
        repr(module.missing)
        assert isinstance(module.flags, Unavailable) or repr(module.flags)
        assert isinstance(module.assembly, Unavailable) or repr(module.assembly)
        if opens:
            for program in (module.before, module.after):
                assert isinstance(program, (OpenedProgram, Unavailable))
                if isinstance(program, Unavailable):
                    yield program.reason
                else:
                    program.instructions()
                    assert isinstance(program.timeline(), (Timeline, Unavailable))
            assert isinstance(module.passes, Unavailable) or repr(module.passes.table())
            repr(module.memory)
    if opens:
        try:
            assert dump.exploration.baseline.label == "dumped"
        except InspectorError as e:
            yield str(e)


def part(first: int, count: int, *, opens: bool, is_slow: bool = True) -> Any:
    marks = [pytest.mark.slow] if is_slow else []
    return pytest.param(range(first, first + count), opens, marks=marks, id=f"{first}{'-opened' if opens else ''}")


@pytest.mark.parametrize(
    ("numbers", "opens"),
    [
        part(2000, 20, opens=False, is_slow=False),
        *[part(n, 120, opens=False) for n in range(0, 960, 120)],
        *[part(n, 10, opens=True) for n in range(960, 1000, 10)],
    ],
)
def test_mutated_dumps_open_or_report_why_not(few_files: Path, tmp_path: Path, numbers: range, opens: bool) -> None:
    before = {file: file.read_bytes() for file in few_files.rglob("*") if file.is_file()}
    for path in mutants(few_files, tmp_path, numbers):
        start = time.monotonic()
        errors = [*survey(path, opens=opens)]
        assert all(10 < len(error) < 20_000 for error in errors)
        assert time.monotonic() - start < 120, path
    assert {file: file.read_bytes() for file in few_files.rglob("*") if file.is_file()} == before


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "emptied": (lambda _: b"", "Cannot read 0 bytes"),
    "cut off": (lambda data: data[: len(data) // 2], "is cut off"),
    "noise": (
        lambda data: random.Random(len(data)).randbytes(len(data)),
        "binary data instead of text",
    ),
    "other text": (lambda _: b"a log file\n", "a log file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_dump_whose_files_are_all_damaged_reports_it(few_files: Path, tmp_path: Path, damage: str) -> None:
    change, message = DAMAGES[damage]
    place = tmp_path / "damaged"
    shutil.copytree(few_files, place)
    for file in place.rglob("*"):
        if file.is_file():
            file.write_bytes(change(file.read_bytes()))
    assert len([*survey(place, opens=True)]) > 4
    dump = load(place)
    module = dump["jit_f"]
    for program in (module.before, module.after):
        assert isinstance(program, Unavailable)
        assert message in program.reason
        assert program.reason.replace("\n", " ").isprintable()
    with pytest.raises(ModuleError, match=message):
        _ = module.exploration
    if damage != "other text":
        assert isinstance(module.passes, Unavailable)
        assert "none of the 5 snapshots in the dump can be read" in module.passes.reason


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "proto", "both"])
@pytest.mark.parametrize(
    "target", ["cpu:8", pytest.param("gpu:h100:8", marks=needs_gpu), pytest.param("tpu:v5e:2x4", marks=needs_tpu)]
)
def test_dumps_for_devices_that_are_not_attached_open(target: str, form: str, tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp

    shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)

    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w).sum()

    lowered = inspector.lower(f, shape, shape, target=target)
    texts = {"xla_dump_hlo_as_text": form != "proto", "xla_dump_hlo_as_proto": form != "text"}
    flags: dict[str, Any] = {
        "xla_dump_to": str(tmp_path / "dump"),
        "xla_dump_hlo_pass_re": ".*",
        "xla_dump_module_metadata": True,
    }
    lowered.compile({**flags, **texts}, target=target)
    module = load(tmp_path / "dump")["f"]
    check_chain(module.passes, module)
    assert opened(module.after).platform == target.partition(":")[0]
    live = lowered.compile(target=target).memory
    assert isinstance(live, Memory)
    if form != "text":
        assert isinstance(module.memory, Memory)
        assert module.memory.spaces == live.spaces


def test_a_notebook_shows_a_menu_of_the_modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ipywidgets
    from IPython.utils.capture import capture_output

    shown: list[str] = []
    menus: list[ipywidgets.Dropdown] = []
    make = ipywidgets.Dropdown

    def dropdown(**fields: Any) -> ipywidgets.Dropdown:
        menus.append(make(**fields))
        return menus[-1]

    monkeypatch.setattr(ipywidgets, "Dropdown", dropdown)
    monkeypatch.setattr(DumpedModule, "explorer", lambda self: FakeExplorer(self.name, shown))
    with capture_output() as captured:
        load(folder)._ipython_display_()
    assert captured is not None
    assert shown == [load(folder).largest.name]
    (menu,) = menus
    assert len(menu.options) == len(load(folder))
    menu.value = 1
    assert len(shown) == 3
    assert shown[1] == f"{shown[0]} closed"
    assert shown[2] in menu.options[1][0]


class FakeExplorer:
    """Notes that it was shown, and closed."""

    def __init__(self, name: str, shown: list[str]) -> None:
        self._name, self._shown = name, shown

    def _ipython_display_(self) -> None:
        self._shown.append(self._name)

    def close(self) -> None:
        self._shown.append(f"{self._name} closed")
