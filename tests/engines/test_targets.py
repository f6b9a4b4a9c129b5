"""`targets()`: what the table says must be so."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import pytest

import inspector
from inspector import platforms
from inspector._jax.compiling import ahead_of_time
from inspector.engines.targets import offered_targets, target_rows
from inspector.support.install_commands import install_command

COLUMNS = ["target", "platform", "device_kind", "device_count", "available", "reason", "can_run"]


def test_every_row_is_a_target() -> None:
    table = inspector.targets()
    assert list(table.columns) == COLUMNS
    assert table.target.is_unique
    for row in table.itertuples():
        target = inspector.Target.parse(row.target)
        assert str(target) == row.target
        if target.kind != "attached":
            assert (target.platform, target.device_count) == (row.platform, row.device_count)
        assert row.can_run is not target.is_absent
        assert row.available or row.reason
    names = {inspector.Target.parse(t).chip for t in table.target}
    assert names == {"", *(chip.name for chip in platforms.chips())}
    attached = table.iloc[0]
    assert (attached.target, attached.device_count) == ("attached", jax.local_device_count())
    assert set(offered_targets()) <= set(table.target[table.available])


def test_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n in ("libtpu", "jax_plugins") else real(n, *a)
    )
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    table = inspector.targets().set_index("target")
    for target, extra in (("tpu:v5e:2x4", "jax-inspector[tpu]"), ("gpu:h100:8", "jax-inspector[cuda]")):
        assert not table.available[target]
        assert install_command(extra) in table.reason[target]
    assert all(inspector.Target.parse(t).platform in (None, "cpu") for t in offered_targets())


@pytest.mark.slow
def test_all_that_is_available_compiles() -> None:
    table, compiled = inspector.targets(), {}
    for row in table[table.available].itertuples():
        lowered = inspector.lower(
            lambda x: jnp.tanh(x @ x), jax.ShapeDtypeStruct((64, 64), jnp.float32), platform=row.platform
        )
        compiled[row.target] = lowered.compile(target=row.target)
    for target, one in compiled.items():
        kind = table.set_index("target").device_kind[target]
        assert one.devices[0].startswith(kind), target


@pytest.mark.parametrize(
    ("why_not", "said"),
    [
        (("", ""), (True, "")),
        (("", "no code"), (True, "no code")),
        (("no plugin", "no code"), (False, "no plugin")),
        (("no plugin", ""), (False, "no plugin")),
    ],
)
def test_the_reason_why_programs_cannot_run_is_separate_from_compiling(
    why_not: tuple[str, str], said: tuple[bool, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead_of_time, "why_not", lambda *_: why_not)
    for row in target_rows():
        if inspector.Target.parse(row.target).is_absent:
            assert (row.available, row.reason, row.can_run) == (*said, False)
        else:
            assert (row.available, row.reason, row.can_run) == (True, "", True)
