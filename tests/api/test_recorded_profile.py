"""Profiles from elsewhere: `inspector.load` of files and folders, programs, analyses without devices, and the Explorer."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inspector
from inspector.analysis.profile.device_kinds import device_kind
from inspector.api.exploration import Exploration
from inspector.api.recorded_profile import RecordedProfile
from inspector.errors import ModuleError, ParameterError, ProfileError, Unavailable
from inspector.profiles.xspace import XSpace
from tests import xspaces
from tests.conftest import RunPython

CONV, ATTENTION = xspaces.NAMES


def path_of(name: str) -> Path:
    xspaces.recorded(name)  # skips where there is none
    return xspaces.SHARED / f"{name}.xplane.pb"


def opened(path: str | os.PathLike[str]) -> RecordedProfile:
    loaded = inspector.load(path)
    assert isinstance(loaded, RecordedProfile)
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an older and a newer session of this CPU."""
    place = tmp_path_factory.mktemp("logdir")
    for session, repeat in (("2026_01_02", 1), ("2026_01_10", 4)):
        file = place / "plugins" / "profile" / session / "vm.xplane.pb"
        file.parent.mkdir(parents=True)
        file.write_bytes(xspaces.on_cpu(repeat))
        os.utime(file, (repeat, repeat))
    return place


@pytest.fixture(scope="module")
def recorded(folder: Path) -> RecordedProfile:
    return opened(folder)


def test_the_newest_session_of_a_folder(folder: Path, recorded: RecordedProfile) -> None:
    assert recorded.programs[0].name == "jit_looped"
    assert recorded.programs[0].profile.executions == 4
    session = folder / "plugins" / "profile" / "2026_01_02"
    assert opened(session).programs[0].profile.executions == 1
    assert opened(session / "vm.xplane.pb").programs[0].profile.executions == 1
    assert opened(folder / "plugins").programs[0].profile.executions == 4


def test_programs_with_times_memory_and_analyses(recorded: RecordedProfile) -> None:
    program = recorded["looped"]
    assert program is recorded["jit_looped"] is recorded[0]
    assert (program.platform, program.device_kind, recorded.devices) == ("cpu", "cpu", ("CPU:0",))
    assert recorded.total_s == pytest.approx(program.measured_s)
    assert program.measured_s == pytest.approx(program.profile.total_s)
    assert {row.name for row in program.profile.rows} <= set(program.module().columns.names)
    assert program.kernels == len(program.profile.rows)
    compiled = inspector.lower(xspaces.looped, *xspaces.arrays()).compile(target="cpu")
    assert not isinstance(program.memory, Unavailable)
    assert not isinstance(compiled.memory, Unavailable)
    for part in ("argument_bytes", "output_bytes", "temp_bytes"):
        assert getattr(program.memory, part) == getattr(compiled.memory, part)
    ours, theirs = program.instructions(), compiled.instructions()
    assert sorted(ours["opcode"]) == sorted(theirs["opcode"])
    assert ours["flops"].sum() == theirs["flops"].sum()
    assert len(program.roofline(inspector.measured_peak()).points) == len(compiled.roofline().points)
    assert len(program.collectives()) == 0
    assert program.hlo.startswith("HloModule jit_looped")
    with pytest.raises(ParameterError, match=r"no program 'nothing'. Its programs: jit_looped"):
        recorded["nothing"]
    with pytest.raises(ParameterError, match=r"must be an inspector\.Peak"):
        program.roofline(3)  # type: ignore[arg-type]


def test_the_program_as_a_compiled_and_in_an_explorer(recorded: RecordedProfile, tmp_path: Path) -> None:
    program = recorded[0]
    compiled = program.compiled
    assert (compiled.hlo, str(compiled.target)) == (program.hlo, "cpu")
    assert compiled.graph("whole").source.count("->") > 5
    again = inspector.lower(xspaces.looped, *xspaces.arrays()).compile(target="cpu")
    assert not again.diff(compiled).changes
    program.exploration.save(tmp_path / "x.inspector")
    loaded = inspector.load(tmp_path / "x.inspector")
    assert isinstance(loaded, Exploration)
    assert loaded.baseline.compiled.hlo == program.hlo
    explorer = program.explorer()
    try:
        assert explorer.baseline.compiled.hlo == program.hlo
    finally:
        explorer.close()


@pytest.mark.parametrize(
    ("name", "module", "kernels"), [(CONV, "jit_forward_3d_conv", 4), (ATTENTION, "jit_loss_fn", 20)]
)
def test_profiles_of_accelerators(name: str, module: str, kernels: int) -> None:
    recorded = opened(path_of(name))
    program = recorded.programs[0]
    assert (program.name, program.platform, program.kernels) == (module, "rocm", kernels)
    assert recorded.total_s == pytest.approx(program.measured_s + recorded.other_s)
    assert program.compiled.program.platform == "rocm"
    assert "HloModule" in program.compiled.hlo
    assert not isinstance(program.memory, Unavailable)
    assert program.memory.main == "HBM"
    assert not isinstance(program.timeline(), Unavailable)
    assert program.memory.peak_bytes > 100 << 20
    table = recorded.table()
    assert table["name"][0] == module
    assert table["share"].sum() == pytest.approx(1)
    assert f"{module} on rocm" in repr(program)
    assert module in recorded._repr_html_()


