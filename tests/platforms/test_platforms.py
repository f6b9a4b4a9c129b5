"""The platforms as values: each fact once, and found by every name."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections import Counter
from pathlib import Path

import pytest

from inspector import platforms
from inspector.compilation.target import Target
from inspector.platforms import CPU, CUDA, KINDS, NAMES, PLATFORMS, TPU, Platform
from tests.project import parsed, without_hidden

PACKAGE = Path(platforms.__file__).parents[1]
EACH = pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: p.name)


def test_names() -> None:
    assert KINDS == ("cpu", "gpu", "tpu")
    assert NAMES[:3] == ("cpu", "tpu", "gpu")
    assert platforms.named("cuda") is platforms.named("gpu") is CUDA
    assert (platforms.named("tpu"), platforms.named("cpu")) == (TPU, CPU)
    assert CUDA.flag_prefix == "xla_gpu_"


def test_a_platform_of_which_nothing_is_known() -> None:
    metal = platforms.named("metal")
    assert (metal.name, metal.kind, metal.lowering, metal.words) == ("metal",) * 4
    assert (metal.spaces, metal.chips, metal.plugin, metal.back_end) == ({}, (), "", "code generation")


def test_attached_devices() -> None:
    assert platforms.attached("cpu", "<unknown>") is CPU
    assert platforms.attached("tpu", "PJRT C API\nTFRT TPU v5 lite") is TPU
    assert platforms.attached("gpu", "PJRT C API\ncuda 13000") is CUDA
    assert platforms.attached("gpu", "") is CUDA
    assert platforms.attached("metal", "").name == "metal"


@EACH
def test_names_are_unique(platform: Platform) -> None:
    others = [p for p in PLATFORMS if p is not platform]
    assert not {platform.name, platform.lowering} & {name for p in others for name in (p.name, p.lowering)}
    chips = [name for chip in platforms.chips() for name in (chip.name, *chip.aliases)]
    kinds = [name for chip in platforms.chips() for name in (chip.device_kind, *chip.other_kinds)]
    assert max(Counter(chips).values()) == max(Counter(kinds).values()) == 1


@EACH
def test_its_targets_are_targets(platform: Platform) -> None:
    for text in (*platform.offered, platform.example):
        target = Target(text)
        assert (str(target), target.kind, target.platform) == (text, platform.kind, platform.name)
    for chip in platform.chips:
        for shape in platform.listed:
            target = Target(f"{platform.kind}:{chip.name}:{shape}")
            assert (target.chip, target.platform) == (chip.name, platform.name)
            assert platforms.of_target(target.kind, target.chip) is platform


@EACH
def test_chips(platform: Platform) -> None:
    assert bool(platform.chips) is bool(platform.plugin) is bool(platform.usual_chip)
    assert not platform.chips or platform.chip(platform.usual_chip) is not None
    for chip in platform.chips:
        assert platform.chip(chip.name.upper()) is chip
        assert all(platform.chip(alias) is chip for alias in chip.aliases)
        assert chip.topologies.device_count(chip.topologies.read("", "", "")) == chip.topologies.devices_per_chip
        assert chip.peak is None or chip.peak.chip == chip.name
    assert platform.chip("z9") is None


@EACH
def test_its_plugin_has_the_required_interface(platform: Platform) -> None:
    if not platform.plugin:
        return
    from inspector._jax.compiling.ahead_of_time import Plugin

    module = importlib.import_module(f"inspector._jax.compiling.{platform.plugin}")
    asked = [name for name in vars(Plugin) if not name.startswith("_")]
    assert len(asked) >= 7
    assert [name for name in asked if not callable(getattr(module, name, None))] == []


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CUDA.name = "cuda"  # type: ignore[misc]


def _code_words(file: Path) -> set[str]:
    """The texts in a module's code, without those of docstrings and of longer sentences."""
    tree = parsed(file.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_a_chip_is_known_in_one_file() -> None:
    """And at most in that of its platform behind the wall, where a probe compiles for one."""
    names = {name for chip in platforms.chips() for name in (chip.name, chip.device_kind)}
    found = {
        file.relative_to(PACKAGE).as_posix() for file in without_hidden(PACKAGE, "*.py") if names & _code_words(file)
    }
    assert found == {f"platforms/{platform.lowering}.py" for platform in PLATFORMS if platform.chips}


def test_the_conversion_of_names_is_in_one_place() -> None:
    alone = {platform.lowering for platform in PLATFORMS if platform.lowering not in KINDS}
    found = {
        file.relative_to(PACKAGE).as_posix() for file in without_hidden(PACKAGE, "*.py") if alone & _code_words(file)
    }
    assert found == {f"platforms/{name}.py" for name in alone}


def test_a_platform_is_known_by_the_vendor_that_a_profile_names() -> None:
    vendors = [platform for platform in PLATFORMS if platform.vendor]
    assert [platforms.of_vendor(p.kind, p.vendor.upper()) for p in vendors] == vendors
    assert len(vendors) == 2
    assert platforms.of_vendor("gpu", "") is CUDA
    assert platforms.of_vendor("tpu", "Google").kind == "tpu"
    assert platforms.of_vendor("npu", "").name == "npu"
