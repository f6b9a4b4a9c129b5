"""`python -m inspector`: the command line."""

from __future__ import annotations

import os
import sys

# Python puts the current folder first, where a `json.py` that somebody unpacked would be taken for its own.
try:
    _here = os.getcwd()  # noqa: PTH109 - as Python wrote it
except OSError:  # deleted
    _here = ""
sys.path[:] = [entry for entry in sys.path if entry not in ("", _here)]

from inspector.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
