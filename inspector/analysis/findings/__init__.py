"""What a user can change in a program, and what it would gain: findings, computed from values without a compiler.

`detectors/` has a module for each kind; `registry.py` lists them. `stages/findings.py` adds the proofs, which compile.
"""
