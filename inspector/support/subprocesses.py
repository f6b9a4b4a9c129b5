"""Import paths and program search paths of processes that inspector starts.

The current folder is never searched. Users unpack downloaded files into a notebook's folder, and Python would import a
`json.py` there instead of the standard module.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

# Search paths in which empty and relative entries refer to the current folder.
_SEARCHED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# Packages that every process of ours needs. Their folders stay on the path, at its end if they are the current folder,
# so that other imports find installed packages first.
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
    """Returns a command that runs code in a new interpreter, which sets `import_path()` before it imports anything.

    If this process imported a needed package from the current folder although another one is installed, the new process
    imports it from there too.

    Args:
      code: statements; `sys` is imported, and `sys.argv[1:]` are the arguments.
      arguments: arguments of the code.
    """
    return [sys.executable, "-P", "-c", _BOOT + code, json.dumps([import_path(), _from_here()]), *arguments]


def kill_group(leader: int) -> None:
    """Kills the processes of a group, which the process with id `leader` leads, if there are any."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def import_path() -> list[str]:
    """Returns this process's `sys.path` without the current folder and without relative entries."""
    entries = [entry for entry in sys.path if not is_here(entry)]
    homes = dict.fromkeys(home for name in _NEEDED if (home := _home(name)) and home not in entries)
    return [*entries, *(home for home in homes if home not in map(os.path.realpath, entries))]


def _from_here() -> dict[str, list[str]]:
    """Returns the folders, by name, of the packages that `import_path()` would import from elsewhere."""
    folders, path = {}, import_path()
    for name in _NEEDED:
        home = _home(name)
        first = next((entry for entry in path if os.path.isdir(f"{entry}/{name}")), home)  # noqa: PTH112
        if home is not None and first is not None and os.path.realpath(first) != home:
            folders[name] = [f"{home}/{name}"]
    return folders


def environ() -> dict[str, str]:
    """Returns this process's environment, without the current folder on any search path."""
    variables = dict(os.environ)
    for name in _SEARCHED:
        entries = [entry for entry in variables.pop(name, "").split(os.pathsep) if not is_here(entry)]
        if entries:  # an empty PATH would mean the current folder; an unset one means the system's default
            variables[name] = os.pathsep.join(entries)
    return variables


def current_folder() -> str | None:
    """Returns the current folder; None if it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109  a text
    except OSError:
        return None


def is_here(entry: str) -> bool:
    """Reports whether an entry of a search path is the current folder or a relative path."""
    if not os.path.isabs(entry):  # noqa: PTH117  "" and relative paths, as strings
        return True
    try:
        current = current_folder()
        return current is not None and os.path.realpath(entry) == os.path.realpath(current)
    except OSError:  # a parent folder was deleted
        return False


def _home(name: str) -> str | None:
    """Returns the folder from which a package was imported; None if it was not imported."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return os.path.realpath(os.path.dirname(os.path.dirname(file))) if file else None  # noqa: PTH120
