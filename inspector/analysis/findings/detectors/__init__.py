"""The detectors of findings: one module for each kind, sorted by subject. Each has a function from a `Subject` to its findings."""
