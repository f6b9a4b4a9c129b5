"""Pictures show in a notebook that never imported pyplot, and say in words what they show."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp

import inspector
from inspector.analysis.figures import Picture

SCRIPT = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from inspector.analysis.collectives.mesh_plot import plot_groups
from inspector.hlo.devices.mesh import Mesh
figure = plot_groups(Mesh(("i",), (4,), "replica"), [(0, 1), (2, 3)])
data, metadata = InteractiveShell.instance().display_formatter.format(figure)
assert "matplotlib.pyplot" not in sys.modules
assert metadata["image/png"] == {"alt": figure.alternative_text}
print(data["image/png"][:8])
"""


def test_a_figure_is_a_png_to_ipython() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip().endswith(repr(b"\x89PNG\r\n\x1a\n")), done.stderr


def test_a_picture_has_its_titles_and_labels_as_text() -> None:
    summed = inspector.lower(lambda x: jax.lax.psum(x, "i"), jnp.ones(8), axis_env=[("i", 4), ("j", 2)]).collectives()
    said = {
        "groups": summed.plot(0),
        "strip": summed.exchange(0, "ring").plot(),
        "parts": inspector.sharding(jax.P("a", "b"), {"a": 2, "b": 2}, shape=(4, 6)).plot(),
    }
    texts = {name: repr(picture) for name, picture in said.items()}
    assert texts == {
        "groups": "<Picture: all-reduce over i; i; j>",
        "strip": "<Picture: all-reduce of 4 members by ring (textbook); start; after step 1; after step 2; after step 3;"
        " after step 4; after step 5; after step 6>",
        "parts": "<Picture: dimension 0: a; dimension 1: b>",
    }
    loads = summed.link_loads(0, inspector.Torus((4, 2), (True, False), 1e9))
    assert f"{loads.name} by ring (textbook) at most 48 B on a link" in repr(loads.plot())
    assert repr(Picture()) == "<Picture: without a title>"


def test_titles_are_read_wherever_they_stand() -> None:
    picture = Picture()
    picture.subplots().set_title("a title on the left", loc="left")
    assert picture.alternative_text == "a title on the left"
