"""Detectors of memory that the program need not use."""
