"""The instruction of each of Mosaic's stages."""

from __future__ import annotations

from inspector.compilation.records.tpu_codes import TpuCodes
from inspector.compilation.records.tpu_names import tpu_file


def kernels(*files: tuple[str, str]) -> dict[tuple[str, str], str]:
    """Text by stage and kernel, of files by name and text."""
    codes = TpuCodes()
    for name, text in files:
        file = tpu_file(f"{name}.txt")
        assert file is not None, name
        codes.take(file, text.encode())
    return {(code.stage, code.kernel): str(code.text) for code in codes.codes()}


def mosaic(time: int, function: str, body: str, file: str = "anonymous") -> list[tuple[str, str]]:
    text = f"module {{\n  func.func @{function}(%arg0: i32) {{ {body} }}\n}}"
    return [
        (f"{time}-0001-mosaic-dump-{file}-original", text),
        (f"{time}-0002-mosaic-dump-{file}-post-lower-to-llo", f"{text} lowered"),
    ]


def test_kernels_of_one_name_one_after_the_other() -> None:
    files = [*mosaic(10, "scale", "first"), ("20-scale.5-02-original", "llo"), ("20-fusion-02-original", "")]
    files += [*mosaic(30, "scale", "second"), ("40-scale.3-02-original", "llo")]
    files += [*mosaic(35, "other", "third", file="other"), ("50-other.1-02-original", "llo")]
    found = kernels(*reversed(files))
    assert {kernel for stage, kernel in found if stage == "Mosaic"} == {"scale.5", "scale.3", "other.1"}
    assert "first" in found["Mosaic", "scale.5"]
    assert found["Mosaic lower-to-llo", "scale.3"].endswith("lowered")
    assert "second" in found["Mosaic lower-to-llo", "scale.3"]
    assert {kernel for stage, kernel in found if stage == "LLO"} == {"scale.5", "scale.3", "other.1", "fusion"}


def test_concurrent_compiles_cannot_be_distinguished() -> None:
    files = [*mosaic(10, "scale", "first"), *mosaic(15, "scale", "second")]
    files += [("20-scale.5-02-original", "llo"), ("25-scale.3-02-original", "llo")]
    found = kernels(*files)
    assert "first" in found["Mosaic", "scale"]
    assert "second" in found["Mosaic", "scale #2"]


def test_without_llo_a_kernel_goes_by_its_function() -> None:
    assert set(kernels(*mosaic(10, "a-b", "only"))) == {("Mosaic", "a-b"), ("Mosaic lower-to-llo", "a-b")}


def test_the_later_of_two_compiles_counts() -> None:
    files = [*mosaic(10, "scale", "first"), ("20-scale.1-02-original", "old")]
    files += [*mosaic(30, "scale", "second"), ("40-scale.1-02-original", "new")]
    found = kernels(*reversed(files))
    assert "second" in found["Mosaic", "scale.1"]
    assert found["LLO", "scale.1"] == "new"
