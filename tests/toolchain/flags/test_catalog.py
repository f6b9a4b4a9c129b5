"""The catalog against the installed jaxlib's own objects."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from jaxlib import xla_client

import inspector
from inspector.errors import OptionError, Unavailable
from inspector.toolchain import flags
from inspector.toolchain.flags import catalog
from inspector.toolchain.flags.types import libtpu_flags
from inspector.toolchain.xla import debug_options_type
from tests.absent import needs_tpu

COLUMNS = ["name", "group", "type", "default", "choices", "description", "channel", "deprecated", "targets", "unknown"]


def option(name: str) -> catalog.Option:
    return next(each for each in catalog.options() if each.name == name)


def test_a_search_is_a_text() -> None:
    with pytest.raises(OptionError, match="Expected a search text, such as 'fast math', got 5"):
        inspector.option_catalog(5)  # type: ignore[arg-type]


def test_every_field_has_a_row() -> None:
    table = inspector.option_catalog()
    assert list(table.columns) == COLUMNS
    assert tuple(table["name"]) == flags.flag_names()
    assert {field.name for field in debug_options_type().fields} < set(table["name"])
    assert {"num_replicas", "optimization_level", "fdo_profile", "profile_version"} < set(table["name"])
    assert not {"debug_options", "executable_build_options", "env_option_overrides"} & set(table["name"])


def test_defaults_are_those_of_jaxlib() -> None:
    build = xla_client.CompileOptions().executable_build_options
    debug = build.debug_options
    # XLA_FLAGS of the test process changes this one, and the catalog must not show it.
    bound = [n for n in dir(debug) if n.startswith("xla_") and n != "xla_force_host_platform_device_count"]
    assert len(bound) > 30
    checked = 0
    for name in bound:
        found = option(name)
        if found.type in ("bool", "int32", "int64", "float", "string"):
            assert found.default == getattr(debug, name), name
            checked += 1
    assert checked > 25
    assert option("xla_force_host_platform_device_count").default == 1


def test_groups_channels_and_deprecation() -> None:
    assert [option(f"xla_{n}").group for n in ("cpu_enable_fast_math", "gpu_autotune_level", "dump_to")] == [
        "cpu", "gpu", "dump",
    ]  # fmt: skip
    assert option("xla_backend_optimization_level").group == "general"
    assert (option("num_replicas").group, option("profile_version").group) == ("build", "compile")
    assert option("xla_force_host_platform_device_count").channel == "process start"
    assert option("xla_cpu_max_isa").channel == "process start"
    assert option("xla_dump_to").channel == "per compile"
    assert isinstance(option("fdo_profile").channel, Unavailable)
    assert option("xla_gpu_enable_nccl_clique_optimization").deprecated
    assert not option("xla_cpu_enable_fast_math").deprecated


def test_descriptions_or_the_reason() -> None:
    table = inspector.option_catalog()
    table = table[~table["name"].isin(libtpu_flags())]
    known = [text for text in table["description"] if isinstance(text, str)]
    assert len(known) > 250
    assert table.loc[table["description"].isna(), "unknown"].str.contains("description: ").all()
    assert "fast-math" in str(option("xla_cpu_enable_fast_math").description)
    assert "no descriptions of build options" in str(option("num_replicas").description)


@pytest.mark.parametrize(
    ("search", "first"),
    [
        ("xla_dump_to", "xla_dump_to"),
        ("--xla_dump_to", "xla_dump_to"),
        ("dump_to", "xla_dump_to"),
        ("fast math", "xla_cpu_fast_math_honor_division"),
        ("xla_cpu_enable_fast_mth", "xla_cpu_enable_fast_math"),  # fuzzy
        ("unsafe fast-math", "xla_cpu_enable_fast_math"),  # its description
        ("split count", "xla_cpu_parallel_codegen_split_count"),
    ],
)
def test_search_finds(search: str, first: str) -> None:
    assert inspector.option_catalog(search)["name"].iloc[0] == first


def test_search_ranks_names_before_descriptions() -> None:
    names = list(inspector.option_catalog("dump")["name"])
    begins = [n.startswith("xla_dump_") for n in names]
    assert begins[:20] == [True] * 20
    assert begins == sorted(begins, reverse=True)
    described = [n for n in names if "dump" not in n]
    assert described
    assert names[-len(described) :] == described


@needs_tpu
def test_options_of_libtpu() -> None:
    table = inspector.option_catalog().set_index("name")
    tpu = table.loc[list(libtpu_flags())]
    assert set(tpu["group"]) == {"tpu"}
    assert set(tpu["targets"]) == {("tpu",)}
    assert dict(tpu["channel"].value_counts()).keys() == {"per compile", "LIBTPU_INIT_ARGS"}
    assert (tpu["channel"] == "per compile").sum() > 1100
    row = table.loc["xla_memory_scheduler"]
    assert (row["type"], row["default"], row["channel"]) == ("enum", "default", "per compile")
    assert row["choices"][:3] == ("default", "list", "dfs")
    row = table.loc["xla_tpu_rematerialization_algo"]
    assert (row["type"], row["default"]) == ("auto or enum", "auto")
    assert row["description"] == "about rematerialization (libtpu is built without descriptions)"
    row = table.loc["xla_jf_dump_llo_text"]
    assert (row["type"], row["default"], row["channel"]) == ("bool", True, "LIBTPU_INIT_ARGS")
    assert "llo_dumper.cc" in row["description"]
    unknown = [default for default in tpu["default"] if isinstance(default, Unavailable)]
    assert len(unknown) < 10
    assert table.loc["xla_tpu_detect_nan", "channel"] == "per compile"  # one of XLA itself


@needs_tpu
def test_the_table_is_made_fast_from_the_cache() -> None:
    catalog.options()
    script = (
        "import time; from inspector.toolchain.flags import catalog; started = time.process_time();"
        " catalog.options(); print(time.process_time() - started)"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(process.stdout) < 1.0  # 0.25 when the machine has nothing else to do


def test_search_of_three_letters_in_the_middle() -> None:
    assert "xla_cpu_max_isa" in set(inspector.option_catalog("isa")["name"])


def test_search_of_nothing() -> None:
    assert len(inspector.option_catalog("")) == len(inspector.option_catalog())
    empty = inspector.option_catalog("qqqqzzzz")
    assert len(empty) == 0
    assert list(empty.columns) == COLUMNS


def test_the_catalog_is_fast_after_the_first_call() -> None:
    inspector.option_catalog()
    started = time.process_time()
    for _ in range(5):
        inspector.option_catalog("scheduler")
    assert (time.process_time() - started) / 5 < 0.05
