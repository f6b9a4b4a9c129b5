"""A few corrupted and hostile files of explorations; `python -m tests.fuzz.bundles` makes 1,000 and 200."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inspector.errors import InspectorError
from inspector.reports import bundle
from inspector.widgets.saving.fallback import html_form
from tests.fuzz import bundles


@pytest.mark.slow
def test_files_that_mean_harm_are_refused_or_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # and back
    found, grown = bundles.fuzz(1, 40, 40)
    assert [o for o in found if o.bad] == []
    assert {o.kind for o in found} >= {*bundles.CORRUPTED}
    assert {o.said for o in found} >= {"ok", "ModuleError"}
    assert grown < bundles.MAX_EXTRA_BYTES


def test_names_that_are_markup_stay_text(tmp_path: Path) -> None:
    """Texts of a file are escaped wherever they become HTML."""
    good = bundles.unpacked(sorted(bundles.KEPT.iterdir())[0])
    for name in bundles.documents(good):
        if b'"name":"jit_step"' in good.get(name, b""):
            good = bundles.replaced(good, name, good[name].replace(b'"name":"jit_step"', b'"name":"<script>alert(1)"'))
    bundles.packed(tmp_path / "x", good)
    loaded = bundles.inspector.load(tmp_path / "x")
    assert isinstance(loaded, bundles.Exploration)
    explorer = loaded.explorer().wait(60)
    assert explorer.lowered.name == "<script>alert(1)"
    shown = html_form(explorer.lowered, explorer.variants)
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script" not in shown
    explorer.close()


def test_more_variants_than_anybody_has_are_refused(tmp_path: Path) -> None:
    good = bundles.unpacked(sorted(bundles.KEPT.iterdir())[0])
    manifest = json.loads(good[bundles.MANIFEST])
    manifest["content"]["variants"] *= 400
    bundles.packed(tmp_path / "x", {**good, bundles.MANIFEST: json.dumps(manifest).encode()})
    with pytest.raises(InspectorError, match="an exploration of 1,200 variants, expected 1 to 1,000"):
        bundle.load(tmp_path / "x")
