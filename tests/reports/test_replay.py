"""Recorded programs compiled again: by this JAX, by another one, and what neither of them reads."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

import inspector
from inspector._jax.modules import stablehlo
from inspector.api.exploration import Exploration
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.engine import Job
from inspector.compilation.options.options import Options
from inspector.compilation.request import CompileRequest
from inspector.errors import (
    CancelledError,
    CompilationError,
    MissingPackageError,
    ModuleError,
    TargetError,
    Unavailable,
)
from inspector.reports import jax_versions
from inspector.reports.other_jax import OtherJax
from inspector.reports.portable import PortableModule, ported
from inspector.reports.recompile import Recompiler
from inspector.reports.recorded_exploration import RecordedExploration
from inspector.reports.replay import replay
from inspector.stages.lowered import compile_request
from inspector.support import files, install_commands, subprocesses
from tests.reports.recorded import exploration

_SAVE = "import sys; sys.path.insert(0, sys.argv[1]); from tests.reports.recorded import exploration; exploration().save(sys.argv[2])"
_REPLAY = (
    "import sys; sys.path.insert(0, sys.argv[1]); import inspector;"
    " table = inspector.load(sys.argv[2]).replay().table();"
    " print(table[['variant', 'state', 'replayed_state', 'difference', 'replayed_jax']].to_json(orient='records'))"
)


_UV = """
import pathlib, sys
if sys.argv[1] == "venv":
    if "3.12" not in sys.argv:
        sys.exit(1)
    (pathlib.Path(sys.argv[-1]) / "bin").mkdir(parents=True)
elif sys.argv[2] == "compile":
    assert "--generate-hashes" in sys.argv
    wanted = pathlib.Path(sys.argv[-1]).read_text()
    output = pathlib.Path(sys.argv[sys.argv.index("--output-file") + 1])
    output.write_text("".join(f"{line} --hash=sha256:1\\n" for line in wanted.splitlines()))
else:
    assert "--require-hashes" in sys.argv
    folder = pathlib.Path(sys.argv[sys.argv.index("--python") + 1])
    requirements = pathlib.Path(sys.argv[sys.argv.index("--requirements") + 1])
    (folder / "bin" / "python").write_text(f"{requirements.name}: {requirements.read_text()}")
