"""Detectors of operations that a cheaper form replaces."""
