"""Optional products of a compile (passes, backend code, buffers), read from the files that XLA writes."""