"""
_SLOW_UV = """#!/bin/sh
for last; do :; done
mkdir -p $last/bin
echo $$ > PIDS/$$
sleep 300
"""


def run(python: Path, script: str, *arguments: object) -> str:
    root = Path(inspector.__file__).parent.parent
    environ = {k: v for k, v in subprocesses.environ().items() if k not in ("TPU_LIBRARY_PATH", "XLA_FLAGS")}
    child = subprocess.run(
        [python, "-P", "-c", script, str(root), *map(str, arguments)],
        env={**environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-3000:]
    return child.stdout


def test_the_same_jax_makes_the_same_of_it() -> None:
    found = exploration().replay()
    assert list(found.differences[:2]) == ["the same program"] * 2
    assert found.differences[2] == "failed in the recording, done in the replay"
    assert list(found.table()["replayed_state"][:3]) == ["done", "done", "done"]
    assert (
        str(found).splitlines()[0] == f"jit_step, recorded with JAX {jax.__version__}, replayed with {jax.__version__}"
    )
    assert found.replayed.variants[1].options == Options(flags={"xla_cpu_enable_fast_math": True})


def test_a_flag_that_only_another_jax_has_is_left_to_it() -> None:
    asked: list[CompileRequest] = []

    class Compiler:
        def submit(self, request: CompileRequest) -> Job[CompiledProgram]:
            asked.append(request)
            job: Job[CompiledProgram] = Job()
            job.fail(CompilationError("asked"))
            return job

    recorded = exploration()
    later = dataclasses.replace(recorded.variants[1], options=Options(flags={"xla_cpu_of_a_later_jax": True}))
    found = replay(dataclasses.replace(recorded, variants=(recorded.baseline, later)), Compiler(), "9.0.0")
    assert [str(v.error) for v in found.replayed.variants] == ["asked", "asked"]
    assert [r.options for r in asked] == [recorded.baseline.options, later.options]
    assert {r.target.jax for r in asked} == {"9.0.0"}


@pytest.mark.slow
def test_another_jax_replays_a_recording_of_this_one_and_vice_versa(other: Path, tmp_path: Path) -> None:
    exploration().save(tmp_path / "ours")
    rows = json.loads(run(other, _REPLAY, tmp_path / "ours"))
    assert [row["replayed_state"] for row in rows[:3]] == ["done", "done", "done"]
    assert {row["replayed_jax"] for row in rows[:3]}.isdisjoint({jax.__version__, None})
    assert all(row["difference"] for row in rows)
    run(other, _SAVE, tmp_path / "theirs")
    loaded = inspector.load(tmp_path / "theirs")
    assert isinstance(loaded, Exploration)
    assert loaded.installation.jax != jax.__version__
    found = loaded.replay()
    assert [v.state for v in found.replayed.variants[:3]] == ["done", "done", "done"]
    assert found.replayed.variants[0].compiled.versions["jax"] == jax.__version__
    explorer = loaded.explorer().wait(60)
    assert str(explorer.baseline.target) == f"attached@jax=={loaded.installation.jax}"
    assert explorer.baseline.compiled.hlo == loaded.baseline.compiled.hlo
    explorer.close()


def test_a_file_that_was_opened_installs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jax_versions, "install", lambda *_: pytest.fail("installed"))
    engine = Recompiler(exploration().portable)
    error = engine.submit(compile_request(exploration().lowered, None, "cpu@jax==0.9.1")).exception(60)
    assert f"JAX 0.9.1, which is not installed in {tmp_path}/inspector/jax/0.9.1-cpu" in str(error)
    assert list(tmp_path.iterdir()) == []
    engine.close()


def test_unreadable_programs_are_refused_with_the_reason() -> None:
    program = exploration().lowered.program
    known = exploration().portable[program.digest]
    assert ported(program, {program.digest: known}) is program
    ours = dataclasses.replace(program, module=b"of another JAX")
    other_form = PortableModule("0.9.0", known.artifact)
    assert ported(ours, {ours.digest: other_form}).module.startswith(b"ML\xefR")
    for form, words in (
        (PortableModule("9.9.9", b"StableHLO_v99 nothing"), "cannot read its portable form. Replay it with JAX 9.9.9"),
        (PortableModule("9.9.9", Unavailable("it has an odd operation")), "cannot read it: it has an odd operation"),
    ):
        with pytest.raises(ModuleError) as caught:
            ported(ours, {ours.digest: form})
        assert words in str(caught.value)
    with pytest.raises(ModuleError, match="created by JAX unknown"):
        ported(ours, {})


def test_operations_missing_in_the_oldest_format_use_a_newer_one(
    other: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def gathered(x: jax.Array, indices: jax.Array) -> jax.Array:
        return jax.vmap(lambda row, i: row[i])(x, indices)  # a batched gather, which came with StableHLO 1.1

    lowered = inspector.lower(gathered, jax.ShapeDtypeStruct((4, 8), "float32"), jax.ShapeDtypeStruct((4,), "int32"))
    artifact = stablehlo.portable(lowered.program.module)
    assert b"StableHLO_v1.1.0" in artifact[:64]
    assert capfd.readouterr().err == ""
    (tmp_path / "m").write_bytes(artifact)
    script = (
        "import sys, pathlib; from inspector._jax.modules import stablehlo;"
        " print(stablehlo.full_text(stablehlo.to_bytecode(stablehlo.parse_stablehlo(pathlib.Path(sys.argv[2]).read_bytes()))))"
    )
    assert "stablehlo.gather" in run(other, f"import sys; sys.path.insert(0, sys.argv[1]); {script}", tmp_path / "m")


def test_a_missing_uv_or_network_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(install_commands, "_installed_uv", lambda: iter(()))
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError, match=r"Install it with: .*pip install .*uv$"):
        jax_versions.install("0.9.1", "cpu", print)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho 'no network' >&2\nexit 2\n")
    uv.chmod(0o700)
    said: list[str] = []
    with pytest.raises(
        TargetError, match=r"0\.9\.1 cannot be installed into .*/0\.9\.1-cpu\. This needs a network.*no network"
    ):
        jax_versions.install("0.9.1", "cpu", said.append)
    assert said == [f"installing JAX 0.9.1 into {tmp_path}/inspector/jax/0.9.1-cpu"]
    assert list((tmp_path / "inspector" / "jax").iterdir()) == []


def test_environments_of_uv_are_reused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A uv that makes an environment only for one of the Pythons."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    uv = tmp_path / "uv"
    uv.write_text(f"#!{sys.executable}\n{_UV}")
    uv.chmod(0o700)
    python = jax_versions.install("0.9.1", "tpu", print)
    assert python == tmp_path / "cache" / "inspector" / "jax" / "0.9.1-tpu" / "bin" / "python"
    assert python.read_text().startswith("requirements.txt: jax[tpu]==0.9.1 --hash=sha256:1\nnumpy>=2.0 --hash=")
    uv.unlink()
    assert jax_versions.install("0.9.1", "tpu", print) == python
    python.parent.parent.chmod(0o777)
    with pytest.raises(OSError, match=r"0\.9\.1-tpu"):
        jax_versions.install("0.9.1", "tpu", print)


def test_a_variant_that_was_not_lowered_has_failed_again() -> None:
    variants = tuple(dataclasses.replace(v, lowered=None) for v in exploration().variants[2:3])
    recorded = RecordedExploration.now(exploration().lowered, variants)
    found = replay(recorded, Recompiler({}), "")
    assert found.differences == ("failed as before",)


@pytest.fixture
def with_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a command in the place of uv, and caches into a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(script: str) -> None:
        uv = tmp_path / "uv"
        uv.write_text(script)
        uv.chmod(0o700)

    monkeypatch.setattr(jax_versions, "_uv", lambda _: [str(tmp_path / "uv")])
    return put


def test_an_installation_that_was_changed_is_not_used_and_made_again_with_the_same_packages(
    with_uv: Callable[[str], None],
) -> None:
    with_uv(f"#!{sys.executable}\n{_UV}")
    python = jax_versions.install("0.9.1", "cpu", print)
    (python.parent / "__pycache__").mkdir()
    (python.parent / "__pycache__" / "x.pyc").touch()
    jax_versions._is_as_installed.cache_clear()
    assert jax_versions.installed("0.9.1", "cpu") == python
    for change in (lambda: python.write_text("other"), (python.parent / "more.py").touch):
        change()
        jax_versions._is_as_installed.cache_clear()
        assert jax_versions.installed("0.9.1", "cpu") is None
        assert jax_versions.install("0.9.1", "cpu", print) == python
        assert python.read_text().startswith("0.9.1-cpu.requirements: jax==0.9.1 --hash=")
    (python.parent.parent / jax_versions._MANIFEST).unlink()
    assert jax_versions.installed("0.9.1", "cpu") is None, "made by an earlier inspector, without digests"


def wait_for(what: Callable[[], object], limit_s: float = 60.0) -> None:
    until = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.timeout(180)
def test_a_canceled_installation_ends_and_lets_the_next_request_go_on(
    with_uv: Callable[[str], None], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    with_uv(_SLOW_UV.replace("PIDS", str(pids)))
    engine = OtherJax()
    lowered = exploration().lowered
    first = engine.submit(compile_request(lowered, None, "cpu@jax==0.9.1"))
    wait_for(lambda: list(pids.iterdir()))
    other = engine.submit(compile_request(lowered, None, "cpu@jax==0.9.0"))
    wait_for(lambda: len(list(pids.iterdir())) == 2)  # another version does not wait
    first.cancel()
    second = engine.submit(compile_request(lowered, None, "cpu@jax==0.9.1"))
    wait_for(lambda: len(list(pids.iterdir())) == 3)
    engine.close()
    wait_for(lambda: not any(is_alive(int(pid.name)) for pid in pids.iterdir()))
    wait_for(lambda: not list((tmp_path / "cache" / "inspector" / "jax").iterdir()))
    assert all(isinstance(job.exception(60), CancelledError) for job in (first, second, other))


_KILLED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from pathlib import Path
from inspector.reports import jax_versions
jax_versions._uv = lambda _: [sys.argv[1]]
jax_versions.install("0.9.1", "cpu", print)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_an_installation_ends_with_its_process(with_uv: Callable[[str], None], tmp_path: Path, end: int) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    with_uv(_SLOW_UV.replace("PIDS", str(pids)))
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path / "uv")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: list(pids.iterdir()))
    process.send_signal(end)
    process.wait(60)
    wait_for(lambda: not any(is_alive(int(pid.name)) for pid in pids.iterdir()))
    wait_for(lambda: not list((tmp_path / "cache" / "inspector" / "jax").iterdir()))


def test_files_of_a_killed_installer_are_deleted_by_the_next(with_uv: Callable[[str], None], tmp_path: Path) -> None:
    parent = files.make_own_folder(tmp_path / "cache" / "inspector" / "jax")
    left, under_way = (parent / f".0.9.0-cpu.{digit * 16}" for digit in "01")
    for folder in (left, under_way):
        folder.mkdir()
        (folder / "large").touch()
        jax_versions._lock_of(folder).touch()
    with_uv(f"#!{sys.executable}\n{_UV}")
    with files.locked_file(jax_versions._lock_of(under_way)):
        jax_versions.install("0.9.1", "cpu", print)
        assert sorted(path.name for path in parent.iterdir() if path.name.startswith(".")) == [
            under_way.name, f"{under_way.name}.lock",
        ]  # fmt: skip
