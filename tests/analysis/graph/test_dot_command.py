"""Graphviz without a system `dot`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inspector.analysis.graph import dot
from tests.conftest import RunPython


def test_notes_of_fonts_are_left_out_and_warnings_are_not(tmp_path: Path) -> None:
    newer = tmp_path / "fonts.conf"
    newer.write_text("<fontconfig><from-a-later-version/></fontconfig>")
    done = subprocess.run(
        [sys.executable, dot.__file__, "-Tsvg"],
        input=b"digraph { a [shape=nonagon] }",
        env={**os.environ, "FONTCONFIG_FILE": str(newer)},
        capture_output=True,
        check=True,
    )
    assert b"</svg>" in done.stdout
    assert b"Fontconfig warning" not in done.stderr
    assert b"unknown shape nonagon" in done.stderr


@pytest.mark.slow
def test_graphs_draw_where_no_dot_is_on_the_path(tmp_path: Path, one_device_python: RunPython) -> None:
    script = """
import shutil
assert shutil.which("dot") is None
import inspector, jax.numpy as jnp
from inspector.engines.inline import InlineEngine
compiled = inspector.lower(lambda x: jnp.sin(x) @ x, jnp.ones((3, 3))).compile(engine=InlineEngine())
source = compiled.graph()
print("<svg" in source._repr_image_svg_xml(), source.pipe("png")[1:4], source.pipe("svg", encoding="utf-8").count("<g "))
"""
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {"PATH": str(empty), "XDG_CACHE_HOME": str(tmp_path / "a 'cache'")}
    for _ in range(2):
        out = one_device_python(script, environment).stdout
        assert out.startswith("True b'PNG'")
    # The second process uses the first one's script.
    assert len(list((tmp_path / "a 'cache'" / "inspector").glob("dot-*"))) == 1


def test_the_script_takes_files_as_dot_does(tmp_path: Path) -> None:
    import sys

    from inspector.analysis.graph import dot

    (tmp_path / "g.gv").write_text("digraph { a -> b }")
    command = [sys.executable, "-P", dot.__file__, "-Kdot", "-Tsvg", "-O", str(tmp_path / "g.gv")]
    subprocess.run(command, check=True)
    assert "<svg" in (tmp_path / "g.gv.svg").read_text()


def test_a_missing_system_library_is_named_with_its_package(tmp_path: Path) -> None:
    missing = "libgobject-2.0.so.0: cannot open shared object file: No such file or directory"
    (tmp_path / "pygraphviz.py").write_text(f"raise ImportError({missing!r})")
    run = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import runpy; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", run, dot.__file__, "-Tsvg"], input="digraph {}", capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"pygraphviz cannot be loaded: {missing}. Install it: `apt-get install libglib2.0-0 libxrender1`"
    )
    assert "Traceback" not in done.stderr
