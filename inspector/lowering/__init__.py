"""Lowers the user's Python to a `Lowered`. The only package that runs user code."""
