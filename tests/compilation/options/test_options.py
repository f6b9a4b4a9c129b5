"""`Options`: the compiler settings as a value, and its forms."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.compilation.options.options import Options
from inspector.errors import FlagTypeError, OptionError, UnknownFlagError
from inspector.toolchain.flags import get_field, set_field
from inspector.toolchain.xla import options_message

FAST_MATH = "xla_cpu_enable_fast_math"
SPLIT = "xla_cpu_parallel_codegen_split_count"

values = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text())
all_options = st.builds(
    Options,
    flags=st.dictionaries(st.from_regex(r"xla_[a-z_]{1,12}", fullmatch=True), values, max_size=4),
    num_replicas=st.none() | st.integers(1, 64),
    num_partitions=st.none() | st.integers(1, 64),
    device_assignment=st.none() | st.permutations(range(6)).map(lambda ids: [ids[:3], ids[3:]]),
    use_spmd_partitioning=st.none() | st.booleans(),
    allow_spmd_sharding_propagation_to_output=st.none() | st.lists(st.booleans(), max_size=4),
)


@given(all_options)
def test_json_and_pickle_give_the_same_options_back(options: Options) -> None:
    for copy in (Options.from_json(options.to_json()), pickle.loads(pickle.dumps(options))):
        assert copy == options
        assert hash(copy) == hash(options)
        assert copy.to_json() == options.to_json()
    json.loads(options.to_json())


@given(all_options, all_options)
def test_merge_overrides_with_the_other_options(low: Options, high: Options) -> None:
    merged = low.merge(high).as_dict()
    assert merged == {**low.as_dict(), **high.as_dict()}


@given(all_options, all_options)
def test_diff_is_empty_only_for_equal_options(ours: Options, theirs: Options) -> None:
    changed = ours.diff(theirs)
    assert (not changed) == (ours == theirs)
    assert theirs.diff(ours) == {name: (b, a) for name, (a, b) in changed.items()}


def test_a_bool_and_the_number_one_are_different_values() -> None:
    # In Python True == 1; to XLA they are values of different types.
    assert Options(flags={"f": True}) != Options(flags={"f": 1})
    assert Options(flags={"f": True}).diff(Options(flags={"f": 1})) == {"f": (True, 1)}


def test_flags_are_the_same_with_and_without_dashes_in_any_order() -> None:
    a = Options(flags={"--xla_b": 1, "xla_a": True})
    assert a == Options(flags={"xla_a": True, "--xla_b": 1})
    assert list(a.flags) == ["xla_a", "xla_b"]
    assert str(a) == "--xla_a=true --xla_b=1"
    assert str(Options()) == "defaults"


@pytest.mark.parametrize(
    "text",
    [
        f"--{FAST_MATH}=true --{SPLIT}=4",
        f"  --{FAST_MATH}\n --{SPLIT}=0x4 ",
        f"{FAST_MATH}=1 '{SPLIT}=4'",
        f'--{FAST_MATH}=True --{SPLIT}="4"',
        f"--{FAST_MATH} --{SPLIT}='4'",
        f"--{FAST_MATH}=false --{FAST_MATH}=true --{SPLIT}=4",  # the last one counts
    ],
)
def test_parse_reads_the_xla_flags_variable(text: str) -> None:
    assert Options.parse(text) == Options(flags={FAST_MATH: True, SPLIT: 4})
    assert Options.of(text) == Options.parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"--xla_dump_to=C:\tmp", r"C:\tmp"),  # no escapes without double quotes
        (r"--xla_dump_to='a \b'", r"a \b"),
        (r'--xla_dump_to="a \"b\" \\"', 'a "b" \\'),
        ("--xla_dump_to=a'b", "a'b"),  # a quote within a value is a letter
        ("--xla_dump_to=", ""),
        ("--xla_dump_to=a=b", "a=b"),
    ],
)
def test_quotes_are_those_of_xla(text: str, value: str) -> None:
    assert Options.parse(text).flags == {"xla_dump_to": value}
    assert Options.parse(str(Options.parse(text))).flags == {"xla_dump_to": value}


def test_a_text_may_name_a_file_of_flags_as_in_xla(tmp_path: Path) -> None:
    file = tmp_path / "flags"
    file.write_text(f"--{FAST_MATH}\n  --{SPLIT}=4\n")
    assert Options.parse(str(file)) == Options(flags={FAST_MATH: True, SPLIT: 4})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match=r"Cannot read the file of flags .*Pass the flags themselves"):
        Options.parse(str(file))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.timeout(20)
def test_a_file_of_flags_is_regular_and_bounded(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    for path, why in ((tmp_path / "pipe", "a pipe"), (tmp_path / "long", "has more than"), ("/dev/zero", "a device")):
        with pytest.raises(OptionError, match=f"Cannot read the file of flags .*{why}.*Pass the flags themselves"):
            Options.parse(str(path))


@pytest.mark.parametrize("given", [None, b"--xla_dump_to=a", 5])
def test_parse_takes_text_alone(given: Any) -> None:
    with pytest.raises(OptionError, match="Flags must be the text of an XLA_FLAGS variable, got "):
        Options.parse(given)


def test_numbers_of_numpy_are_those_of_python() -> None:
    options = Options(flags={FAST_MATH: np.True_, SPLIT: np.int32(3)}, num_replicas=np.int64(2))  # type: ignore[dict-item]
    assert options == Options(flags={FAST_MATH: True, SPLIT: 3}, num_replicas=2)
    options.check()


@pytest.mark.slow  # each asks an XLA of its own
@pytest.mark.parametrize(
    "text",
    [
        "--xla_disable_hlo_passes=a --xla_disable_hlo_passes=",
        "--xla_backend_optimization_level=010",
        "--xla_backend_optimization_level=' +3'",
        "--xla_gpu_enable_command_buffer=+CUDNN,-FUSION --xla_gpu_enable_command_buffer=+COLLECTIVES",
        "--xla_gpu_enable_command_buffer=FUSION --xla_gpu_enable_command_buffer=+CUBLAS",
        "--xla_gpu_enable_command_buffer= --xla_gpu_enable_command_buffer=-CUBLAS",
        "--xla_backend_extra_options=a=b,c --xla_backend_extra_options=c=d=e",
    ],
)
def test_texts_have_the_meaning_of_xla(text: str) -> None:
    script = "import sys; from jaxlib import xla_client; sys.stdout.buffer.write(xla_client.CompileOptions().SerializeAsString())"
    xla = subprocess.run([sys.executable, "-c", script], env={**os.environ, "XLA_FLAGS": text}, capture_output=True)
    assert xla.returncode == 0, xla.stderr
    debug = type(options_message()).FromString(xla.stdout).executable_build_options.debug_options
    ours = type(debug)()
    for name, value in Options.parse(text).flags.items():
        set_field(ours, name, value)
        assert get_field(ours, name) == get_field(debug, name)


def test_lists_grow_and_enums_are_read_as_xla_does() -> None:
    assert Options.parse("--xla_disable_hlo_passes=a,b --xla_disable_hlo_passes=c").flags == {
        "xla_disable_hlo_passes": "a,b,c"
    }
    assert Options.parse("--xla_cpu_scheduler_type=default").flags == {
        "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_DEFAULT"
    }
    (names,) = Options.parse("--xla_gpu_enable_command_buffer=+conditional,-fusion").flags.values()
    assert {"CONDITIONAL", "CUBLAS"} < set(str(names).split(","))  # CUBLAS is of the default
    assert "FUSION" not in str(names).split(",")


def test_parse_takes_the_other_options_too() -> None:
    options = Options(
        flags={FAST_MATH: True, "optimization_level": "EFFORT_O1"}, num_replicas=2, num_partitions=2,
        device_assignment=[[0, 1], [2, 3]], use_shardy_partitioner=False,
        allow_spmd_sharding_propagation_to_output=[True, False],
    )  # fmt: skip
    assert Options.parse(str(options)) == options
    assert eval(repr(options), {"Options": Options}) == options


def test_parse_of_the_text_of_options_gives_the_same_flags() -> None:
    options = Options(flags={FAST_MATH: False, SPLIT: 7, "xla_dump_to": "/tmp/a"})
    assert Options.parse(str(options)) == options


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("cpu:8", OptionError, "Cannot read 'cpu:8' as a flag. Expected --name=value"),
        ("--", OptionError, "Cannot read '--' as a flag"),
        ("--xla_dump_to='/tmp", OptionError, "a quotation mark is not closed"),
        ("-xla_dump_to=a", OptionError, "Cannot read '-xla_dump_to=a' as a flag"),
        (
            f"--no{FAST_MATH}",
            UnknownFlagError,
            f"XLA does not support the --no form of flags, got 'no{FAST_MATH}'. Write --{FAST_MATH}=false",
        ),
        ("--num_replicas=two", FlagTypeError, "num_replicas: cannot read 'two' as an int"),
        ("--device_assignment=0,1;2", OptionError, "one id for each partition"),
        ("--device_assignment=0,x", FlagTypeError, "device_assignment: cannot read '0,x'"),
        ("--xla_cpu_enable_fast_mth", UnknownFlagError, f"Did you mean {FAST_MATH}"),
        (f"--{SPLIT}", FlagTypeError, "cannot read 'true' as an int from -2147483648 to 2147483647"),
        (f"--{FAST_MATH}=maybe", FlagTypeError, "cannot read 'maybe' as true or false"),
        (f"--{FAST_MATH}= true", FlagTypeError, "no value after '='. Expected true or false, without spaces"),
        (f"--{SPLIT}=1_0", FlagTypeError, "cannot read '1_0' as an int"),
        (f"--no-{FAST_MATH}", UnknownFlagError, f"Write --{FAST_MATH}=false"),
        (f"--{FAST_MATH.upper().replace('_', '-')}", UnknownFlagError, f"Did you mean {FAST_MATH}"),
        ("--xla_gpu_enable_command_buffer=+FUSOIN", FlagTypeError, "cannot read '+FUSOIN', expected '+' or '-' and"),
        ("--xla_gpu_enable_command_buffer=+FUSION,CUBLAS", FlagTypeError, "Use either names or changes"),
    ],
)
def test_parse_names_invalid_texts(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Options.parse(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_replicas": 0}, "num_replicas must be a positive integer, got 0"),
        ({"num_partitions": True}, "num_partitions must be a positive integer, got True"),
        ({"num_replicas": 2.0}, "got 2.0"),
        ({"num_replicas": 2**31}, "got 2147483648"),
        ({"allow_spmd_sharding_propagation_to_output": ["false"]}, "got ['false']"),
        ({"device_assignment": [[0, 1], [2]]}, "got [[0, 1], [2]]"),
        ({"device_assignment": [[]]}, "got [[]]"),
        ({"device_assignment": [[-1]]}, "got [[-1]]"),
        ({"device_assignment": [[0, 1], [1, 2]]}, "names a device twice: [[0, 1], [1, 2]]"),
        ({"flags": {"--xla_a": 1, "xla_a": 2}}, "Flag xla_a is given twice, with and without dashes: 1 and 2"),
        (
            {"flags": {"xla_dump_to": Path("/tmp")}},
            "Flag xla_dump_to: got PosixPath('/tmp') (PosixPath), expected a str",
        ),
        ({"flags": {FAST_MATH: None}}, f"Flag {FAST_MATH}: got None (NoneType), expected True or False"),
        (
            {"allow_spmd_sharding_propagation_to_output": True},
            "must be a sequence of booleans, such as [True], got True",
        ),
        ({"allow_spmd_sharding_propagation_to_output": "no"}, "got 'no'"),
        ({"device_assignment": [0, 1]}, "one row of device ids for each replica"),
        ({"device_assignment": [[0.5]]}, "got [[0.5]]"),
        ({"flags": ["xla_a"]}, "flags must be a dict with names of flags as keys, got ['xla_a']"),
        ({"flags": {3: True}}, "got {3: True}"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**fields)
    assert words in str(caught.value)


def test_of_accepts_all_forms_that_users_write() -> None:
    options = Options(flags={FAST_MATH: True})
    assert Options.of(None) == Options()
    assert Options.of(options) is options
    assert Options.of({FAST_MATH: True}) == options
    with pytest.raises(OptionError, match=r"an inspector\.Options, a dict of flags or the text .* got list"):
        Options.of([FAST_MATH])  # type: ignore[arg-type]


def test_check_names_the_flag_and_its_type() -> None:
    Options(flags={FAST_MATH: True}).check()
    with pytest.raises(FlagTypeError, match=rf"Flag {FAST_MATH}: got 'true' \(str\), expected True or False"):
        Options(flags={FAST_MATH: "true"}).check()
    with pytest.raises(UnknownFlagError, match="no flag named 'xla_nonsense'"):
        Options(flags={"xla_nonsense": 1}).check()
