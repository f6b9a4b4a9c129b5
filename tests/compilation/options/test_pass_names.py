"""Names of passes in flags, against passes that XLA was seen to skip."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from inspector.compilation.options import pass_names
from inspector.compilation.options.options import Options
from inspector.errors import Unavailable
from inspector.lowering.lower import lower
from inspector.toolchain import xla
from tests.absent import needs_tpu

DISABLE = "xla_disable_hlo_passes"


@pytest.mark.parametrize("name", [
        "algsimp", "dce", "float-normalization-bf16", "simplification", "fusion",
        "simplification after layout assignment",
    ],
)  # fmt: skip
def test_passes_that_there_are(name: str) -> None:
    assert pass_names.pass_warnings(Options(flags={DISABLE: name})) == ()


def test_one_warning_a_name_with_the_nearest() -> None:
    first, second = pass_names.pass_warnings(Options(flags={DISABLE: "algsimpp,dce, cse"}))
    assert first.startswith("xla_disable_hlo_passes has 'algsimpp', which is not the name of a known pass of jaxlib ")
    assert first.endswith("Did you mean algsimp?")
    assert second.endswith("Write 'cse' without white space.")


def test_places_of_passes_where_xla_takes_them() -> None:
    places = "algsimp:2,simplification/algsimp,simplification/algsimp:1,@42,hlo normalization/dce"
    warnings = pass_names.pass_warnings(Options(flags={DISABLE: places}))
    if not _xla_reads_places():
        assert len(warnings) == 5
        return
    assert warnings == ()
    first, second = pass_names.pass_warnings(Options(flags={DISABLE: "algsimpp:2,simplificatoin/dce"}))
    assert "has 'algsimpp' in 'algsimpp:2', which is not the name of a known pass" in first
    assert "has 'simplificatoin' in 'simplificatoin/dce'" in second
    assert "Did you mean simplification" in second


def test_only_flags_of_passes_have_entries_with_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_names, "takes_places", lambda: True)
    named = {flag: pass_names._names(flag, "pipeline/pass:2") for flag in pass_names.PASS_FLAGS}
    assert named[DISABLE] == ("pipeline", "pass")
    assert {names for flag, names in named.items() if flag not in pass_names._WITH_PLACES} == {("pipeline/pass:2",)}
    monkeypatch.setattr(pass_names, "takes_places", lambda: False)
    assert pass_names._names(DISABLE, "pipeline/pass:2") == ("pipeline/pass:2",)


def _xla_reads_places() -> bool:
    try:
        jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2,), jnp.float32)).compile({DISABLE: "@x"})
    except jax.errors.JaxRuntimeError as e:
        return "expected an integer after '@'" in str(e)
    return False


def test_flags_without_passes_ask_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "pass_names", lambda: pytest.fail("looked for passes"))
    assert pass_names.pass_warnings(Options(flags={"xla_dump_to": "junk", DISABLE: ""})) == ()


def test_unknown_pass_names_give_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Unavailable("another architecture")
    monkeypatch.setattr(xla, "pass_names", lambda: unknown)
    assert "junk" in pass_names.pass_warnings(Options(flags={DISABLE: "junk"}))[0]
    monkeypatch.setattr(xla, "passes_run", lambda: unknown)
    assert pass_names.pass_warnings(Options(flags={DISABLE: "junk"})) == ()


@needs_tpu
def test_names_of_libtpu() -> None:
    known = Options(flags={DISABLE: "algsimp,tpu_fusion,simplification-1,tpu-copy-normalizer"})
    assert pass_names.pass_warnings(known, "tpu") == ()
    (warning,) = pass_names.pass_warnings(Options(flags={DISABLE: "async-collective-fusoin"}), "tpu")
    assert "not the name of a known pass of libtpu" in warning
    assert "Did you mean async-collective-fusion" in warning


def test_pass_names_of_gpus_are_unknown() -> None:
    assert pass_names.pass_warnings(Options(flags={DISABLE: "junk"}), "gpu") == ()


def test_compiled_has_a_warning_that_xla_lacks() -> None:
    lowered = lower(lambda x: jnp.tanh(x) + x * 1, jax.ShapeDtypeStruct((8,), jnp.float32))
    assert lowered.compile(target="cpu").warnings == ()
    (warning,) = lowered.compile({DISABLE: "algebraic-simplifier"}, target="cpu").warnings
    assert "'algebraic-simplifier'" in warning
