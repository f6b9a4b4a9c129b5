"""IPython's shell in a notebook kernel. Imports nothing: outside of notebooks there may be no IPython."""

from __future__ import annotations

import sys
from typing import Any


def notebook_shell() -> Any:
    """Returns the shell of the notebook kernel that this process is; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


def is_batch() -> bool:
    """Reports whether the running cell is executed in batch, as by nbconvert, where no user can answer."""
    shell = notebook_shell()
    return shell is not None and getattr(shell.kernel, "_allow_stdin", True) is False
