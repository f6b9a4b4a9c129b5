"""libtpu's options read out of its library, against what libtpu itself dumps when it compiles."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from inspector._jax.libraries import libtpu, libtpu_flags
from inspector._jax.libraries.absl_flags import absl_flags
from inspector._jax.libraries.elf_strings import UnknownFormatError
from inspector._jax.libraries.libtpu_defaults import libtpu_defaults
from inspector._jax.libraries.libtpu_flags import LibtpuOptions
from inspector.errors import MissingPackageError, ModuleError, Unavailable
from inspector.support.install_commands import install_command
from tests.absent import needs_tpu
from tests.libtpu import Outcome, compile_with


@pytest.fixture(scope="module")
def options() -> LibtpuOptions:
    found = libtpu_flags.libtpu_options()
    assert isinstance(found, LibtpuOptions)
    return found


@pytest.fixture(scope="module")
def dumped() -> Outcome:
    (outcome,) = compile_with([{}])
    assert outcome.error == ""
    return outcome


def fields(environment: str) -> set[str]:
    return {line.split(":")[0].split(" ")[0] for line in environment.splitlines() if line[0] not in " }"}


@pytest.mark.slow
@needs_tpu
def test_the_flags_are_those_that_libtpu_dumps(dumped: Outcome) -> None:
    names = {flag.name for flag in absl_flags(libtpu.libtpu_library())}
    assert {name for name in names if name.startswith("xla_")} == set(dumped.flags)
    assert len(names) > 2000


@needs_tpu
def test_every_field_of_the_environment_is_per_compile(options: LibtpuOptions, dumped: Outcome) -> None:
    per_compile = {name for name, flag in options.flags.items() if flag.is_per_compile}
    assert per_compile == fields(dumped.environment)
    assert set(options.flags) == per_compile | set(dumped.flags)


@needs_tpu
def test_the_dumped_values_are_of_the_types(options: LibtpuOptions, dumped: Outcome) -> None:
    readers = {"int32": int, "int64": int, "uint32": int, "uint64": int, "float": float, "double": float}
    values = {name: value.strip("'\"") for name, value in dumped.flags.items()}
    for name, value in values.items():
        flag = options.flags[name]
        if (flag.is_auto and value == "auto") or flag.is_repeated:
            continue
        if flag.kind == "bool":
            assert value in ("true", "false"), name
        elif flag.kind in readers:
            readers[flag.kind](value)
    plain = {options.flags[name].kind for name, value in values.items() if value in ("true", "false")}
    assert plain <= {"bool", "string", "enum"}


@needs_tpu
def test_topics_deprecation_and_removed_flags(options: LibtpuOptions) -> None:
    assert "rematerialization" in options.flags["xla_tpu_rematerialization_algo"].topics
    assert options.flags["xla_jf_dump_llo_text"].source_file.endswith("llo_dumper.cc")
    assert not options.flags["xla_jf_dump_llo_text"].is_per_compile
    assert options.flags["xla_tpu_log_flags"].is_removed
    assert "xla_tpu_use_native_scatter" in options.removed
    assert any(flag.is_deprecated for flag in options.flags.values())


@needs_tpu
def test_defaults_are_those_of_another_compile(options: LibtpuOptions, dumped: Outcome) -> None:
    found = libtpu_defaults(options.flags)
    assert isinstance(found, tuple)
    defaults, words = found
    assert {name: value.strip("'\"") for name, value in dumped.flags.items()}.items() <= defaults.items()
    assert words["TristateFlag"] == ["auto", "false", "disabled", "true", "enabled"]
    assert set(options.flags) - set(defaults) <= {
        "loop_invert", "loop_invert_modules", "megascale_dcn_transfer_count_threshold",
        "s8_coalescing_ignore_distance_for_pairing", "x8_coalescing_ignore_distance_for_pairing",
    }  # fmt: skip


@needs_tpu
def test_the_version_is_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    library = libtpu.libtpu_library()
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(library))  # as JAX sets it
    assert libtpu.libtpu_version() == metadata.version("libtpu")


def test_without_libtpu_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "none.so"))
    with pytest.raises(MissingPackageError, match="TPU_LIBRARY_PATH is"):
        libtpu.libtpu_library()
    assert isinstance(libtpu_flags.libtpu_options(), Unavailable)
    monkeypatch.delenv("TPU_LIBRARY_PATH")
    monkeypatch.setattr(libtpu, "_packaged", lambda: None)
    reason = libtpu_flags.libtpu_options()
    assert isinstance(reason, Unavailable)
    assert "not installed" in reason.reason
    assert install_command("jax-inspector[tpu]") in reason.reason


def test_another_library_is_not_libtpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "libtpu.so"
    other.write_bytes(bytes(1000))
    with pytest.raises(UnknownFormatError):
        absl_flags(other)
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(other))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    reason = libtpu_flags.libtpu_options()
    assert isinstance(reason, Unavailable)
    assert "not x86-64" in reason.reason
    with pytest.raises(ModuleError, match="has no TpuCompilationEnvironment"):
        libtpu_flags.libtpu_descriptors()
