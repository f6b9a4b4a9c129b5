"""Processes that inspector starts: what they may import, and where programs are looked for.

Never in the current folder. A notebook's folder is where people unpack what others sent them, and
Python would take a `json.py` there for its own.
"""

from __future__ import annotations

import json
import os
import sys

# The search paths whose empty and relative entries mean the current folder.
_SEARCHED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# What a process of ours cannot do without: its folder stays on the path, last where it is the current one. What others
# import comes before them.
_NEEDED = ("numpy", "jaxlib", "jax", "inspector")
_BOOT = """import sys, json
sys.path[:], packages = json.loads(sys.argv.pop(1))
for name, folders in packages.items():
    import importlib.util
    init = folders[0] + "/__init__.py"
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=folders)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
"""


def python(code: str, *arguments: str) -> list[str]:
    """The command that runs code in a fresh interpreter, with `import_path()` before anything is imported.

    What this process has from the current folder, though another is installed, comes from there too.

    Args:
      code: statements; `sys` is there, and `sys.argv[1:]` are the arguments.
      arguments: for the code.
    """
    return [sys.executable, "-P", "-c", _BOOT + code, json.dumps([import_path(), _from_here()]), *arguments]


def import_path() -> list[str]:
    """This process's `sys.path`, without the current folder and whatever is named relative to it."""
    kept = [entry for entry in sys.path if not is_here(entry)]
    homes = dict.fromkeys(home for name in _NEEDED if (home := _home(name)) and home not in kept)
    return [*kept, *(home for home in homes if home not in map(os.path.realpath, kept))]


def _from_here() -> dict[str, list[str]]:
    """The folder of each package of which `import_path()` would give another than this process has, by name."""
    found, path = {}, import_path()
    for name in _NEEDED:
        home = _home(name)
        given = next((entry for entry in path if os.path.isdir(f"{entry}/{name}")), home)  # noqa: PTH112
        if home is not None and given is not None and os.path.realpath(given) != home:
            found[name] = [f"{home}/{name}"]
    return found


def environ() -> dict[str, str]:
    """This process's environment, without the current folder on any search path."""
    found = dict(os.environ)
    for name in _SEARCHED:
        kept = [entry for entry in found.pop(name, "").split(os.pathsep) if not is_here(entry)]
        if kept:  # an empty PATH would mean the current folder, none means the system's
            found[name] = os.pathsep.join(kept)
    return found


def current_folder() -> str | None:
    """The current folder; None where it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109  a text
    except OSError:
        return None


def is_here(entry: str) -> bool:
    """Whether an entry of a search path is the current folder, or named relative to it."""
    if not os.path.isabs(entry):  # noqa: PTH117  "" and what is relative, as strings
        return True
    try:
        here = current_folder()
        return here is not None and os.path.realpath(entry) == os.path.realpath(here)
    except OSError:  # a folder on the way was deleted
        return False


def _home(name: str) -> str | None:
    """The folder from which a package was imported, None for one that was not."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return os.path.realpath(os.path.dirname(os.path.dirname(file))) if file else None  # noqa: PTH120
