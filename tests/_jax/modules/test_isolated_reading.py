"""Modules from outside cost their reader, never the process that asked, and say why."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import jax.numpy as jnp
import pytest
from jax._src.interpreters import mlir

import inspector
from inspector._jax.modules import hlo, isolated_reading, reader_process, stablehlo
from inspector.errors import ModuleError, ResourceError
from inspector.hlo.header import header_attributes
from inspector.hlo.module import Module
from tests.conftest import RunPython

LOWERED = inspector.lower(lambda x: jnp.sin(x) @ x, jnp.ones((2, 2)))
# MLIR's diagnostic quotes the producer, and nanobind ends a process that makes text of such bytes.
NOT_UTF8 = LOWERED.program.module.replace(b"MLIR", b"\xff\xfeIR", 1)[:-30]


def all_reduce(groups: str) -> str:
    return (
        "HloModule m, replica_count=1048576\n\na {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
        " ROOT s = f32[] add(x, y)\n}\n\nENTRY e {\n p = f32[] parameter(0)\n"
        f" ROOT r = f32[] all-reduce(p), replica_groups={groups}, to_apply=a\n}}\n"
    )


NESTED = "module {" * 100_000
NESTED_HLO = "HloModule m\nENTRY e { x = " + "(" * 200_000


@pytest.mark.parametrize(
    ("module", "language", "said"),
    [
        (
            NOT_UTF8,
            "StableHLO",
            r"was killed by SIGABRT: terminate called(.|\n)*conversion error!\nExpected StableHLO as",
        ),
        (
            NESTED,
            "StableHLO",
            r"was killed by SIGSEGV: its stack overflowed, .*nested too deeply \(its brackets are nested [\d,]+ deep\)(.|\n)*Expected StableHLO as",
        ),
        (
            NESTED_HLO,
            "HLO",
            r"was killed by SIGSEGV: its stack overflowed, .*nested too deeply(.|\n)*Expected an HLO module as text",
        ),
    ],
    ids=["not UTF-8", "nested", "nested HLO"],
)
def test_a_module_that_crashes_its_reader_raises_an_error(
    module: str | bytes, language: isolated_reading.Language, said: str
) -> None:
    with pytest.raises(ModuleError, match=rf"^Cannot read the {language} module: its reader {said}"):
        inspector.lower(module)


@pytest.mark.parametrize("module", [NOT_UTF8, NESTED], ids=["not UTF-8", "nested"])
def test_such_a_module_crashes_a_process_that_reads_it(module: str | bytes) -> None:
    script = f"from inspector._jax.modules import stablehlo; stablehlo.parse_stablehlo({module[:2000] * 50 if isinstance(module, str) else module!r})"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert child.returncode < 0


def test_a_module_that_cannot_be_printed_is_refused() -> None:
    module = LOWERED.stablehlo.replace("module @jit__lambda", 'module @"\\FF"')
    with pytest.raises(ModuleError, match=r"Cannot read the StableHLO module: .*conversion error"):
        inspector.lower(module)


def test_text_that_no_encoding_has_is_refused() -> None:
    for text in ("module @m\ud800 {}", "HloModule m\udc80"):
        with pytest.raises(ModuleError, match="Cannot read the"):
            inspector.lower(text)


def test_a_module_is_read_as_jax_reads_it() -> None:
    with mlir.make_ir_context():
        theirs = stablehlo.located_text(mlir.ir.Module.parse(LOWERED.program.module))
    ours = isolated_reading.read(LOWERED.program.module, "StableHLO")
    assert stablehlo.located_text(stablehlo.parse_stablehlo(ours.stablehlo)) == ours.forms.located == theirs
    assert ours.facts == stablehlo.module_facts(stablehlo.parse_stablehlo(LOWERED.program.module))
    assert ours.forms.hlo == hlo.hlo_text(ours.forms.hlo_proto) == LOWERED.hlo


def test_counts_of_a_header() -> None:
    text = LOWERED.hlo.replace("HloModule jit__lambda,", "HloModule jit__lambda, replica_count=2, num_partitions=4,")
    assert text != LOWERED.hlo
    given = isolated_reading.read(text, "HLO").source
    assert given is not None
    header = header_attributes(given.header)
    assert (header["replica_count"], header["num_partitions"]) == ("2", "4")
    assert isolated_reading.read(LOWERED.program.module, "StableHLO").source is None


def test_the_whole_text_is_the_same_from_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = LOWERED.stablehlo
    monkeypatch.setattr(isolated_reading, "_LARGE_BYTES", 0)
    assert LOWERED.stablehlo == here
    with pytest.raises(ModuleError, match="Cannot read the StableHLO module"):
        isolated_reading.full_text(NOT_UTF8)


def test_text_becomes_the_module_that_it_is_of() -> None:
    found = Module.from_proto(isolated_reading.hlo_proto(LOWERED.hlo))
    assert found.columns.names == LOWERED.module().columns.names
    with pytest.raises(ModuleError, match=r"Cannot read the HLO module(.|\n)*HloModule"):
        isolated_reading.hlo_proto("HloModule m\n\nENTRY e {\n ROOT r = f32[] nosuch()\n}\n")
    with pytest.raises(ModuleError, match="was killed by SIGSEGV"):
        isolated_reading.hlo_proto(NESTED_HLO)


def test_a_module_that_expands_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_process, "_WRITTEN_BYTES", 1 << 20)
    text = all_reduce("[1,262144]<=[262144]").encode()
    with pytest.raises(
        ModuleError, match=r"The HLO module has \d+ B and becomes [\d.]+ MiB when written out. Expected at"
    ):
        reader_process._read(text.decode(), "HLO", len(text))
    assert len(reader_process._read(text.decode(), "HLO", 1 << 20)[1]) == 5


@pytest.mark.slow
def test_a_line_that_stands_for_a_million_ids_costs_the_kernel_little() -> None:
    script = f"""
