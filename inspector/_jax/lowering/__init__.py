"""Private JAX for tracing and lowering functions: jaxprs, stages, Pallas kernels and axis environments."""
