"""The controls: what is typed becomes a request, what is wrong with it is said beside it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from inspector.compilation.options import Options
from inspector.errors import ParameterError, TargetError
from inspector.widgets.controls import Controls, parse_axes
from tests.absent import needs_tpu

FAST_MATH, SPLIT = "xla_cpu_enable_fast_math", "xla_cpu_parallel_codegen_split_count"


class Asked:
    def __init__(self) -> None:
        self.added: list[tuple[Options, str]] = []
        self.axes: list[Any] = []
        self.controls = Controls(("attached", "cpu"), "attached", [("i", 4)], self.add, self.axes.append)

    def add(self, options: Options, target: str) -> None:
        if target == "moon":
            raise TargetError("Unknown target <moon>")
        self.added.append((options, target))

    def click(self, flag: str = "", value: str = "", target: str = "attached") -> str:
        self.controls.flag.value, self.controls.value.value, self.controls.target.value = flag, value, target
        self.controls.add.click()
        return str(self.controls.message.value)


@pytest.fixture
def asked() -> Asked:
    made = Asked()
    deadline = time.monotonic() + 30
    while not made.controls.flag.options and time.monotonic() < deadline:
        time.sleep(0.01)
    return made


@pytest.mark.parametrize(
    ("flag", "value", "flags"),
    [
        ("", "", {}),
        (FAST_MATH, "", {FAST_MATH: True}),
        (f"--{FAST_MATH} ", " false ", {FAST_MATH: False}),
        (SPLIT, "3", {SPLIT: 3}),
        (f"--{SPLIT}=3 --{FAST_MATH}", "", {SPLIT: 3, FAST_MATH: True}),
        (f"--{FAST_MATH} --xla_cpu_use_xnnpack", "", {FAST_MATH: True, "xla_cpu_use_xnnpack": True}),
    ],
)
def test_what_is_typed_is_asked_for(asked: Asked, flag: str, value: str, flags: dict[str, Any]) -> None:
    assert asked.click(flag, value, "cpu") == ""
    assert asked.added == [(Options(flags=flags), "cpu")]


@pytest.mark.parametrize(
    ("flag", "value", "target", "words"),
    [
        ("", "3", "cpu", "<b>OptionError</b> The value &#x27;3&#x27; has no flag"),
        (SPLIT, "", "cpu", f"{SPLIT} needs a value of type int32"),
        (SPLIT, "many", "cpu", "<b>FlagTypeError</b>"),
        (f"--{FAST_MATH}=true", "false", "cpu", "holds its own values"),
        ("xla_cpu_enable_fast_mth", "", "cpu", f"Did you mean {FAST_MATH}"),
        ("--xla_dump_to='/tmp", "", "cpu", "No closing quotation"),
        ("", "", "moon", "Unknown target &lt;moon&gt;"),
    ],
)
def test_what_is_wrong_is_said_beside_it(asked: Asked, flag: str, value: str, target: str, words: str) -> None:
    assert words in asked.click(flag, value, target)
    assert asked.added == []
    # The next good click clears it.
    assert asked.click() == ""


def test_a_flags_values_are_offered(asked: Asked) -> None:
    asked.controls.flag.value = FAST_MATH
    assert asked.controls.value.options == ("true", "false")
    asked.controls.flag.value = SPLIT
    assert (asked.controls.value.options, asked.controls.value.placeholder) == ((), "int32")
    asked.controls.flag.value = "nonsense"
    assert asked.controls.value.placeholder == "value"
    assert FAST_MATH in asked.controls.flag.options


@needs_tpu
def test_values_of_libtpus_flags_are_offered(asked: Asked) -> None:
    asked.controls.flag.value = "s8_coalescing_ignore_distance_for_pairing"
    assert asked.controls.value.options == ("auto", "true", "false")
    asked.controls.flag.value = "xla_memory_scheduler"
    assert asked.controls.value.options[:2] == ("default", "list")
    asked.controls.flag.value = "xla_mosaic_dump_to"
    assert "string · default (empty) · tpu · LIBTPU_INIT_ARGS" in asked.controls.message.value


@needs_tpu
def test_typing_stays_fluid_among_all_flags(asked: Asked) -> None:
    assert len(asked.controls.flag.options) > 1500
    asked.controls.flag.value = "xla"
    started = time.process_time()
    for text in ("xla_tpu", "xla_tpu_e", "xla_tpu_en", "all gather", "vmem", "remat"):
        asked.controls.flag.value = text
    assert (time.process_time() - started) / 6 < 0.05  # 0.01; a key is pressed each 0.1 s


def test_the_chosen_flag_says_what_it_is(asked: Asked) -> None:
    asked.controls.flag.value = FAST_MATH
    said = asked.controls.message.value
    assert f"<b>{FAST_MATH}</b> bool · default false · cpu · per compile<br>Enable unsafe fast-math" in said
    assert 'role="status"' in said
    asked.controls.flag.value = "xla_cpu_scheduler_type"
    assert "one of CPU_SCHEDULER_TYPE_DEFAULT, " in asked.controls.message.value
    asked.controls.flag.value = "--xla_dump_to=/tmp/a"
    assert "<b>xla_dump_to</b> string · default (empty) · dump" in asked.controls.message.value
    asked.controls.flag.value = ""
    assert asked.controls.message.value == ""


def chips(asked: Asked) -> list[str]:
    return [child.description for child in asked.controls.found.children if hasattr(child, "icon")]


def test_three_letters_find_flags(asked: Asked) -> None:
    asked.controls.flag.value = "fa"
    assert chips(asked) == []
    asked.controls.flag.value = "fast math"
    assert FAST_MATH in chips(asked)
    assert asked.controls.found.layout.display == "flex"
    assert asked.controls.found.children[-1].value.endswith("more: type more letters")
    asked.controls.flag.value = "isa"
    assert "xla_cpu_max_isa" in chips(asked)
    next(c for c in asked.controls.found.children if c.description == "xla_cpu_max_isa").click()
    assert asked.controls.flag.value == "xla_cpu_max_isa"
    assert "<b>xla_cpu_max_isa</b> string" in asked.controls.message.value
    assert asked.controls.found.layout.display == "none"


def test_an_option_that_is_no_flag_of_xla(asked: Asked) -> None:
    assert asked.click("num_replicas", "2", "cpu") == ""
    assert asked.click("optimization_level", "o1", "cpu") == ""
    assert asked.added == [
        (Options(num_replicas=2), "cpu"), (Options(flags={"optimization_level": "EFFORT_O1"}), "cpu"),
    ]  # fmt: skip


def test_axes_are_read_and_handed_on(asked: Asked) -> None:
    assert asked.controls.axes.value == "i=4"
    asked.controls.axes.value = " i = 8,j=2 "
    asked.controls.apply.click()
    assert asked.axes == [[("i", 8), ("j", 2)]]
    asked.controls.axes.value = "i:8"
    asked.controls.apply.click()
    assert "Cannot read &#x27;i:8&#x27; as an axis: expected name=size" in asked.controls.message.value
    assert len(asked.axes) == 1


@pytest.mark.parametrize("text", ["i", "i=", "=4", "i=-4", "i=4.0", "i=²", "i=4 j=2"])
def test_what_is_no_axis(text: str) -> None:
    with pytest.raises(ParameterError, match="expected name=size, such as i=4"):
        parse_axes(text)


def test_no_axes() -> None:
    assert parse_axes("") == parse_axes(" , ") == []


def test_without_lowering_again_the_axes_are_closed() -> None:
    controls = Controls((), "cpu", None, lambda *_: None, None)
    assert controls.axes.disabled
    assert controls.apply.disabled
    controls.apply.click()
    assert controls.message.value == ""
