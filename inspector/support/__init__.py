"""Helpers for all other packages: units, tables, files, subprocesses, packages. Independent of compilers."""
