"""Message classes, and the promise that the fields we read are still there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from inspector._jax.libraries.descriptors import installed_descriptors
from inspector.errors import ModuleError
from inspector.toolchain.schema import READ_FIELDS, Schema, fallback_schema, installed_schema, set_fields

DATA = Path(__file__).parent.parent / "hlo" / "data"


@pytest.mark.parametrize("message", READ_FIELDS)
@pytest.mark.parametrize("schema", [installed_schema(), fallback_schema()], ids=["installed", "fallback"])
def test_every_field_that_we_read_is_there_under_its_number(schema: Schema, message: str) -> None:
    fields = schema.message(message).DESCRIPTOR.fields_by_name
    for name, number in READ_FIELDS[message].items():
        found = fields[name].number if name in fields else None
        assert found == number, (
            f"\n\n*** {message}.{name} is field {found} in {schema.source}, but inspector/hlo reads it as {number}."
            "\n*** HLO's protobuf schema has changed: adapt inspector/hlo and READ_FIELDS before anything else.\n"
        )


def test_unknown_names() -> None:
    with pytest.raises(
        ModuleError, match=r"The protobuf schema of the installed jaxlib has no message xla\.Nonsense\."
    ):
        installed_schema().message("xla.Nonsense")
    with pytest.raises(ModuleError, match=r"has no enum xla\.Nonsense\."):
        installed_schema().enum("xla.Nonsense")


def test_enum() -> None:
    assert installed_schema().enum("xla.PrimitiveType").values_by_name["F32"].number == 11


def test_broken_descriptors() -> None:
    with pytest.raises(ModuleError, match="The protobuf descriptors from a test cannot be used"):
        Schema(b"\xff\xff\xff", "a test")


def test_descriptors_that_lack_an_import() -> None:
    files = descriptor_pb2.FileDescriptorSet()
    files.file.add(name="a.proto", package="a", syntax="proto3").message_type.add(name="Whole")
    files.file.add(name="b.proto", package="a", dependency=["c.proto"]).message_type.add(name="Lacking")
    schema = Schema(files.SerializeToString(), "a test")
    assert schema.message("a.Whole").DESCRIPTOR.full_name == "a.Whole"
    with pytest.raises(ModuleError, match=r"The protobuf descriptors from a test cannot be used: .*c\.proto"):
        schema.message("a.Lacking")
    with pytest.raises(ModuleError, match=r"has no message a\.Whole\.Inner\."):
        schema.message("a.Whole.Inner")


def test_only_requested_messages_are_defined() -> None:
    """A program seen before is on screen sooner where XLA's hundred other files are left out."""
    schema = Schema(installed_descriptors(), "a test")
    schema.message("xla.CompileOptionsProto")
    assert "xla/xla.proto" in schema._pooled
    assert len(schema._pooled) < len(schema._files) / 2


def test_modules_load_without_jax() -> None:
    """A saved result opens where jaxlib is not installed."""
    script = f"""
import sys, importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "jaxlib" else real(name, *a)
for name in ("jax", "jaxlib"):
    sys.modules[name] = None
from inspector.hlo.module import Module
from pathlib import Path
for file in sorted(Path({str(DATA)!r}).glob("*.pb")):
    module = Module.from_proto(file.read_bytes())
    print(file.name, sum(1 for _ in module.instructions()))
"""
    root = str(Path(__file__).parents[2])
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=False)
    assert process.returncode == 0, process.stderr
    assert "shard_map.0.12.pb" in process.stdout


def test_messages_are_decoded_together() -> None:
    schema, wanted = installed_schema(), ["a", "", "of several words" * 20]
    kind = schema.message("xla.OpMetadata")
    written = [kind(op_name=name, stack_frame_id=number).SerializeToString() for number, name in enumerate(wanted)]
    found = schema.messages("xla.OpMetadata", written)
    assert [(each.op_name, each.stack_frame_id) for each in found] == [(name, n) for n, name in enumerate(wanted)]
    assert not len(schema.messages("xla.OpMetadata", []))
    with pytest.raises(DecodeError):
        schema.messages("xla.OpMetadata", [written[0], b"\xff"])


def test_only_set_fields_are_listed() -> None:
    shape = installed_schema().message("xla.ShapeProto")(element_type=11, dimensions=[2, 3])
    assert set_fields(shape) == {"element_type": 11, "dimensions": [2, 3]}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="protobuf gives memory back with glibc alone")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for what counts calls of malloc_trim")
def test_a_module_is_read_without_separate_memory_for_each_part(tmp_path: Path) -> None:
    """Protobuf gives all free memory of the process back once ten thousand messages have been let go."""
    source = '#include <unistd.h>\nint malloc_trim(unsigned long n) { return write(2, "TRIM\\n", 5) > 0; }'
    (tmp_path / "count.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "count.so", "count.c"], cwd=tmp_path, check=True)
    script = f"""
from inspector.hlo.module import Module
from inspector.toolchain.schema import installed_schema
from pathlib import Path
import sys
data = Path({str(DATA / "shard_map.0.12.pb")!r}).read_bytes()
for _ in range(int(sys.argv[1])):
    module = Module.from_proto(data)
    module.columns.operands, module.known_shapes, module.known_origins
for _ in range(int(sys.argv[2])):
    installed_schema().message("xla.ShapeProto").FromString(b"")
"""
    root = str(Path(__file__).parents[2])

    def trims(*times: str) -> int:
        command = [sys.executable, "-c", script, *times]
        environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "count.so"), "PYTHONPATH": root}
        process = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=True)
        return process.stderr.count("TRIM")

    if not trims("1", "20000"):
        pytest.skip("this protobuf never gives memory back")
    # 161 instructions in 33 computations, of 16 shapes and 36 origins: some 20 messages in all, not one of each.
    assert trims("2000", "1") <= 6
