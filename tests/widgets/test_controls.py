"""The controls: flags are found, what is typed becomes a request, and what is wrong with it is said."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspector import settings
from inspector.api.opened_program import OpenedProgram
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.compilation.tuning import AS_IT_IS, Tuning
from inspector.errors import ParameterError, Unavailable
from inspector.support.install_commands import install_command
from inspector.toolchain import untrusted
from inspector.toolchain.flags import catalog
from inspector.widgets import controls, messages
from inspector.widgets.controls import Controls, find_flags, parse_axes
from inspector.widgets.lowerings import Lowerings
from inspector.widgets.typed_options import read_fields, read_options, unwrapped
from inspector.widgets.variants import Variant
from tests.absent import needs_tpu
from tests.widgets.fakes import FakeWork, Mailbox, lowered

FAST_MATH, SPLIT = "xla_cpu_enable_fast_math", "xla_cpu_parallel_codegen_split_count"


class Asked:
    """Controls, and what they start and publish."""

    def __init__(self, can_lower: bool = True) -> None:
        self.added: list[tuple[Options, str]] = []
        self.axes: list[Any] = []
        self.published: list[Any] = []
        self.work = FakeWork()
        self.work.targets = ("attached", "cpu")
        self.tuning = AS_IT_IS
        self.lowered: Any = lowered([("i", 4)])
        self.lowerings = Lowerings(self.work, self.lowered)
        self.variants = (Variant(0, True, Options(), Target.parse("cpu")),)
        this: Any = self
        self.controls = Controls(self.published.append, this, this, Target.parse("cpu"), can_lower=can_lower)

    def later(self, task: Callable[[], object]) -> None:
        task()

    def start(self, options: Options, target: Target, _: Tuning) -> None:
        self.added.append((options, str(target)))

    def start_over(self, axes: Any) -> Variant:
        self.axes.append(axes)
        self.lowered = lowered(axes)
        self.variants = (Variant(1, True, Options(), Target.parse("cpu:16")),)
        return self.variants[0]

    def click(self, flag: str = "", value: str = "", target: str = "") -> str:
        self.controls.receive({"type": "add", "flag": flag, "value": value, "target": target})
        return self.said()

    def lower(self, axes: str) -> str:
        self.controls.receive({"type": "lower", "axes": axes})
        return self.said()

    def said(self) -> str:
        last = [m for m in self.published if m["type"] == "said"][-1]["error"]
        return "" if last is None else f"{last['kind']}: {last['message']}"

    def found(self, count: int, limit_s: float = 60) -> list[Any]:
        """The replies to searches, waiting for so many."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if len(replies := [m for m in self.published if m["type"] == "flags"]) >= count:
                return replies
            time.sleep(0.01)
        pytest.fail(f"{count} replies to searches wanted, {self.published} came")


@pytest.fixture
def asked() -> Asked:
    return Asked()


def search(text: str, compiler: str = "cpu") -> messages.Flags:
    return find_flags({"type": "flags", "id": 3, "search": text, "target": ""}, compiler)


def row(name: str) -> messages.Flag:
    return next(row for row in search(name)["rows"] if row["name"] == name)


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
def test_typed_values_are_requested(asked: Asked, flag: str, value: str, flags: dict[str, Any]) -> None:
    assert asked.click(flag, value, " cpu ") == ""
    assert asked.added == [(Options(flags=flags), "cpu")]


@pytest.mark.parametrize(
    ("flag", "value", "target", "words"),
    [
        ("", "3", "cpu", "OptionError: The value '3' has no flag"),
        (SPLIT, "", "cpu", f"{SPLIT} needs a value of type int32"),
        (SPLIT, "many", "cpu", "FlagTypeError: "),
        (f"--{FAST_MATH}=true", "false", "cpu", "already contains values"),
        ("xla_cpu_enable_fast_mth", "", "cpu", f"Did you mean {FAST_MATH}"),
        ("--xla_dump_to='/tmp", "", "cpu", "a quotation mark is not closed"),
        ("", "", "moon", "TargetError: Unknown target 'moon'"),
    ],
)
def test_errors_appear_next_to_the_field(asked: Asked, flag: str, value: str, target: str, words: str) -> None:
    assert words in asked.click(flag, value, target)
    assert asked.added == []
    # The next good click clears it.
    assert asked.click() == ""


