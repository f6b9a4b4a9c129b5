"""`Program` and `CompileRequest`: values that cross processes, told apart by digest."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from typing import Any

import jax
import pytest

from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.compilation.records.registry import RECORDS
from inspector.compilation.request import PRODUCTS, CompileRequest
from inspector.compilation.target import Target
from inspector.errors import OptionError, ParameterError, TargetError
from inspector.hlo.devices.mesh import Mesh
from inspector.lowering.bindings import StageBinding

PROGRAM = Program(
    name="jit_f",
    module=b"ML\xefR-module",
    arguments=(Argument("x", (2, 3), "float32", 0, donated=True), Argument("key", (), "key<fry>", None)),
    results=(Result("[0]", (), "int4"),),
    options=Options(num_replicas=4, num_partitions=2),
    mesh=Mesh(("i", "j"), (2, 2), "replica"),
    platform="cpu",
)
REQUEST = CompileRequest(PROGRAM, Options(flags={"xla_a": True}), Target("cpu:8"))


def test_a_program_pickles_without_process_local_state() -> None:
    live = dataclasses.replace(
        PROGRAM, callbacks=lambda: None, binding=StageBinding("f", jax.tree.structure(((1,), {})), 1)
    )
    copy = pickle.loads(pickle.dumps(live))
    assert copy == live == PROGRAM
    assert hash(copy) == hash(PROGRAM)
    assert (copy.callbacks, copy.binding) == (None, None)
    assert live.binding is not None


def test_a_request_pickles_to_an_equal_one() -> None:
    copy = pickle.loads(pickle.dumps(REQUEST))
    assert copy == REQUEST
    assert copy.digest == REQUEST.digest


def test_a_programs_digest_is_its_modules() -> None:
    assert PROGRAM.digest == hashlib.sha256(PROGRAM.module).hexdigest()
    assert PROGRAM.device_count == 8
    assert dataclasses.replace(PROGRAM, options=Options()).device_count == 1


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(REQUEST, target=Target("cpu:4")),
        dataclasses.replace(REQUEST, target=Target("attached")),
        dataclasses.replace(REQUEST, options=Options(flags={"xla_a": False})),
        dataclasses.replace(REQUEST, options=Options(flags={"xla_a": 1})),
        dataclasses.replace(REQUEST, program=dataclasses.replace(PROGRAM, module=b"another")),
        dataclasses.replace(REQUEST, program=dataclasses.replace(PROGRAM, options=Options(num_replicas=4))),
    ],
)
def test_a_request_for_something_else_has_another_digest(other: CompileRequest) -> None:
    assert other.digest != REQUEST.digest
    assert other != REQUEST


def test_user_options_lie_over_those_of_the_lowering() -> None:
    request = dataclasses.replace(REQUEST, options=Options(num_partitions=1, flags={"xla_b": 2}))
    assert request.build_options == Options(num_replicas=4, num_partitions=1, flags={"xla_b": 2})
    # Where the layers give the same sum, the compiler is asked for the same.
    said_below = dataclasses.replace(PROGRAM, options=Options(num_replicas=4, num_partitions=1))
    assert CompileRequest(said_below, Options(flags={"xla_b": 2}), REQUEST.target).digest == request.digest


def with_devices(count: object, target: str) -> CompileRequest:
    flags: dict[str, Any] = {"xla_force_host_platform_device_count": count}
    return CompileRequest(PROGRAM, Options(flags=flags), Target.parse(target))


@pytest.mark.parametrize("target", ["attached", "cpu", "cpu:4"])
def test_a_device_count_among_the_options_chooses_the_target(target: str) -> None:
    made = with_devices(4, target)
    assert str(made.target) == "cpu:4"
    assert pickle.loads(pickle.dumps(made)) == made
    assert CompileRequest(made.program, made.options, made.target) == made


@pytest.mark.parametrize(
    ("count", "target", "words"),
    [
        (4, "cpu:8", "conflicts with the number of devices of the target cpu:8. Remove one of them"),
        (0, "cpu", "must be an int from 1 to 1024, got 0"),
        (True, "cpu", "got True"),
    ],
)
def test_a_device_count_that_cannot_be_had(count: object, target: str, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        with_devices(count, target)
    assert words in str(caught.value)


def test_a_device_count_for_a_program_of_another_platform() -> None:
    program = dataclasses.replace(PROGRAM, platform="cuda")
    with pytest.raises(OptionError, match="lowered for gpu"):
        CompileRequest(program, with_devices(4, "cpu").options, Target("attached"))


def test_a_request_accepts_all_forms_of_options() -> None:
    written = CompileRequest(PROGRAM, {"xla_a": True}, "cpu:8", "passes")  # type: ignore[arg-type]
    assert written == CompileRequest(PROGRAM, Options(flags={"xla_a": True}), Target("cpu:8"), frozenset({"passes"}))
    assert (
        written.digest
        == CompileRequest(**{f.name: getattr(written, f.name) for f in dataclasses.fields(written)}).digest
    )


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"program": "HloModule m"}, ParameterError, "Expected a Program, got 'HloModule m'"),
        ({"options": 3}, OptionError, "options must be an inspector.Options"),
        ({"target": None}, TargetError, "A target must be a string"),
        ({"products": ("pass",)}, OptionError, "Unknown product 'pass'. Expected names among assembly, buffers"),
        ({"products": None}, OptionError, "Unknown product None"),
        ({"products": [[1]]}, OptionError, r"Unknown product \[1\]"),
    ],
)
def test_invalid_requests_are_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        dataclasses.replace(REQUEST, **change)


def test_every_product_is_a_field_of_a_compiled_program() -> None:
    fields = {field.name for field in dataclasses.fields(CompiledProgram)}
    assert fields >= PRODUCTS == set(RECORDS)
    for name, kind in RECORDS.items():
        assert callable(kind.from_bytes), name
        assert callable(kind.to_bytes), name
