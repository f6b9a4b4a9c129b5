"""The Pallas pane's messages, and what is typed into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import inspector
from inspector.compilation.target import Target
from inspector.errors import CompilationError, FlagTypeError, OptionError, UnknownFlagError
from inspector.hlo.pallas import ParamField
from inspector.lowering.pallas import fields, fields_of
from inspector.stages.kernel import Kernel
from inspector.widgets.messages import problem
from inspector.widgets.messages.kernels import Kernels
from inspector.widgets.panes.pallas import chip_of, kernels_html, kernels_message
from inspector.widgets.panes.registry import ToBrowser
from inspector.widgets.tuning import check_fields, read_values, write_value
from tests.kernels import matmul, scale, struct

TEXTS = Path(__file__).parent.parent / "analysis" / "data" / "pallas"
TPU = fields("mosaic_tpu")


def kernels(fun: Any, *args: Any, **options: Any) -> tuple[Kernel, ...]:
    return inspector.lower(fun, *args, platform="tpu", **options).kernels


def message(found: tuple[Kernel, ...], target: str = "tpu:v5e", error: Exception | None = None) -> Kernels:
    made = kernels_message(3, found, [fields_of(k, "tpu") for k in found], Target.parse(target), error)
    assert problem(made, ToBrowser) is None
    return made


def test_a_kernel_with_its_blocks_and_memory() -> None:
    (row,) = message(kernels(lambda x, y: matmul(x, y, bm=256), struct(512, 512), struct(512, 512)))["rows"]
    assert (row["name"], row["grid"], row["step_count"], row["steps_shown"]) == ("matmul", [2, 4, 4], 32, 32)
    x, _, o = row["operands"]
    assert [x["starts"][block] for block in x["steps"][:5]] == [[0, 0], [0, 128], [0, 256], [0, 384], [0, 0]]
    assert (x["copies"], x["copied_bytes"], len(x["revisited"])) == (32, 32 * 131072, 8)
    assert (o["copies"], o["revisited"], o["overlapping"]) == (8, [], [])
    assert row["memory"] is not None
    assert (row["memory"]["chip"], row["memory"]["total_bytes"], row["memory"]["limit_bytes"]) == (
        "v5e",
        786432,
        16 << 20,
    )
    assert (row["memory"]["how_sure"], row["memory"]["fits"]) == ("about ", None)  # not compiled yet
    assert row["memory"]["remark"].startswith("An estimate: ")
    assert dict(row["facts"])["scratch"] == "sum_ref float32[256,128] in vmem"
    params = {p["name"]: p for p in row["params"]}
    assert (params["dimension_semantics"]["value"], params["dimension_semantics"]["default"]) == (
        "parallel, parallel, arbitrary",
        "none",
    )
    assert params["kernel_type"]["reason"]
    assert row["source"] is not None
    assert row["source"]["file"].endswith("kernels.py")


def test_changed_fields_are_marked() -> None:
    (row,) = message(kernels(scale, struct(64, 128), compiler_params={0: {"vmem_limit_bytes": 1 << 20}}))["rows"]
    changed = {p["name"]: p["value"] for p in row["params"] if p["overridden"]}
    assert changed == {"vmem_limit_bytes": "1048576"}


def test_a_huge_grid_and_many_blocks_are_cut_and_totals_are_not() -> None:
    (row,) = message(kernels(scale, struct(8 * 20_000, 128)))["rows"]
    assert (row["step_count"], row["steps_shown"]) == (20_000, 4096)
    assert len(row["operands"][0]["starts"]) == 4096
    assert row["operands"][0]["copies"] == 20_000


def test_the_budget_is_the_targets() -> None:
    found = kernels(scale, struct(64, 128))
    limits = {}
    for target in ("tpu:v4", "tpu:v6e", "cpu", "gpu:h100"):
        memory = message(found, target)["rows"][0]["memory"]
        assert memory is not None
        limits[target] = (memory["chip"], memory["limit_bytes"] >> 20)
    assert limits == {"tpu:v4": ("v4", 16), "tpu:v6e": ("v6e", 32), "cpu": ("v5e", 16), "gpu:h100": ("v5e", 16)}
    assert chip_of(Target.parse("attached")) == "v5e"


def test_a_refusal_is_explained_and_names_its_kernel() -> None:
    big = struct(8192, 8192, dtype="bfloat16")
    found = kernels(lambda x, y: matmul(scale(x, rows=512), y, bm=1024, bk=1024, bn=1024), big, big)
    trouble = message(found, error=CompilationError((TEXTS / "scoped.0.12.txt").read_text()))["trouble"]
    assert trouble is not None
    assert trouble["kernel"] == 1
    assert (trouble["asked_bytes"], trouble["limit_bytes"]) == (round(18.36 * (1 << 20)), 16 << 20)
    assert trouble["advice"][0].endswith("vmem_limit_bytes=20 << 20.")


def test_a_refusal_in_the_kernels_body_names_the_line() -> None:
    trouble = message(
        kernels(scale, struct(64, 128)), error=CompilationError((TEXTS / "location.0.12.txt").read_text())
    )["trouble"]
    assert trouble is not None
    assert trouble["source"] == {"file": "/home/user/kernels.py", "line": 5, "library": ""}
    assert trouble["help_url"] == "https://openxla.org/xla/errors/error_2003"


def test_other_errors_are_not_attributed_to_a_kernel() -> None:
    assert (
        message(kernels(scale, struct(64, 128)), error=CompilationError("XLA refused something else"))["trouble"]
        is None
    )


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("vmem_limit_bytes", "33554432", 33554432),
        ("vmem_limit_bytes", "32 MiB", 32 << 20),
        ("vmem_limit_bytes", "1.5 KiB", 1536),
        ("vmem_limit_bytes", " 20 << 20 ", 20 << 20),
        ("vmem_limit_bytes", "none", None),
        ("vmem_limit_bytes", "", None),
        ("dimension_semantics", "parallel, arbitrary", ("parallel", "arbitrary")),
        ("dimension_semantics", "('parallel', \"arbitrary\")", ("parallel", "arbitrary")),
        ("dimension_semantics", "None", None),
        ("allow_input_fusion", "true, false", (True, False)),
        ("has_side_effects", "true", True),
        ("has_side_effects", "side_effecting", "side_effecting"),
        ("disable_bounds_checks", "True", True),
        ("flags", '{"a": 1}', {"a": 1}),
        ("serialization_format", "2", 2),
    ],
)
def test_values_as_they_are_typed(name: str, text: str, value: Any) -> None:
    assert read_values(TPU, {name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vmem_limit_bytes", "lots"),
        ("vmem_limit_bytes", "1.5"),
        ("vmem_limit_bytes", "3 miles"),
        ("disable_bounds_checks", "perhaps"),
        ("disable_bounds_checks", "none"),
        ("serialization_format", ""),
        ("flags", "[1]"),
        ("flags", "{"),
        ("allow_input_fusion", "true, perhaps"),
    ],
)
def test_an_invalid_value_is_refused_with_the_expected_form(name: str, text: str) -> None:
    with pytest.raises(FlagTypeError) as raised:
        read_values(TPU, {name: text})
    kind = next(field.type for field in TPU if field.name == name)
    assert str(raised.value).startswith(f"{name} must be {kind}")
    assert str(raised.value).endswith(f", got {text!r}.")


def test_fields_that_there_are_not() -> None:
    with pytest.raises(UnknownFlagError, match="Unknown compiler parameter 'kernel_type'"):
        read_values(TPU, {"kernel_type": "TC"})
    with pytest.raises(UnknownFlagError, match="Unknown compiler parameter 'x'"):
        read_values(TPU, {"x": "1"})


@pytest.mark.parametrize(
    "values",
    [{"flags": {"xla_jf_dump_to": "/tmp/x"}}, {"profile_dir": "/tmp/x"}],
)
def test_a_page_names_no_file_and_no_flags_of_a_kernel(values: dict[str, Any]) -> None:
    known = [
        ParamField("flags", "dict[str, Any] | None", None, (), ""),
        ParamField("profile_dir", "str", "", (), ""),
    ]
    with pytest.raises(OptionError, match="so it cannot be set from a page"):
        check_fields(known, values)
    check_fields(known, {"flags": None, "profile_dir": ""})
    check_fields(TPU, {"vmem_limit_bytes": 3, "dimension_semantics": ("parallel",), "has_side_effects": "pure"})


def test_every_default_is_read_as_it_is_written() -> None:
    usable: list[ParamField] = [field for field in TPU if field.available is True]
    assert read_values(usable, {f.name: write_value(f.default) for f in usable}) == {f.name: f.default for f in usable}
    assert write_value((("a", 1), ("b", "x"))) == '{"a": 1, "b": "x"}'


def test_a_page_without_a_notebook_kernel_shows_the_same() -> None:
    big = struct(8192, 8192, dtype="bfloat16")
    found = kernels(lambda x, y: matmul(x, y, bm=1024, bk=1024, bn=1024), big, big)
    html = kernels_html(found, Target.parse("tpu:v5e"), CompilationError((TEXTS / "scoped.0.12.txt").read_text()))
    assert "Rejected by the compiler: matmul.1 needs at least 18.4 MiB of vmem" in html
    assert "vmem_limit_bytes=20 &lt;&lt; 20" in html
    assert "Kernel 0 matmul: grid 8 x 8 x 8, 2 inputs, 1 outputs; at least 18.4 MiB of 16 MiB VMEM" in html
    assert "(1024, 1024)" in html
