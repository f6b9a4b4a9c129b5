"""`Explorer.save` and `inspector.load`: what was explored is an Explorer again, which answers without a compiler."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import inspector
from inspector.api.exploration import Exploration
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.errors import OptionError, ParameterError, Unavailable
from inspector.support import deferred
from tests.reports.recorded import exploration, step

FAST = {"xla_cpu_enable_fast_math": True}


def test_an_explorer_comes_back_as_it_was(tmp_path: Path) -> None:
    explorer = inspector.explore(step, jnp.ones((4, 8)), {"a": jnp.ones((8, 8))}, compare=[FAST])
    explorer.wait(120)
    explorer.pin(explorer.variants[1])
    board = explorer._compiles.board
    board.record(explorer.baseline, "passes")
    board.answer({"type": "run", "variant": 0, "repeat": 3})
    explorer.wait(120)
    while board.outcome(explorer.baseline) is None or isinstance(explorer.baseline.profile, Unavailable):
        explorer.wait(120)
    explorer.save(tmp_path / "x.inspector")
    loaded = inspector.load(tmp_path / "x.inspector")
    assert isinstance(loaded, Exploration)
    assert loaded.lowered == explorer.lowered
    assert [v.label for v in loaded.variants] == [v.label for v in explorer.variants]
    assert [v.is_pinned for v in loaded.variants] == [False, True]
    assert [v.compiled.hlo for v in loaded.variants] == [v.compiled.hlo for v in explorer.variants]
    assert len(loaded.baseline.compiled.passes or ()) > 3
    assert loaded.baseline.outcome is not None
    assert len(loaded.baseline.outcome.durations_s) == 3
    assert loaded.compare().equals(explorer.compare())
    again = loaded.explorer().wait(120)
    assert {*again._compiles.board.products(again.baseline)} == {"passes", "buffers"}
    while again._compiles.board.outcome(again.baseline) is None:
        again.wait(120)
    assert repr(again) == repr(explorer)
    again.save(tmp_path / "y.inspector")
    twice = inspector.load(tmp_path / "y.inspector")
    assert isinstance(twice, Exploration)
    assert twice.lowered == loaded.lowered
    assert twice.portable == loaded.portable
    assert twice.variants == loaded.variants
    explorer.close()
    again.close()


def test_a_record_is_shown_without_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.reports.recompile import Recompiler

    def submit(*_: object) -> None:
        pytest.fail("compiled")

    monkeypatch.setattr(Recompiler, "submit", submit)
    explorer = exploration().explorer().wait(60)
    assert [(v.label, v.state) for v in explorer.variants] == [
        ("baseline", "done"), ("xla_cpu_enable_fast_math=true", "done"), ("cpu:2", "failed"), ("tpu:v5e:1x1", "cancelled"),
    ]  # fmt: skip
    assert "XLA refused it" in str(explorer.variants[2].failure)
    assert explorer.variants[1].compiled.hlo == exploration().variants[1].compiled.hlo
    explorer.close()


def test_unrecorded_variants_are_compiled() -> None:
    explorer = exploration().explorer().wait(60)
    added = explorer.add({"xla_cpu_enable_fast_min_max": True})
    explorer.wait(120)
    assert added.state == "done", added.failure
    assert added.compiled.options.flags == {"xla_cpu_enable_fast_min_max": True}
    explorer.close()


def test_changes_that_need_lowering_are_refused() -> None:
    explorer = exploration().explorer().wait(60)
    added = explorer.add(None, "gpu:h100:1")
    assert added.state == "failed"
    assert "was recorded without its function" in str(added.failure)
    explorer.close()


def test_a_recorded_program_runs_once_it_is_compiled_here() -> None:
    explorer = exploration().explorer().wait(60)
    board = explorer._compiles.board
    while (recorded := board.outcome(explorer.baseline)) is None:
        explorer.wait(60)
    board.answer({"type": "run", "variant": 0, "repeat": 5})
    while (found := board.outcome(explorer.baseline)) is recorded or found is None:
        explorer.wait(60)
    assert len(found.durations_s) == 5
    assert len(found.inputs) == 2
    explorer.close()


def hostile(*, in_variant: bool = True, **changes: Any) -> Exploration:
    """An exploration whose first variant, or its compiled program alone, has the options that a stranger wrote into the file."""
    made = exploration()
    options, first = Options(**changes), made.variants[0]
    assert first.program is not None
    program = deferred.replace(first.program, options=options)
    first = dataclasses.replace(first, options=options if in_variant else Options(), program=program)
    return Exploration.of(dataclasses.replace(made, variants=(first,)))


def extra(name: str, value: str) -> bytes:
    """A serialized message whose overrides set an option."""
    from inspector.toolchain.xla import options_message

    message = options_message()
    message.env_option_overrides[name].string_field = value
    return bytes(message.SerializeToString())


@pytest.mark.parametrize(
    "changes",
    [
        {"flags": {"xla_dump_to": "{}"}},
        {"flags": {"xla_gpu_ptx_compiler_extra_flags": "--output-file={}"}},
        {"flags": {"xla_backend_extra_options": "info-output-file={}"}},
        {"flags": {"XLA_DUMP_TO": "{}"}},
        {"flags": {"xla_cpu_max_isa": "AVX2 --xla_dump_to={}"}},
        {"extra_proto": extra("xla_dump_to", "/tmp/inspector-hostile")},
    ],
    ids=str,
)
def test_options_that_write_files_are_refused_with_the_remedy(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspector.reports.recompile import Recompiler

    if "flags" in changes:
        changes = {"flags": {name: value.format(tmp_path / "x") for name, value in changes["flags"].items()}}
    made = hostile(**changes)
    monkeypatch.setattr(Recompiler, "submit", lambda *_: pytest.fail("compiled"))
    replay = made.replay()
    (variant,) = replay.replayed.variants
    assert variant.state == "failed"
    name = next(iter(made.variants[0].options.as_dict()))
    assert f"exploration.replay(allow=['{name}'])" in str(variant.error)
    assert f"replay(allow=['{name}'])" in str(replay)
    assert name in replay.table().unknown[0]
    check_explorer(made)
    assert not (tmp_path / "x").exists()


def check_explorer(made: Exploration) -> None:
    """It shows what was recorded, and a pane that compiles again is refused."""
    explorer = made.explorer().wait(60)
    assert explorer.variants[0].state == "done"
    explorer._compiles.board.record(explorer.variants[0], "assembly")
    explorer.wait(60)
    assert explorer._compiles.board.products(explorer.variants[0]) == ()
    explorer.close()


def test_file_options_of_a_compiled_program_are_refused_too() -> None:
    from inspector.reports.guarded_engine import Guarded
    from inspector.reports.recompile import Recompiler

    made = hostile(in_variant=False, flags={"xla_dump_to": "/tmp/inspector-hostile"})
    program = made.variants[0].program
    assert program is not None
    guarded = Guarded(Recompiler(made.portable), made)
    error = guarded.submit(CompileRequest(program.program, program.options, program.target)).exception()
    assert isinstance(error, OptionError)
    assert "exploration.replay(allow=['xla_dump_to'])" in str(error)


def test_the_users_python_may_allow_it_by_name(tmp_path: Path) -> None:
    made = hostile(flags={"xla_dump_to": str(tmp_path / "x"), "xla_dump_hlo_as_text": True})
    assert made.replay(allow=["xla_dump_to"]).replayed.variants[0].state == "done"
    assert list((tmp_path / "x").iterdir())
    with pytest.raises(
        ParameterError, match=r"allow has xla_dump, .* The variants have: xla_dump_hlo_as_text, xla_dump_to"
    ):
        made.replay(allow=["xla_dump"])
    with pytest.raises(ParameterError, match="must be a list of names"):
        made.explorer(allow="xla_dump_to")


def test_a_name_with_more_dashes_is_invalid() -> None:
    """`merge` would take off two more, after the check of the name."""
    for name in ("----xla_dump_to", "---xla_dump_to"):
        with pytest.raises(OptionError, match=r"too many dashes\. Write 'xla_dump_to'"):
            Options(flags={name: "/tmp/x"})


def test_a_program_of_a_file_carries_no_flags(tmp_path: Path) -> None:
    """Options that a lowering implies come with `exploration.lowered.compile(...)`, which checks nothing."""
    made = exploration()
    for options in (Options(flags={"xla_dump_to": str(tmp_path)}), Options(extra_proto=extra("xla_dump_to", "x"))):
        with pytest.raises(OptionError, match="implies fields of the build options only"):
            dataclasses.replace(made.lowered.program, options=options)
