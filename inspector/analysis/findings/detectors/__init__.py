"""The detectors of findings: one module for each kind. Each has a function from a `Subject` to its findings."""
