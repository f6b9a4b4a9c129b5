"""`Options` as `xla.CompileOptionsProto`, against the bytes that JAX itself makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax._src import compiler
from jaxlib import xla_client

from inspector.compilation.options import options_proto
from inspector.compilation.options.options import Options
from inspector.errors import FlagTypeError, OptionError
from inspector.toolchain import flags
from inspector.toolchain.flags import types as flag_types
from inspector.toolchain.xla import options_message

FLAGS: dict[str, flags.FlagValue] = {
    "xla_cpu_enable_fast_math": True,
    "xla_backend_optimization_level": 1,
    "xla_dump_to": "/tmp/a b",
    "xla_gpu_auto_spmd_partitioning_memory_budget_ratio": 1.5,
    "xla_disable_hlo_passes": "dce,cse",
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_DEFAULT",
}
CASES: list[tuple[dict[str, Any], Options]] = [
    ({}, Options()),
    ({"num_replicas": 2, "num_partitions": 4}, Options(num_replicas=2, num_partitions=4)),
    (
        {"num_replicas": 2, "num_partitions": 2, "device_assignment": np.array([[3, 1], [0, 2]])},
        Options(num_replicas=2, num_partitions=2, device_assignment=((3, 1), (0, 2))),
    ),
    ({"env_options_overrides": FLAGS}, Options(flags=FLAGS)),
    ({"detailed_logging": False}, Options(flags={"xla_detailed_logging": False})),
]
MESSAGE = "xla_gpu_experimental_thunk_buffer_debug_filter"


def jax_bytes(**parameters: Any) -> bytes:
    said = {"num_replicas": 1, "num_partitions": 1, **parameters}
    return bytes(compiler.get_compile_options(**said).SerializeAsString())


@pytest.mark.parametrize(("parameters", "options"), CASES)
def test_to_proto_equals_jax(parameters: dict[str, Any], options: Options) -> None:
    assert options.to_proto() == jax_bytes(**parameters)


@pytest.mark.parametrize("parameters", [*(p for p, _ in CASES), {"fdo_profile": b"\x00\xff"}])
def test_from_proto_reads_options_of_jax_without_loss(parameters: dict[str, Any]) -> None:
    data = jax_bytes(**parameters)
    assert Options.from_proto(data).to_proto() == data


def test_from_proto_reads_set_fields() -> None:
    options = Options.from_proto(jax_bytes(num_replicas=2, env_options_overrides=FLAGS))
    assert options == Options(flags=FLAGS, num_replicas=2, num_partitions=1)


def test_from_proto_names_flags_that_a_process_set() -> None:
    options = xla_client.CompileOptions.ParseFromString(jax_bytes())
    options.executable_build_options.debug_options.xla_cpu_enable_fast_math = True
    options.executable_build_options.use_spmd_partitioning = False
    found = Options.from_proto(options.SerializeAsString())
    assert found.flags == {"xla_cpu_enable_fast_math": True}
    assert found.use_spmd_partitioning is False


def test_layouts_and_similar_fields_are_preserved() -> None:
    message = type(options_message()).FromString(jax_bytes())
    message.executable_build_options.fdo_profile = b"profile"
    message.argument_layouts.add(element_type=11, dimensions=[2])
    data = message.SerializeToString(deterministic=True)
    options = Options.from_proto(data)
    assert options.extra_proto
    assert options.to_proto() == data
    for copy in (Options.from_json(options.to_json()), Options.parse(str(options)), Options().merge(options)):
        assert copy == options


def test_every_scalar_field_reaches_jaxlib() -> None:
    """The result of `additions`, appended to JAX's proto, equals `to_proto`; jaxlib accepts it."""
    said = {
        "alias_passthrough_params": True,
        "deduplicate_hlo": True,
        "device_memory_size": 1 << 40,
        "device_ordinal": 0,  # a zero over another default
        "memory_fitting_level": "EFFORT_UNKNOWN",  # likewise
        "optimization_level": "EFFORT_O1",
        "profile_version": 0,  # likewise, in the outer message
        "process_index": 3,
        "auto_spmd_partitioning_mesh_shape": "2,2",
        "xla_backend_extra_options": "a=1,b",
        MESSAGE: "thunk_id_ranges { first: 1 last: 2 }" if "thunk_id_ranges" in filter_fields() else "",
    }
    options = Options(flags=said)
    merged = xla_client.CompileOptions.ParseFromString(
        jax_bytes() + options_proto.additions(options.flags, options.extra_proto)
    )
    assert merged.SerializeAsString() == options.to_proto()
    build = type(options_message()).FromString(options.to_proto()).executable_build_options
    assert (build.device_memory_size, build.device_ordinal, build.memory_fitting_level) == (1 << 40, 0, 0)
    assert dict(build.debug_options.xla_backend_extra_options) == {"a": "1", "b": ""}
    assert Options.from_proto(options.to_proto()).flags["optimization_level"] == "EFFORT_O1"


