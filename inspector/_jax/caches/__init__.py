"""JAX's caches: the persistent compilation cache, and misses of the tracing and compile caches."""
