"""Options of libtpu: what we take and refuse, against what libtpu makes of it."""

from __future__ import annotations

import pytest

from inspector.compilation.options import options_proto
from inspector.compilation.options.options import Options
from inspector.errors import FlagTypeError, OptionError, Unavailable, UnknownFlagError
from inspector.toolchain import flags
from inspector.toolchain.flags import FlagValue, libtpu
from inspector.toolchain.flags.types import libtpu_flags
from tests.absent import needs_tpu
from tests.libtpu import Outcome, compile_with

pytestmark = needs_tpu

ENABLED = "xla_enable_async_collective_permute"  # a TristateFlag
SCHEDULER = "xla_memory_scheduler"
LIMIT = "xla_tpu_cross_module_net_router_ring_limit"
MASK = "xla_tpu_collectives_dma_send_delay_mask"
RATIO = "xla_gf_vmem_min_overlap_to_async_copy_ratio"
AUTO_BOOL = "s8_coalescing_ignore_distance_for_pairing"
AUTO_FLOAT = "xla_lhs_loop_fusion_latency_multiplier"
SHARDY = "xla_shardy_options"
LOOPS = "xla_tpu_memory_bound_loop_optimizer_options"

GOOD: list[tuple[str, FlagValue, str]] = [
    ("xla_tpu_enable_minor_all_gather", False, "false"),
    ("xla_tpu_enable_minor_all_gather", "false", "false"),
    (LIMIT, 7, "7"),
    (LIMIT, "0x10", "16"),
    (LIMIT, 2**40, str(2**40)),
    (RATIO, 2.5, "2.5"),
    (RATIO, 2, "2"),
    (RATIO, "2.5", "2.5"),
    ("xla_tpu_ior_cmem", "a word", '"a word"'),
    (ENABLED, "enabled", "ENABLED"),
    (ENABLED, "Disabled", "DISABLED"),
    (ENABLED, True, "ENABLED"),
    (SCHEDULER, "list", "LIST"),
    (SCHEDULER, "LIST", "LIST"),  # which libtpu itself refuses in capitals
    (AUTO_BOOL, "auto", "{ }"),
    (AUTO_BOOL, True, "{ b: true }"),
    (AUTO_FLOAT, 2, "{ f: 2 }"),
    ("xla_jf_bounds_check", "DMA", '{ spec: "DMA" }'),
    ("xla_jf_llvm_flags", "a,b", '{ values: "a" values: "b" }'),
    ("xla_tpu_block_summary_split_specs", "1,2", "{ repeated_integers { values: 1 values: 2 } }"),
    ("xla_tpu_block_summary_split_specs", 3, "{ repeated_integers { values: 3 } }"),
    ("xla_optimization_level", "effort_o1", "{ effort_level: EFFORT_O1 }"),
    ("xla_tpu_vmem_scavenging_mode", "SAFE", "{ scavenging_mode: SAFE }"),
    (SHARDY, "enable_explicit_collectives: true", "{ shardy_options { enable_explicit_collectives: true } }"),
    (LOOPS, "enabled: true", "{ enabled: true }"),
]

BAD: list[tuple[str, object, str]] = [
    ("xla_tpu_enable_minor_all_gather", "maybe", "True or False"),
    ("xla_tpu_enable_minor_all_gather", 2, "True or False"),
    (LIMIT, True, "an int from"),
    (LIMIT, 7.5, "an int from"),
    (LIMIT, "7.0", "an int from"),
    (MASK, -1, "an int from 0 to 4294967295"),
    (MASK, 2**32, "uint32"),
    (RATIO, "two", "a finite float"),
    (ENABLED, 2, "one of auto, false, disabled, true, enabled"),
    (ENABLED, "enable", "Did you mean 'enabled'"),
    (SCHEDULER, "lists", "Did you mean 'list'"),
    (AUTO_BOOL, "car", "'auto' or True or False"),
    ("xla_tpu_block_summary_split_specs", "1,x", "int64 values, separated by commas"),
    (LOOPS, "bad_field: 1", "no field named"),
]

# libtpu takes these and makes nothing, or not what was meant, of them.
SWALLOWED: list[tuple[str, object, str]] = [
    ("xla_tpu_ior_cmem", 1, "a str"),
    ("xla_tpu_enable_minor_all_gather", 1, "Write True"),
    (SHARDY, "bad_field: 1", "Its fields: enable_explicit_collectives"),
    (RATIO, float("inf"), "a finite float"),
]


@pytest.fixture(scope="module")
def taken() -> list[Outcome]:
    """libtpu's answers to `GOOD`, handed over as an engine does it."""
    return compile_with([options_proto.overrides({name: value}) for name, value, _ in GOOD])


