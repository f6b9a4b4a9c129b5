"""The wall: the only package that uses private JAX and jaxlib. Its functions exchange bytes, text, numbers and dicts."""

import os
import sys

from inspector.errors import MissingPackageError

# Modules of this package import jaxlib before JAX, which sets this level: otherwise XLA logs its devices to the notebook.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

if sys.platform == "emscripten":
    raise MissingPackageError(
        "inspector cannot compile in the browser (JupyterLite, Pyodide): there is no jaxlib for it. Run the notebook in a "
        "regular Python (JupyterLab, Colab or Binder), or open a page that `explorer.save_html` wrote: such a page needs "
        "no Python."
    )
