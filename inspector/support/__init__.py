"""Helpers for every other package: units, tables, files, subprocesses, packages. Knows nothing about compilers."""
