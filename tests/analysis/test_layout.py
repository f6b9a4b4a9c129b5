"""Graphviz in a process of its own: bounded in time, and without a system `dot`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from inspector.analysis import dot
from inspector.analysis.layout import LayoutError, svg
from tests.conftest import RunPython

DENSE = "digraph {" + "".join(f"n{i} -> n{(i * 7 + k * k) % 1000};" for i in range(1000) for k in range(1, 4)) + "}"


def test_an_svg_element_without_prologue() -> None:
    text = svg('digraph { "a" [label="é <b> & \\"q\\"", id="node-a"]; "a" -> "b"; }')
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    words = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert 'é <b> & "q"' in words
    assert "node-a" in [e.get("id") for e in root.iter()]


def test_a_layout_that_takes_too_long_is_killed() -> None:
    assert DENSE.count("->") == 3000
    before = children()
    with pytest.raises(LayoutError, match=r"did not lay out the graph in 0\.5 s\. Draw what is around one instruction"):
        svg(DENSE, limit_s=0.5)
    assert children() <= before


def children() -> set[str]:
    """Processes below this one (Linux; elsewhere none are seen)."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(path.read_text().split()) if path.exists() else set()


@pytest.mark.parametrize("junk", ["", "digraph {", "not a graph", 'digraph { "a -> b }', "\0\1\2"])
def test_what_is_no_dot_is_refused(junk: str) -> None:
    with pytest.raises(LayoutError, match="Graphviz refused the graph"):
        svg(junk)


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

    from inspector.analysis import dot

    (tmp_path / "g.gv").write_text("digraph { a -> b }")
    command = [sys.executable, "-P", dot.__file__, "-Kdot", "-Tsvg", "-O", str(tmp_path / "g.gv")]
    subprocess.run(command, check=True)
    assert "<svg" in (tmp_path / "g.gv.svg").read_text()
