"""Findings: changes that would make a program faster or smaller, with their gains. Computed from values, without a compiler.

`detectors/` has a module for each kind, sorted by subject; `registry.py` lists them. `stages/findings.py` adds the proofs, which compile.
"""