@pytest.fixture(scope="module")
def refused() -> list[Outcome]:
    return compile_with([{name: value} for name, value, _ in BAD])


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(GOOD)), ids=[f"{name}={value}" for name, value, _ in GOOD])
def test_accepted_values_are_parsed_equally_by_libtpu(taken: list[Outcome], index: int) -> None:
    name, value, expected = GOOD[index]
    Options(flags={name: value}).check()
    assert taken[index].error == ""
    assert taken[index].field(name) == expected


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(BAD)), ids=[f"{name}={value}" for name, value, _ in BAD])
def test_refused_values_are_refused_by_libtpu(refused: list[Outcome], index: int) -> None:
    name, value, message = BAD[index]
    with pytest.raises(FlagTypeError, match=message) as caught:
        flags.check_value(name, value)
    assert name in str(caught.value)
    assert name in refused[index].error


@pytest.mark.parametrize(("name", "value", "message"), SWALLOWED)
def test_values_that_libtpu_would_ignore_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(FlagTypeError, match=message):
        flags.check_value(name, value)


@pytest.mark.slow
def test_every_flag_at_its_default_is_taken_per_compile() -> None:
    types = {name: flags.flag_type(name) for name in libtpu_flags()}
    defaults = {name: libtpu.default(name, type_) for name, type_ in types.items() if type_.is_per_compile}
    known = {name: value for name, value in defaults.items() if not isinstance(value, Unavailable)}
    assert len(known) > 1100
    options = Options(flags=known)
    options.check()
    plain, (set_, *_) = compile_with([{}])[0], compile_with([options_proto.overrides(options.flags)])
    assert set_.error == ""
    for name in known:
        # What is said is said, also where it is "auto".
        assert set_.field(name) == plain.field(name), name


@pytest.mark.slow
def test_flags_that_no_compile_takes_are_passed_by_init_args() -> None:
    options = Options.parse(
        "--xla_tpu_rwb_fusion=false --xla_jf_dump_llo_text=false --xla_mosaic_dump_to=/tmp/x"
        " --xla_sc_log_hlo_inputs_scs_re=a --xla_dump_to=/tmp/y"
    )
    assert libtpu.init_args(options.flags) == ("--xla_jf_dump_llo_text=false", "--xla_mosaic_dump_to=/tmp/x")
    assert options_proto.overrides(options.flags) == {
        "xla_dump_to": "/tmp/y", "xla_sc_log_hlo_inputs_scs_re": "a", "xla_tpu_rwb_fusion": False,
    }  # fmt: skip
    assert options_proto.additions(options.flags, options.extra_proto) == b""
    (outcome,) = compile_with([{}], init_args=" ".join(libtpu.init_args(options.flags)))
    assert outcome.flags["xla_jf_dump_llo_text"] == "false"
    assert outcome.flags["xla_mosaic_dump_to"] == "/tmp/x"


def test_a_compile_takes_no_flag_of_the_process() -> None:
    (outcome,) = compile_with([{"xla_jf_dump_llo_text": False}])
    assert "No such compile option" in outcome.error


def test_libtpu_splits_at_white_space() -> None:
    with pytest.raises(OptionError, match=r"xla_mosaic_dump_to='\\x00' has white space or a null character"):
        libtpu.init_args({"xla_mosaic_dump_to": "\0"})
    with pytest.raises(OptionError, match="xla_mosaic_dump_to='/tmp/a b' has white space"):
        libtpu.init_args({"xla_mosaic_dump_to": "/tmp/a b"})


def test_options_without_flags_of_libtpu_have_no_init_args(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector.toolchain.flags import types as flag_types

    monkeypatch.setattr(flag_types, "_libtpu", lambda: pytest.fail("read libtpu"))
    assert libtpu.init_args({"xla_dump_to": "x", "xla_cpu_enable_fast_math": True}) == ()


def test_texts_and_differences() -> None:
    text = f"--{LIMIT}=7 --{SCHEDULER}=LIST --xla_tpu_rwb_fusion --{AUTO_BOOL}=auto --{AUTO_FLOAT}=2"
    options = Options.parse(text)
    assert dict(options.flags) == {
        AUTO_BOOL: "auto", AUTO_FLOAT: 2.0, SCHEDULER: "list", LIMIT: 7, "xla_tpu_rwb_fusion": True,
    }  # fmt: skip
    assert Options.parse(str(options)) == options
    assert options.diff(Options.parse("--xla_tpu_rwb_fusion=false"))["xla_tpu_rwb_fusion"] == (True, False)


def test_through_a_proto_and_back() -> None:
    options = Options(flags={LIMIT: 7, SCHEDULER: "list", "xla_tpu_rwb_fusion": False})
    assert Options.from_proto(options.to_proto()).flags == options.flags


def test_near_misses_and_removed_names() -> None:
    with pytest.raises(UnknownFlagError, match="Did you mean xla_tpu_rwb_fusion"):
        flags.flag_type("xla_tpu_rwb_fusoin")
    with pytest.raises(UnknownFlagError, match="was a flag of libtpu and does not exist in the installed version"):
        flags.flag_type("xla_tpu_use_native_scatter")
