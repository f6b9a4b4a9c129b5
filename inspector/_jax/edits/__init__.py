"""Edits of StableHLO modules for the proofs of findings."""