def test_without_flags_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_types, "_fields", lambda: pytest.fail("read the schema"))
    options = Options(num_replicas=2, extra_proto=b"abc")
    assert (options_proto.overrides(options.flags), options_proto.additions(options.flags, options.extra_proto)) == (
        {},
        b"abc",
    )


def filter_fields() -> list[str]:
    return [field.name for field in flags.flag_field(MESSAGE).message_type.fields]


def test_a_message_that_cannot_be_read() -> None:
    with pytest.raises(FlagTypeError, match=rf"Flag {MESSAGE}: cannot read 'junk = ' .* Its fields: "):
        Options(flags={MESSAGE: "junk = "}).check()


def test_bytes_cannot_be_a_flag() -> None:
    with pytest.raises(FlagTypeError, match=r"bytes, which cannot be set as a flag: use Options\.from_proto"):
        Options(flags={"fdo_profile": "x"}).to_proto()


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"not a proto"])
def test_from_proto_of_something_else(data: bytes) -> None:
    with pytest.raises(OptionError, match=r"Not a serialized xla\.CompileOptionsProto"):
        Options.from_proto(data)


settable = [
    name
    for name in flags.flag_names()
    if name not in flags.OPTION_FIELDS
    and not flags.flag_type(name).is_opaque
    and flags.flag_type(name).kind != "message"
]


def values(name: str) -> st.SearchStrategy[Any]:
    type_ = flags.flag_type(name)
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
    if type_.kind == "map":
        return st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2).map(
            lambda d: ",".join(f"{k}={v}" for k, v in sorted(d.items()))
        )
    if type_.kind == "enum" and type_.repeated:
        return st.lists(st.sampled_from([n for n, _ in type_.choices]), max_size=2).map(",".join)
    if type_.kind == "enum":
        return st.sampled_from([n for n, _ in type_.choices])
    if type_.repeated:
        return st.sampled_from({"string": ["", "a,b"], "bool": ["true,false"]}.get(type_.kind, ["1,2"]))
    return {
        "bool": st.booleans(), "string": text, "float": st.floats(-10, 10, width=32), "double": st.floats(-10, 10),
    }.get(type_.kind, st.integers(0, 2**31 - 1))  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_value_survives_text_json_and_proto(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(settable), max_size=4, unique=True))
    options = Options(flags={name: data.draw(values(name)) for name in names}, num_replicas=1, num_partitions=1)
    options.check()
    assert Options.parse(str(options)) == options
    assert Options.from_json(options.to_json()) == options
    back = Options.from_proto(options.to_proto())
    assert back.to_proto() == options.to_proto()
    # What was said and is JAX's default anyhow cannot be read back where no override carries it.
    carried = options_proto.overrides(options.flags)
    assert {name: back.flags[name] for name in carried} == carried


def test_a_negative_zero_survives() -> None:
    options = Options(flags={"xla_gpu_autotune_gemm_rtol": -0.0})  # JAX 0.10 to 0.12 have it
    assert Options.from_proto(options.to_proto()).to_proto() == options.to_proto()


def test_every_other_field_is_preserved() -> None:
    """Bytes, messages and lists of messages, each with something in it."""
    for name in flags.xla_flag_names():
        type_ = flags.flag_type(name)
        if name in flags.OPTION_FIELDS or not (type_.is_opaque or type_.kind == "message"):
            continue
        message = type(options_message()).FromString(jax_bytes())
        holder = flags.holder(message, type_.home)
        if type_.kind == "bytes":
            setattr(holder, name, b"\x00\xff")
        elif type_.repeated:
            getattr(holder, name).add()
        else:
            getattr(holder, name).SetInParent()
            _say_something(getattr(holder, name))
        data = message.SerializeToString(deterministic=True)
        assert data != jax_bytes()
        options = Options.from_proto(data)
        assert not options.flags
        assert options.extra_proto, name
        assert options.to_proto() == data, name


def _say_something(message: Any) -> None:
    """Sets the first field that is a number, a text or a list of messages."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.is_repeated:
            getattr(message, field.name).add()
            return
        if field.message_type is None and not field.is_repeated:
            setattr(message, field.name, "x" if field.cpp_type == field.CPPTYPE_STRING else 1)
            return