import resource
import inspector

def largest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

inspector.lower({LOWERED.hlo!r}).collectives()
before = largest()
lowered = inspector.lower({all_reduce("[524288,2]<=[1048576]")!r})
try:
    lowered.collectives()
except inspector.errors.ModuleError:
    pass
assert len(lowered.stablehlo) > 16 << 20
print(largest() - before)
"""
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(child.stdout) < 150 << 20


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_reader_has_so_much_memory_and_time() -> None:
    limits = (
        "import resource; from inspector._jax.compiling import child_process; child_process.need_less(1 << 30, 100);"
        " print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CPU)[0])"
    )
    said = subprocess.run([sys.executable, "-c", limits], capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(1 << 30), "100"]
    busy = "from inspector._jax.compiling import child_process; child_process.need_less(1 << 30, 1)\nwhile True: pass"
    status = subprocess.run([sys.executable, "-c", busy], check=False).returncode
    assert isolated_reading._how(status) == "was stopped: it took more processor time than a module of this size should"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_reader_ends_with_its_parent() -> None:
    script = (
        "import sys; sys.stdin.close(); from inspector._jax.modules import isolated_reading; print(flush=True);"
        " isolated_reading.read('module {' * 1000 + '}' * 1000 + ' ' * (512 << 20), 'StableHLO')"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as asker:
        assert asker.stdout is not None
        asker.stdout.readline()
        while not (readers := _children(asker.pid)):
            assert asker.poll() is None
            time.sleep(0.01)
        asker.kill()
    until = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}/exe") for pid in readers):  # noqa: PTH110 - of a zombie it cannot be read
        assert time.monotonic() < until
        time.sleep(0.01)


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return file.read().split()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), r"Too many files are open .*ulimit -n"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "no room for another process"),
        (MemoryError(), "Memory ran out while starting a reader"),
    ],
)
def test_missing_system_support_is_named(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(isolated_reading.subprocess, "run", run)
    with pytest.raises(ResourceError, match=words) as raised:
        isolated_reading.hlo_proto("HloModule m")
    assert raised.value.__cause__ is error


def test_shardy_is_whole_for_jax_if_inspector_is_imported_first(one_device_python: RunPython) -> None:
    """On jaxlib 0.12, `_sdy` imports the dialect before its own attributes are there."""
    one_device_python(
        "import inspector._jax.modules.stablehlo\n"
        "from jaxlib.mlir.dialects import sdy\n"
        "assert hasattr(sdy, 'TensorShardingPerValueAttr')"
    )
