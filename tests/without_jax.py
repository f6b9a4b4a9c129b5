"""Python as it is where JAX is not installed."""

from __future__ import annotations

WITHOUT_JAX = """
import importlib.util, sys
def is_absent(name):
    return name.split(".")[0] in ("jax", "jaxlib")
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if is_absent(name):
            raise ModuleNotFoundError("No module named " + name, name=name)
sys.meta_path.insert(0, Blocked())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if is_absent(name) else find_spec(name, *rest)
"""
"""The beginning of a script that must run without JAX."""
NO_JAX = 'assert not any(map(is_absent, sys.modules)), "JAX was imported"'
"""Holds behind what may not import it."""
