"""Pictures show in a notebook that never imported pyplot."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from inspector.analysis.mesh_plot import plot_groups
from inspector.hlo.mesh import Mesh
figure = plot_groups(Mesh(("i",), (4,), "replica"), [(0, 1), (2, 3)])
data, _ = InteractiveShell.instance().display_formatter.format(figure)
assert "matplotlib.pyplot" not in sys.modules
print(data["image/png"][:8])
"""


def test_a_figure_is_a_png_to_ipython() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip().endswith(repr(b"\x89PNG\r\n\x1a\n")), done.stderr