def test_the_chip_is_known_by_its_memory() -> None:
    recorded = opened(path_of(CONV))
    assert recorded.programs[0].device_kind == "AMD Instinct MI300X"
    collectives = recorded.programs[0].collectives()
    assert (collectives.num_replicas, collectives.num_partitions) == (1, 8)
    memory = recorded.programs[0].memory
    assert not isinstance(memory, Unavailable)
    assert memory.generated_code_bytes == Unavailable("a profile contains no statistics of the compiler")
    rows = recorded.programs[0].profile.rows
    assert all(not isinstance(row.estimated_s, Unavailable) for row in rows if row.opcode == "fusion")
    space = xspaces.message()
    plane = xspaces.Plane(space, "/device:TPU:0")
    plane.stat(plane.proto, "device_type_string", "TPU v5 lite")
    plane.event(plane.line("XLA Ops"), "x", 0, 1)
    assert device_kind(XSpace.from_bytes(space.SerializeToString())) == "TPU v5 lite"
    space.planes[0].stats[0].str_value = "TPU v99"
    assert isinstance(device_kind(XSpace.from_bytes(space.SerializeToString())), Unavailable)


def test_work_of_no_program(recorded: RecordedProfile) -> None:
    conv = opened(path_of(CONV))
    assert conv.other[0].name == "__amd_rocclr_copyBuffer.kd"
    assert conv.table()["name"].iloc[-1] == "no instruction"
    assert conv.table()["calls"].sum() == 235
    assert recorded.other == ()


def test_several_hosts(folder: Path, tmp_path: Path) -> None:
    session = tmp_path / "plugins" / "profile" / "s"
    session.mkdir(parents=True)
    for host in ("a", "b"):
        shutil.copy(folder / "plugins" / "profile" / "2026_01_10" / "vm.xplane.pb", session / f"{host}.xplane.pb")
    recorded = opened(tmp_path)
    assert recorded.devices == ("a/CPU:0", "b/CPU:0")
    assert recorded.programs[0].profile.devices == recorded.devices
    assert len(recorded.hosts) == 2
    one = opened(session / "a.xplane.pb")
    assert recorded.total_s == pytest.approx(2 * one.total_s)


def test_values_pickle(recorded: RecordedProfile) -> None:
    again = pickle.loads(pickle.dumps(recorded))
    assert again == recorded
    assert again.programs[0].profile == recorded.programs[0].profile


def test_programs_without_their_hlo(tmp_path: Path) -> None:
    data = xspaces.message(xspaces.on_cpu(2))
    for plane in data.planes:
        if plane.name == "/host:metadata":
            plane.event_metadata.clear()
    (tmp_path / "old.xplane.pb").write_bytes(data.SerializeToString())
    recorded = opened(tmp_path / "old.xplane.pb")
    assert recorded.programs == ()
    assert recorded.other_s == recorded.total_s > 0
    assert any("whose HLO is not in the profile" in note for note in recorded.notes)
    assert "0 programs" in repr(recorded)


