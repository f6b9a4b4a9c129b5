"""Detectors of what the Python program costs: compile time, and waiting for the host."""
