"""Private JAX used to trace and lower functions: jaxprs, stages, Pallas kernels, axis environments."""