def test_a_damaged_module_in_a_profile(tmp_path: Path) -> None:
    data = xspaces.message(xspaces.on_cpu(2))
    for plane in data.planes:
        if plane.name == "/host:metadata":
            for kind in plane.event_metadata.values():
                for stat in kind.stats:
                    if kind.name.startswith("jit_looped") and stat.bytes_value:
                        stat.bytes_value = stat.bytes_value[: len(stat.bytes_value) // 2]
    (tmp_path / "x.xplane.pb").write_bytes(data.SerializeToString())
    recorded = opened(tmp_path / "x.xplane.pb")
    assert "jit_looped" not in [program.name for program in recorded.programs]
    assert any("The HLO of jit_looped in the profile is damaged" in note for note in recorded.notes)
    assert recorded.other_s == recorded.total_s > 0


@pytest.mark.parametrize("kind", ["empty", "cut", "host", "folder", "absent", "pipe", "other"])
def test_what_is_no_profile(kind: str, tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "x.xplane.pb"
    whole = next(folder.glob("plugins/profile/*/*.pb")).read_bytes()
    expected: type[Exception] = ProfileError
    if kind == "empty":
        path.write_bytes(b"")
        words = "is empty"
    elif kind == "cut":
        path.write_bytes(whole[: len(whole) // 2 + 1])
        words = "is not a profile that can be read"
    elif kind == "host":
        space = xspaces.message()
        plane = xspaces.Plane(space, "/host:CPU")
        plane.event(plane.line("python"), "f", 0, 1)
        path.write_bytes(space.SerializeToString())
        words = r"no program and no work of a device.*/host:CPU \(1 events\)"
    elif kind == "folder":
        path = tmp_path
        words = "contains no profile. Expected a .xplane.pb file, or a folder"
    elif kind == "absent":
        expected, words = FileNotFoundError, "x.xplane.pb"
    elif kind == "pipe":
        os.mkfifo(path)
        words = "cannot be read as a profile"
    else:
        path = tmp_path / "x.pb"
        path.write_bytes(b"HloModule f")
        expected, words = ModuleError, r"profiles \(a .xplane.pb file or its folder\)"
    with pytest.raises(expected, match=f"(?s){words}"):
        inspector.load(path)


def test_a_profile_opens_without_jax(folder: Path, one_device_python: RunPython) -> None:
    code = f"""
import sys
for name in ("jax", "jaxlib"):
    sys.modules[name] = None
import inspector
recorded = inspector.load({str(folder)!r})
program = recorded.programs[0]
print(program.name, program.profile.executions, program.memory.temp_bytes > 0, len(recorded.table()))
try:
    program.hlo
except inspector.errors.MissingPackageError as e:
    print(e)
"""
    lines = one_device_python(code).stdout.splitlines()
    assert lines[0].split() == ["jit_looped", "4", "True", str(len(opened(folder).rows()))]
    assert "needs JAX, which is not installed" in lines[1]


def test_on_the_command_line(folder: Path) -> None:
    from click.testing import CliRunner

    from inspector.cli.commands import inspector as commands

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(commands, arguments)

    text = run("profile", str(folder)).stdout
    assert text.startswith("RecordedProfile of 1 device")
    assert "Profile of jit_looped on CPU:0: 4 executions" in text
    read = json.loads(run("profile", str(folder), "--json", "--by", "opcode").stdout)
    assert read["programs"][0]["name"] == "jit_looped"
    assert sum(row["total_s"] for row in read["profiles"][0]["rows"]) == pytest.approx(read["total_s"])
    failed = run("profile", str(folder), "--module", "nothing")
    assert failed.exit_code == 2
    assert "no program 'nothing'" in failed.stderr
    assert run("collectives", str(folder)).stdout.startswith("Collectives: none")


def test_explore_opens_what_load_opens(tmp_path: Path, folder: Path) -> None:
    """A profile, a dump and a saved exploration, by path and opened; for a profile, the program with the most time."""
    profile = opened(folder)
    shown = inspector.explore(profile)
    assert shown.lowered.program.name == profile.programs[0].name
    saved = tmp_path / "saved.inspector"
    shown.save(saved)
    for source in (folder, os.fspath(folder), profile[0], saved, inspector.load(saved)):
        again = inspector.explore(source)
        assert again.lowered.program.name == shown.lowered.program.name
        again.close()
    shown.close()


def test_explore_compiles_variants_beside_a_saved_exploration(tmp_path: Path) -> None:
    saved = tmp_path / "saved.inspector"
    explorer = inspector.explore(lambda x: (x @ x).sum(), np.ones((8, 8)))
    explorer.wait()
    explorer.save(saved)
    again = inspector.explore(saved, compare="--xla_cpu_enable_fast_math=true")
    again.wait()
    assert [variant.state for variant in again.variants] == ["done", "done"]
    for each in (explorer, again):
        each.close()


def test_explore_refuses_what_a_recording_cannot_take(folder: Path, tmp_path: Path) -> None:
    for choice in (
        {"options": {"xla_cpu_enable_fast_math": True}},
        {"target": "cpu:2"},
        {"axis_env": [("i", 2)]},
        {"x": 1},
    ):
        with pytest.raises(ParameterError, match=r"RecordedProfile is shown as it was compiled.*compare="):
            inspector.explore(folder, **choice)
    with pytest.raises(ModuleError, match="a profile contains only its optimized HLO"):
        inspector.explore(folder, compare="--xla_cpu_enable_fast_math=true")
    with pytest.raises(ProfileError, match="no profile"):
        inspector.explore(tmp_path)


def test_a_profile_from_elsewhere_names_its_platform_and_its_files() -> None:
    """The profile does not name its chip, and the source files are on another machine."""
    explorer = inspector.explore(path_of(ATTENTION))
    message = explorer.baseline.message()
    assert (message["target"], message["platform"]) == ("rocm", "gpu")
    assert not set(message["warnings"]) & set(explorer.lowered.notes)
    assert message["no_run"] == "The program cannot run here: a profile contains only its optimized HLO."
    assert "profiled [rocm]: done" in repr(explorer)
    source = explorer.lowered.source
    assert isinstance(source, Unavailable)
    assert source.reason.endswith("12_te_fused_attn.py is not on this machine")
    assert "figures for rocm" in repr(explorer.baseline.compiled.roofline())
    explorer.close()