@pytest.mark.parametrize(
    "flag",
    [
        "xla_dump_to",
        "xla_gpu_dump_autotune_logs_to",
        pytest.param("xla_tpu_dump_logs_to_dir", marks=needs_tpu),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "/",
        "..",
        "elsewhere",
        "~",
        "{own}/../x",
        "{own}/link/x",
        "{own}/../own,/tmp",
        "-",
        "sponge",
        "file:///{own}/x",
        "ram://x",
    ],
)
def test_a_page_names_no_file_outside_of_the_users_folder(asked: Asked, tmp_path: Path, flag: str, place: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "link").symlink_to(tmp_path)
    place = place.format(own=own)
    for folder in ("", own):
        with settings.scope(dump_directory=folder):
            assert "To use any option, call explorer.add({...}) from Python." in asked.click(flag, place, "cpu")
            assert "OptionError" in asked.click(f"--{FAST_MATH} --{flag}='{place}'", "", "cpu")
    with settings.scope(dump_directory=own):
        assert asked.click(flag, f"{own}/here", "cpu") == ""
    assert [options.flags for options, _ in asked.added] == [{flag: f"{own}/here"}]


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("xla_backend_extra_options", "info-output-file=/tmp/x"),
        ("extra_proto", "AAAA"),
        ("xla_dump_hlo_as_text", ""),
        ("xla_dump_hlo_pass_re", ".*"),
    ],
)
def test_a_page_has_nothing_written_out_of_sight(asked: Asked, flag: str, value: str) -> None:
    assert "call explorer.add({...}) from Python" in asked.click(flag, value, "cpu")
    assert asked.added == []


