"""JAX's caches: persistent compilation cache, tracing and compile cache misses."""
