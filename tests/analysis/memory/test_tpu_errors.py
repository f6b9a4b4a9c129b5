"""Errors of libtpu about kernels. The texts in `data/pallas` are original, by JAX version."""

from __future__ import annotations

from pathlib import Path

import pytest

import inspector
from inspector.analysis.memory.tpu_errors import (
    KernelRefused,
    MemoryOverflow,
    Refused,
    advice,
    explain,
    explain_kernel,
    kernel_of,
)
from inspector.hlo.source import Frame
from tests.kernels import matmul, scale, struct

DATA = Path(__file__).parents[1] / "data" / "pallas"
VERSIONS = ("0.10", "0.12")
MIB = 1 << 20


def said(name: str, version: str) -> str:
    return (DATA / f"{name}.{version}.txt").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_limit_of_a_kernel(version: str) -> None:
    found = explain(said("scoped", version))
    assert found == MemoryOverflow("vmem", round(18.36 * MIB), 16 * MIB, "scoped", "matmul.1", ())
    assert str(found) == (
        "matmul.1 needs at least 18.4 MiB of vmem, at least 2.36 MiB more than the kernel limit of 16 MiB"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_one_allocation_that_no_memory_holds(version: str) -> None:
    one = Refused(130 * MIB, "f32[266240,128]{1,0:T(8,128)}", "scratch operand")
    assert explain(said("allocation", version)) == MemoryOverflow(
        "vmem", 130 * MIB, 128 * MIB, "capacity", "big.1", (one,)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_all_allocations_together(version: str) -> None:
    found = explain(said("total", version))
    assert isinstance(found, MemoryOverflow)
    assert (found.space, found.asked_bytes, found.limit_bytes, found.limit) == (
        "vmem",
        round(140.02 * MIB),
        128 * MIB,
        "capacity",
    )
    assert found.kernel == "big.1"
    assert [a.size_bytes for a in found.allocations[:3]] == [70 * MIB, 70 * MIB, 8192]
    assert found.allocations[0].tag == "scratch operand"
    assert "2 buffering levels" in found.allocations[2].tag


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_mosaic(version: str) -> None:
    found = explain(said("mosaic", version))
    assert isinstance(found, KernelRefused)
    assert found.reason.startswith("Core-parallel dimension 0 has iteration bound: 4")
    assert found.kernel == ("big.1" if version == "0.12" else "")
    assert found.frames == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_where_in_the_kernel(version: str) -> None:
    found = explain(said("location", version))
    assert isinstance(found, KernelRefused)
    assert found.reason.endswith("cannot statically prove that index in dimension 1 is a multiple of 128")
    assert found.frames == (Frame("/home/user/kernels.py", 5, "k4"),)
    assert found.operation.startswith('%4 = "tpu.vector_load"')
    assert found.help_url == "https://openxla.org/xla/errors/error_2003"
    assert "at /home/user/kernels.py:5: E2003" in str(found)


def test_no_limit_is_advised_beyond_the_core() -> None:
    found = explain(said("total", "0.12"))
    assert isinstance(found, MemoryOverflow)
    assert advice(found, (), "v5e") == ("A higher limit cannot help: v5e has 128 MiB.",)


def test_other_errors_and_broken_ones_are_none() -> None:
    assert explain("INVALID_ARGUMENT: something else") is None
    assert explain("") is None
    assert explain("Scoped allocation with size many and limit 16.00M exceeded") is None
    assert explain(said("scoped", "0.12")[:300]) is None


def test_an_overflow_of_another_memory() -> None:
    found = explain(
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.00G of 15.75G hbm. Exceeded hbm capacity by 4.25G."
    )
    assert found == MemoryOverflow("hbm", 20 << 30, round(15.75 * (1 << 30)), "capacity", "", ())
    assert advice(found, (), "v5e") == ()


@pytest.mark.parametrize(
    "before", ["", "E1000: CompileTimeHbmOom: "], ids=["as libtpu 0.0.42 says it", "as libtpu 0.0.50 does"]
)
def test_an_overflow_of_a_whole_program(before: str) -> None:
    text = (
        f"RESOURCE_EXHAUSTED: {before}Ran out of memory on HBM, the total memory required for HLO temporaries (88.12G)"
        " exceeds available HBM (15.75G)."
    )
    found = explain(text)
    assert found == MemoryOverflow("hbm", round(88.12 * (1 << 30)), round(15.75 * (1 << 30)), "capacity", "", ())
    assert found.is_of_program
    assert explain_kernel(text) is None
    assert explain_kernel(said("scoped", "0.12")) == explain(said("scoped", "0.12"))
    assert advice(found, (), "v5e") == ()


def test_advice_has_the_numbers_of_this_kernel() -> None:
    big = struct(8192, 8192, dtype="bfloat16")
    kernels = inspector.lower(lambda x, y: matmul(x, y, bm=1024, bk=1024, bn=1024), big, big, platform="tpu").kernels
    found = explain(said("scoped", "0.12"))
    assert isinstance(found, MemoryOverflow)
    raise_it, smaller, rest = advice(found, kernels, "v5e")
    assert raise_it == "Raise the limit of the kernel (v5e has 128 MiB): vmem_limit_bytes=20 << 20."
    assert smaller.startswith("Its largest part is x_ref, 1024x1024 bfloat16: 4 MiB in 2 buffers.")
    assert rest.startswith("Blocks and scratch take 16 MiB of it; the compiler needs the other 2.36 MiB")


def test_the_kernel_that_an_instruction_calls() -> None:
    kernels = inspector.lower(lambda x: matmul(scale(x), x), struct(256, 256), platform="tpu").kernels
    assert kernel_of("matmul.17", kernels) is kernels[1]
    assert kernel_of("fusion.1", kernels) is None
    assert kernel_of("fusion.1", kernels[:1]) is kernels[0]
