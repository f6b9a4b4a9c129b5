"""Colab, which must be asked before it shows a widget, and Python in the browser, which cannot compile."""

from __future__ import annotations

from tests.conftest import RunPython

COLAB = """
import sys, types
import google.protobuf
for name in ("google.colab", "google.colab.output"):
    sys.modules[name] = types.ModuleType(name)
google.colab = sys.modules["google.colab"]
google.colab.output = sys.modules["google.colab.output"]
google.colab.output.enable_custom_widget_manager = lambda: print("enabled")
from inspector.widgets.app import App
print("imported")
App("step")
print("made")
"""

PYODIDE = """
import sys
sys.platform = "emscripten"
import inspector
try:
    inspector.explore(abs, 1.0)
except inspector.InspectorError as error:
    print(error)
"""


def test_making_a_widget_enables_it_in_colab(one_device_python: RunPython) -> None:
    assert one_device_python(COLAB).stdout.split() == ["imported", "enabled", "made"]


def test_python_in_the_browser_is_refused_with_the_reason(one_device_python: RunPython) -> None:
    said = one_device_python(PYODIDE).stdout
    assert "JupyterLite" in said
    assert "no jaxlib" in said
    assert "JupyterLab, Colab or Binder" in said
