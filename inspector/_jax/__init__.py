"""The wall: the only room that touches private JAX and jaxlib. Gives and takes bytes, text, numbers and dicts."""

import sys

from inspector.errors import MissingPackageError

if sys.platform == "emscripten":
    raise MissingPackageError(
        "inspector cannot compile here: this Python runs in the browser (JupyterLite, Pyodide), for which there is no "
        "jaxlib. Run the notebook where Python runs by itself: JupyterLab, Colab or Binder; or open a page that "
        "`explorer.save_html` wrote, which needs no Python."
    )