def test_the_flag_field_reads_no_file(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my flags").write_text(f"--{FAST_MATH}=true")
    monkeypatch.chdir(tmp_path)
    assert Options.parse("my flags").flags == {FAST_MATH: True}
    assert "Cannot read 'my' as a flag" in asked.click("my flags", "", "cpu")
    assert "OptionError" in asked.click(f"{tmp_path}/my flags", "", "cpu")
    assert asked.added == []


def test_no_option_that_names_a_file_is_overlooked() -> None:
    """By name, against what their descriptions say."""
    said = re.compile(
        r"\b(file(name)?|director(y|ies)|path) (to|of|for|with|containing|that)\b|^(File|Directory|Path)\b"
    )
    texts = [o for o in catalog.options() if o.type in ("string", "list of string", "auto or string")]
    found = {o.name for o in texts if isinstance(o.description, str) and said.search(o.description)}
    assert len(found) > 8
    assert sorted(name for name in found if untrusted.is_allowed(name)) == []


def test_an_option_that_is_not_a_flag_of_xla() -> None:
    assert read_options("num_replicas", "2") == Options(num_replicas=2)
    assert read_options("optimization_level", "o1") == Options(flags={"optimization_level": "EFFORT_O1"})


def test_a_flag_has_a_description() -> None:
    found = row(FAST_MATH)
    assert (found["type"], found["default"], found["values"]) == ("bool", "false", ["true", "false"])
    assert found["described"]
    assert found["description"].startswith("Enable unsafe fast-math")
    assert (found["channel"], found["targets"], found["deprecated"]) == ("per compile", ["cpu"], False)
    assert row(SPLIT)["values"] == []
    assert row("xla_cpu_scheduler_type")["values"][0] == "CPU_SCHEDULER_TYPE_DEFAULT"
    assert row("xla_dump_to")["default"] == ""
    undescribed = row("num_replicas")
    assert not undescribed["described"]
    assert undescribed["description"].endswith("only of flags.")


def test_three_letters_find_flags() -> None:
    assert "xla_cpu_max_isa" in [row["name"] for row in search("isa")["rows"]]
    found = search("cpu_max_isa")
    assert found["id"] == 3
    assert found["total"] == len(found["rows"]) > 0
    everything = search("")
    assert everything["total"] > 300 > len(everything["rows"])
    assert messages.problem(everything, messages.Flags) is None
    assert search("zzzzqqqq") == {"type": "flags", "id": 3, "rows": [], "total": 0, "note": everything["note"]}


def test_flags_of_the_target_come_first() -> None:
    for compiler in ("cpu", "gpu"):
        taken = [row["is_taken"] for row in search("fusion", compiler)["rows"]]
        assert taken == sorted(taken, reverse=True)
        assert {True, False} == set(taken)
    assert search("fusion", "gpu")["rows"] != search("fusion", "cpu")["rows"]
    ordered = [row["name"] for row in search("gemm", "gpu")["rows"] if row["is_taken"]]
    best = [option.name for option in catalog.find_options("gemm") if "gpu" in option.targets]
    assert ordered == best[: len(ordered)]


def test_missing_flags_are_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = f"libtpu is not installed. Install it with: {install_command('jax-inspector[tpu]')}"
    monkeypatch.setattr(controls, "libtpu_options", lambda: Unavailable(reason))
    for text in ("zzzzqqqq", "fast_math"):
        assert search(text)["note"] == f"Flags of libtpu are not searched: {reason}"


@needs_tpu
def test_with_libtpu_all_flags_are_searched() -> None:
    assert search("zzzzqqqq")["note"] == ""


@needs_tpu
def test_values_of_libtpus_flags_are_offered() -> None:
    assert row("s8_coalescing_ignore_distance_for_pairing")["values"] == ["auto", "true", "false"]
    assert row("xla_memory_scheduler")["values"][:2] == ["default", "list"]
    dumped = row("xla_mosaic_dump_to")
    assert (dumped["type"], dumped["targets"], dumped["channel"]) == ("string", ["tpu"], "LIBTPU_INIT_ARGS")


@needs_tpu
def test_typing_stays_fluid_among_all_flags() -> None:
    assert search("")["total"] > 1500
    started = time.process_time()
    for text in ("xla", "xla_tpu", "xla_tpu_e", "all gather", "vmem", "remat"):
        search(text)
    assert (time.process_time() - started) / 6 < 0.1  # 0.01; a key is pressed each 0.1 s


@pytest.mark.parametrize(
    ("target", "taken"), [("", "cpu"), ("gpu:h100:8", "gpu"), ("tpu:v5e:2x4", "tpu"), ("gpu:h1", "cpu"), ("mo", "cpu")]
)
def test_a_search_is_for_the_target_that_is_typed(asked: Asked, target: str, taken: str) -> None:
    asked.controls.receive({"type": "flags", "id": 1, "search": "xla_", "target": target})
    first = asked.found(1)[0]["rows"][0]
    assert first["is_taken"]
    assert taken in first["targets"]


def test_only_the_latest_search_is_answered(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    go, find = threading.Event(), catalog.find_options

    def slow(text: str) -> Any:
        assert go.wait(60)
        return find(text)

    monkeypatch.setattr(catalog, "find_options", slow)
    for number, text in enumerate(("f", "fu", "fus")):
        asked.controls.receive({"type": "flags", "id": number, "search": text, "target": ""})
    go.set()
    asked.controls._searches.shutdown()
    assert asked.found(1)[-1]["id"] == 2
    assert len(asked.found(1)) < 3  # the second was never looked for


def test_choices_are_published(asked: Asked) -> None:
    offer = {"type": "controls", "targets": ["attached", "cpu"], "target": "cpu", "axes": "i=4", "can_lower": True}
    offer |= {"no_compile": "", "has_previous": False}
    assert asked.published == [offer]
    assert asked.lower("i=8, j=2") == ""
    assert asked.published[-1] == offer | {"target": "cpu:16", "axes": "i=8, j=2"}


def test_axes_are_read_and_handed_on(asked: Asked) -> None:
    assert asked.lower(" i = 8,j=2 ") == ""
    assert asked.axes == [[("i", 8), ("j", 2)]]
    assert "ParameterError: Cannot read 'i:8' as an axis: expected name=size" in asked.lower("i:8")
    assert len(asked.axes) == 1


@pytest.mark.parametrize("text", ["i", "i=", "=4", "i=-4", "i=4.0", "i=²", "i=4 j=2"])
def test_invalid_axes_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="expected name=size, such as i=4"):
        parse_axes(text)


def test_no_axes() -> None:
    assert parse_axes("") == parse_axes(" , ") == []


def test_axes_of_a_lowered_stage_are_refused() -> None:
    asked = Asked(can_lower=False)
    assert not asked.published[0]["can_lower"]
    assert asked.lower("i=4") == ""
    assert asked.axes == []


def test_a_search_after_the_end_is_not_answered(asked: Asked) -> None:
    asked.controls.close()
    asked.controls.receive({"type": "flags", "id": 1, "search": "fus", "target": ""})
    assert [m["type"] for m in asked.published] == ["controls"]


@pytest.mark.parametrize(
    "pasted",
    [
        "--xla_cpu_enable_fast_math=true --xla_cpu_ftz",
        "--xla_cpu_enable_fast_math=true\n--xla_cpu_ftz\n",
        "--xla_cpu_enable_fast_math=true \\\n  --xla_cpu_ftz",
        "--xla_cpu_enable_fast_math=true\r\n--xla_cpu_ftz",
        "XLA_FLAGS='--xla_cpu_enable_fast_math=true --xla_cpu_ftz' python train.py",
        'export XLA_FLAGS="--xla_cpu_enable_fast_math=true --xla_cpu_ftz"',
        "%env XLA_FLAGS=--xla_cpu_enable_fast_math=true --xla_cpu_ftz",
        'os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true --xla_cpu_ftz"',
    ],
)
def test_pasted_flags_are_one_variant(pasted: str) -> None:
    assert dict(read_options(pasted, "").flags) == {"xla_cpu_enable_fast_math": True, "xla_cpu_ftz": True}


def test_quotes_within_flags_stay() -> None:
    assert unwrapped("--xla_dump_to='a b' --xla_cpu_ftz") == "--xla_dump_to='a b' --xla_cpu_ftz"
    assert read_fields({"num_replicas": "2"}, "") == Options(num_replicas=2)


def test_a_module_that_cannot_be_compiled_states_the_reason() -> None:
    program = OpenedProgram.of("HloModule m\nENTRY e {\n ROOT p = f32[3] parameter(0)\n}\n", platform="cpu")
    explorer = program.explorer()
    offered = Mailbox(explorer).last("controls")
    assert offered["no_compile"] == "It was opened without compiling it. Pass the file to inspector.lower."
    explorer.close()
